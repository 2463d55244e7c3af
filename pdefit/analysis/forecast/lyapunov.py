"""The largest Lyapunov exponent: the rate at which neighbouring trajectories separate."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from pdefit._util.errors import PdefitError
from pdefit.adjoints.tangent.tangents_together import TangentLinearStepper, push
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.forward_runs import choose_numerics
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import stepped
from pdefit.systems.capabilities import AbstractConstrained
from pdefit.systems.events import Event, Events
from pdefit.systems.system import AbstractSystem

# number of blocks of intervals, whose exponents give the standard error
_BLOCKS = 10
# with fewer intervals nothing would be left to average after the transient is discarded
_FEWEST = 3


@dataclasses.dataclass(frozen=True)
class LyapunovResult:
    """The largest Lyapunov exponent of a trajectory.

    **Arguments:**

    - `exponent`: the mean growth rate of a tangent, in 1 / time unit of the system.
    - `standard_error`: its standard error, from the spread over ten blocks of intervals; NaN if there is none.
    - `growth` (I,): natural logarithm of the growth of the tangent over each interval.
    - `discarded`: number of intervals at the start that were not averaged.
    """

    exponent: float
    standard_error: float
    growth: np.ndarray
    discarded: int

    @property
    def time(self) -> float:
        """Lyapunov time, in which neighbouring trajectories separate by a factor e; infinite if they do not."""
        return 1 / self.exponent if self.exponent > 0 else np.inf

    def record(self, time_unit: str, valid_time: float) -> dict[str, Any]:
        """Its entries in summary.json.

        **Arguments:**

        - `time_unit`: the time unit of the system.
        - `valid_time`: the time over which a forecast is valid.
        """
        return {
            "exponent": self.exponent,
            "standard_error": self.standard_error,
            "unit": "1" if time_unit == "1" else f"1/{time_unit}",
            "time": self.time,
            "valid_time_in_lyapunov_times": valid_time / self.time if np.isfinite(self.time) else None,
        }


def lyapunov(
    system: AbstractSystem,
    y0: PyTree,
    ts: ArrayLike,
    *,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    steps: Adaptive | None = None,
    args: PyTree = None,
    events: Sequence[Event] | Events | None = None,
    key: PRNGKeyArray | None = None,
) -> LyapunovResult:
    """The largest Lyapunov exponent: the mean growth rate of a tangent along a trajectory.

        exponent = sum_i ln |dy(t_i+1)| / |dy(t_i)| / sum_i (t_i+1 - t_i)

    A random tangent is stepped together with the state by the derivative of the discrete step. It is rescaled to length
    1 at every time of `ts`. The first third of the intervals is discarded: there the tangent turns to the direction
    that grows fastest. Its length is the rms over all values, each field divided by its own rms in y0 (by 1 if that is
    zero).

    Over a span of a few Lyapunov times the result describes this piece of the trajectory, not the attractor.

    **Arguments:**

    - `system`, `y0`: the equations, and the state at ts[0].
    - `ts` (T,): increasing times, in the system's time unit; four or more. The tangent must not overflow between two of
      them.
    - `solver`: default RK4.
    - `dt`: the largest time step, in the system's time unit (default: 0.8 of the stable step).
    - `steps`: adaptive steps, in place of `dt`.
    - `args`: exogenous inputs of the equations.
    - `events`: doses, infusions and resets; earlier ones do not count.
    - `key`: draws the first tangent (default: a fixed key, so that results repeat).

    Source: G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn, Meccanica 15:9 (1980), doi:10.1007/BF02128236.
    """
    ts = np.asarray(ts, np.float64)
    if ts.size < _FEWEST + 1:
        raise PdefitError(
            f"A Lyapunov exponent expects {_FEWEST + 1} times or more, but got {ts.size}; give more times"
        )
    numerics = choose_numerics([(system, y0)], solver, dt, steps, args, Events.of(events))
    grid = numerics.grid(system, y0, ts, float(ts[0]))
    tangent = _random(y0, jax.random.key(0) if key is None else key)
    if isinstance(system, AbstractConstrained):
        tangent = push(system.project, (y0,), (tangent,))[1]
    growth = np.asarray(_growth(numerics.stepper(system), y0, tangent, grid))
    return _result(growth, np.diff(ts))


@eqx.filter_jit
def _growth(stepper: Stepper, y0: PyTree, tangent: PyTree, grid: TimeGrid) -> Float[Array, " I"]:
    """Natural logarithm of the growth of the tangent over every interval."""
    # tangents of the state only: parameters do not change
    pushed = TangentLinearStepper(stepper, jax.tree.map(lambda _: None, stepper)).prepared(grid)
    scales = jax.tree.map(_scale, y0)

    def interval(carry: PyTree, t_h: tuple[Array, Array]) -> tuple[PyTree, Array]:
        ((y, dy), (state, d_state)), _ = lax.scan(lambda c, x: (stepped(pushed, c, x), None), carry, t_h)
        length = _length(dy, scales)
        # a solver that remembers earlier stages holds tangents too, which are rescaled with it
        dy, d_state = _divided((dy, d_state), length)
        return ((y, dy), (state, d_state)), jnp.log(length)

    times, sizes = grid.times_and_sizes()
    unit = _divided(tangent, _length(tangent, scales))
    begin = pushed.init(times[0, 0].astype(jax.tree.leaves(y0)[0].dtype), (y0, unit))
    return lax.scan(interval, begin, (times, sizes))[1]


def _random(y: PyTree, key: PRNGKeyArray) -> PyTree:
    """Normal random numbers, scaled to the rms of each field of a state."""
    leaves, tree = jax.tree.flatten(y)
    keys = jax.random.split(key, len(leaves))
    drawn = [
        _scale(x).astype(x.dtype) * jax.random.normal(k, x.shape, x.dtype) for x, k in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(tree, drawn)


def _scale(x: Array) -> Float[Array, ""]:
    size = jnp.sqrt(jnp.mean(jnp.square(x.astype(jnp.float64))))
    return jnp.where(size > 0, size, 1.0)


def _length(dy: PyTree, scales: PyTree) -> Float[Array, ""]:
    """The rms of a tangent in units of its fields, in float64."""
    parts = jax.tree.map(lambda d, s: jnp.sum(jnp.square(d.astype(jnp.float64) / s)), dy, scales)
    return jnp.sqrt(sum(jax.tree.leaves(parts)) / sum(d.size for d in jax.tree.leaves(dy)))


def _divided(tangents: PyTree, length: Float[Array, ""]) -> PyTree:
    # a tangent of length zero stays zero: dividing it by zero would make it NaN
    safe = jnp.where(length > 0, length, 1.0)
    return jax.tree.map(lambda x: x / safe.astype(x.dtype) if eqx.is_inexact_array(x) else x, tangents)


def _result(growth: np.ndarray, lengths: np.ndarray) -> LyapunovResult:
    discarded = growth.size // 3
    later, spans = growth[discarded:], lengths[discarded:]
    blocks = np.array_split(np.arange(later.size), min(_BLOCKS, later.size))
    rates = np.asarray([later[b].sum() / spans[b].sum() for b in blocks])
    known = rates.size > 1 and bool(np.all(np.isfinite(rates)))
    return LyapunovResult(
        exponent=float(later.sum() / spans.sum()),
        standard_error=float(np.std(rates, ddof=1) / np.sqrt(rates.size)) if known else float("nan"),
        growth=growth,
        discarded=discarded,
    )
