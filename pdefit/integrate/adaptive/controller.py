"""Choice of adaptive steps: the time grid for a given tolerance.

The controller is our own and not diffrax's (0.7.2), because of the resulting grid. A fit takes the frozen steps of a
trajectory hundreds of times, and every interval is padded to the longest one.
`ClipStepSizeController(PIDController)` with the same gains shortens only the last step before an observation, down to
1/550 of its neighbours. On five problems it takes 0.99 to 1.16 times as many steps. In the worst case (Fisher-KPP,
Tsit5, 21 observations) the longest interval has 9 steps instead of 7, padded to 16 instead of 8. PI gains of 0.3 and
0.4 take 1.2 to 1.9 times as many steps. One pass takes 1.0 to 1.3 times as long with room for 10^6 steps, and a first
call, with its compilation, 1.05 to 2.4 times. `diffeqsolve` also promotes a float32 state to the float64 of its times,
and has one `atol` for all fields.
"""

from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError, with_space
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.integrate.loop.bends import bends, beside_jumps
from pdefit.integrate.loop.stable_step import demand_values, longest_step
from pdefit.integrate.loop.stepper import AbstractStepper, Stepper
from pdefit.integrate.loop.time_grid import TimeGrid, edges_of, frozen_grid
from pdefit.integrate.loop.time_loop import precision, store_all
from pdefit.integrate.solvers.method import embedded_method_of
from pdefit.systems.courses import courses
from pdefit.systems.events import Events
from pdefit.systems.system import AbstractSystem

# a pass accepts errors up to ACCEPTED of the tolerance and aims at AIM: frozen steps serve other parameters too, whose
# errors may be larger
AIM, ACCEPTED = 0.25, 0.5
# factors by which one step may differ from the one before
_SHRINK, _GROW = 0.2, 5.0
MOST_STEPS = 1_000_000
# steps tried by one call of the compiled loop: memory for these is all that a pass holds, however long it is
_TRIES = 1024


def adaptive_grid(
    system: AbstractSystem,
    y0: PyTree,
    ts: Float[np.ndarray, " I"],
    *,
    solver: diffrax.AbstractSolver,
    steps: Adaptive,
    t0: float,
    args: PyTree = None,
    ends: np.ndarray | None = None,
    events: Events | None = None,
) -> TimeGrid:
    """Time grid of an adaptive pass; its steps are then frozen.

    **Arguments:**

    - `system`: the equations.
    - `y0`: the state at t0.
    - `ts`: the observation times, in the system's time unit; the first may be t0 itself.
    - `solver`: a solver with an error estimate.
    - `steps`: the tolerance.
    - `t0`: the start time of the pass.
    - `args`: exogenous inputs of the system.
    - `ends`: further times at which steps end; by default events, the bends of inputs, and times beside jumps.
    - `events`: doses, infusions and resets.
    """
    embedded_method_of(solver)  # refused here, before anything is compiled
    demand_values([(system, y0)])
    steps.check(system, y0)
    observed, observes_start = edges_of(t0, ts)
    # an error says nothing about what lies between the stages of a step
    if ends is None:
        ends = bends(observed, np.inf, courses(system, y0, args, t0, observed[-1]))
        ends = np.union1d(ends, beside_jumps(system, y0, args, np.union1d(observed, ends)))
        ends = ends if events is None else np.union1d(ends, events.ends(observed))
    edges = np.union1d(observed, ends[(ends > observed[0]) & (ends < observed[-1])])
    stepper = Stepper(system, solver, args, None, events)
    state = _begin(stepper, steps, y0, jnp.asarray(edges))
    longest = longest_step(system, y0, solver)
    longest = jnp.asarray(longest if steps.dtmax is None else min(longest, steps.dtmax))
    sizes, intervals = [np.zeros(0)], [np.zeros(0, int)]
    taken = 0
    while int(state.interval) < edges.size - 1:
        state = _advance(stepper, steps, state, jnp.asarray(edges), longest)
        count = int(state.taken)
        taken += count
        sizes.append(np.asarray(state.sizes)[:count])
        intervals.append(np.asarray(state.intervals)[:count])
        unit = with_space(system.time_unit)
        where = f"at t = {float(state.t):g}{unit}"
        if bool(state.collapsed):
            raise PdefitError(
                f"The adaptive step of {type(system).__name__} collapses to {float(state.h):.1g}{unit} {where}: the model "
                f"blows up there, or the tolerance is below round-off; correct the parameters, or set rtol and atol larger"
            )
        if taken > MOST_STEPS:
            raise PdefitError(
                f"{type(system).__name__} takes more than {MOST_STEPS:.0e} adaptive steps, the last of "
                f"{float(state.h):.1g}{unit} {where}; set rtol and atol larger"
            )
    size, interval = np.concatenate(sizes), np.concatenate(intervals)
    cut = np.searchsorted(interval, np.searchsorted(edges, observed[1:-1]))
    return frozen_grid(observed, np.split(size, cut), observes_start)


class _Pass(NamedTuple):
    """An adaptive pass in progress.

    The state y at t, the next step h, and the steps of this call with the interval of each.
    """

    t: Array
    y: PyTree
    h: Array
    interval: Array
    collapsed: Array
    tried: Array
    taken: Array
    sizes: Array
    intervals: Array


@eqx.filter_jit
def _begin(stepper: Stepper, steps: Adaptive, y0: PyTree, edges: Float[Array, " E"]) -> _Pass:
    zero = jnp.zeros((), int)
    h = jnp.minimum(_first_step(stepper, steps, edges[0], y0), edges[-1] - edges[0])
    h = jnp.where(jnp.isfinite(h) & (h > 0), h, 1e-6 * (edges[-1] - edges[0]))
    empty = jnp.zeros(_TRIES), jnp.zeros(_TRIES, int)
    return _Pass(edges[0], y0, h, zero, jnp.zeros((), bool), zero, zero, *empty)


@eqx.filter_jit
def _advance(
    stepper: Stepper, steps: Adaptive, state: _Pass, edges: Float[Array, " E"], longest: Float[Array, ""]
) -> _Pass:
    """The pass after the largest number of steps of one call, or at its end."""
    method, dtype = embedded_method_of(stepper.solver), precision(state.y)
    smallest = 16 * jnp.finfo(jnp.float64).eps * jnp.maximum(jnp.abs(edges[0]), jnp.abs(edges[-1]))

    def running(s: _Pass) -> Array:
        return (s.interval < edges.size - 1) & (s.tried < _TRIES) & ~s.collapsed

    def body(s: _Pass) -> _Pass:
        left = edges[s.interval + 1] - s.t
        wanted = jnp.minimum(s.h, longest)
        # the last two steps before an observation share what is left, so that none is tiny
        last = wanted >= left * (1 - 1e-9)
        h = jnp.where(last, left, jnp.where(2 * wanted > left, left / 2, wanted))
        # the start of an interval is the time of an event to the bit
        system, begin = stepper.begun(s.t, h, s.y)
        y, error = method.step_with_error(system, s.t.astype(dtype), h.astype(dtype), begin, stepper.args)
        norm = steps.error(error, begin, y)
        # a step that is not finite is rejected, and reduced
        good = norm <= ACCEPTED
        factor = jnp.clip((AIM / jnp.maximum(norm, 1e-12)) ** (1 / method.estimate_order), _SHRINK, _GROW)
        proposed = h * jnp.where(jnp.isfinite(norm), factor, _SHRINK)
        # a step was cut short by an observation, which is no evidence against the longer one that was wanted
        proposed = jnp.where(good & (h < wanted), jnp.maximum(proposed, wanted), proposed)
        ends = good & last
        return _Pass(
            t=jnp.where(ends, edges[s.interval + 1], jnp.where(good, s.t + h, s.t)),
            y=jax.tree.map(lambda new, old: jnp.where(good, new, old), y, s.y),
            h=proposed,
            interval=s.interval + ends,
            collapsed=~good & (proposed < smallest),
            tried=s.tried + 1,
            taken=s.taken + good,
            # a step that is rejected is overwritten by the next
            sizes=s.sizes.at[s.taken].set(h),
            intervals=s.intervals.at[s.taken].set(s.interval),
        )

    return lax.while_loop(running, body, state._replace(tried=jnp.zeros((), int), taken=jnp.zeros((), int)))


def _first_step(stepper: Stepper, steps: Adaptive, t: Array, y: PyTree) -> Array:
    """First step size from the norms of y, y' and y'' (Hairer, Norsett, Wanner, II.4, doi:10.1007/978-3-540-78862-1)."""
    system, args, dtype = stepper.system, stepper.args, precision(y)
    slope, order = system.vector_field(t.astype(dtype), y, args), embedded_method_of(stepper.solver).estimate_order
    size, speed = steps.error(y, y, y), steps.error(slope, y, y)
    h = jnp.where((size < 1e-5) | (speed < 1e-5), 1e-6, 0.01 * size / jnp.where(speed > 0, speed, 1.0))
    moved = jax.tree.map(lambda u, k: u + h.astype(u.dtype) * k, y, slope)
    later = system.vector_field((t + h).astype(dtype), moved, args)
    bend = steps.error(jax.tree.map(jnp.subtract, later, slope), y, y) / h
    most = jnp.maximum(speed, bend)
    return jnp.minimum(100 * h, jnp.where(most > 1e-15, (0.01 / jnp.maximum(most, 1e-15)) ** (1 / order), 1e-3))


# --- the error of frozen steps at other parameters than those they were chosen for ------------------------------------


class _LargestError(AbstractStepper):
    """Steps of a state together with the largest error so far."""

    stepper: Stepper
    steps: Adaptive

    def init(self, t, y):
        return y, None

    def __call__(self, t, h, carry):
        (y, worst), _ = carry
        system, begin = self.stepper.begun(t, h, y)
        after, error = embedded_method_of(self.stepper.solver).step_with_error(system, t, h, begin, self.stepper.args)
        return (after, jnp.maximum(worst, self.steps.error(error, begin, after))), None

    def prepared(self, grid):
        return _LargestError(self.stepper.prepared(grid), self.steps)


@eqx.filter_jit
def step_error(
    stepper: Stepper, starts: PyTree, grid: TimeGrid, steps: Adaptive, batch: AbstractBatch | None = None
) -> Float[Array, ""]:
    """Largest error of all steps of a batch of trajectories, relative to the tolerance, by one forward run.

    **Arguments:**

    - `stepper`: the stepper, with a solver that estimates its error.
    - `starts`: the initial states, on a leading axis.
    - `grid`: the times of the steps, on a leading axis.
    - `steps`: the tolerance.
    - `batch`: how trajectories are batched; by default all run at once.
    """

    def worst(y0: PyTree, grid: TimeGrid) -> Array:
        inputs = np.zeros(grid.intervals + grid.observes_start)
        (_, largest), _ = store_all(
            _LargestError(stepper, steps).prepared(grid), (y0, jnp.zeros(())), grid, lambda y, _: jnp.zeros(()), inputs
        )
        return largest

    return jnp.max((batch or Vmap())(worst, starts, grid))
