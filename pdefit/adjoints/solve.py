"""The states of a system at given times, as a function that JAX differentiates."""

from collections.abc import Sequence

import diffrax
import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from pdefit._util.errors import PdefitError
from pdefit._util.trees import demand_float64, is_traced, promoted
from pdefit.adjoints.base import AbstractReverse, Checkpointed
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.forward_runs import Numerics, choose_numerics
from pdefit.integrate.loop.stable_step import settle
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid, stack_grids
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.systems.events import Event, Events
from pdefit.systems.system import AbstractSystem


def solve(
    system: AbstractSystem,
    y0: PyTree,
    ts: ArrayLike,
    *,
    t0: float | None = None,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    steps: Adaptive | None = None,
    args: PyTree = None,
    adjoint: AbstractReverse | None = None,
    events: Sequence[Event] | Events | None = None,
) -> PyTree:
    """Solution of an initial value problem: states at given times, differentiable in `system`, `y0` and `args`.

        def misfit(D):
            states = pdefit.solve(eqx.tree_at(lambda s: s.D, system, D), y0, ts)
            return jnp.sum((states.u - data) ** 2)

        value, slope = jax.value_and_grad(misfit)(0.8)

    States are stacked on a leading axis of times. The function supports `jax.jit`, `jax.grad`, `jax.jvp` and `jax.vmap`.
    Its derivative is the exact derivative of the discrete trajectory with fixed steps. Under `jax.grad` and `jax.jvp` the
    values choose the steps, and a `dt` beyond the stability limit is refused, as in `simulate`. Under `jax.jit` and
    `jax.vmap` values are unknown: `dt` must be given, and it is not compared with the limit. One call without these
    transformations compares it.

    **Arguments:**

    - `system`: the equations with their parameters.
    - `y0`: the state at t0. Its numbers become float64 if a parameter is float64.
    - `ts`: the times, increasing, (I,), in the system's time unit; the first may be t0 itself.
    - `t0`: the time of y0; default ts[0].
    - `solver`: the time stepping method; default `RK4()`. Under `jax.jit` and `jax.vmap` RKC needs its `stages`.
    - `dt`: the largest step, in the system's time unit; by default 0.8 of the stable one.
    - `steps`: adaptive steps in place of `dt`, chosen by an adaptive pass at the present values.
    - `args`: exogenous inputs of the system.
    - `adjoint`: the algorithm of the reverse pass; default `Checkpointed()`, which stores about 2 sqrt(N) states of N
      steps in addition to the result. Continuous adjoints do not support `jax.jvp`.
    - `events`: doses, infusions and resets.
    """
    demand_float64()
    if is_traced((ts, t0, dt)) or np.ndim(ts) != 1 or not np.size(ts):
        raise PdefitError(
            f"pdefit.solve expects increasing times ts (I,), t0 and dt as numbers that JAX does not trace, but ts has shape "
            f"{np.shape(ts)}; keep them out of the arguments of a function under jax.jit, jax.grad or jax.vmap"
        )
    y0, ts, dt = promoted(y0, system), np.asarray(ts, np.float64), None if dt is None else float(dt)
    # steps are numbers, in which nothing is differentiated, and which a surrounding trace does not take up
    given = system, y0, args, (events := Events.along(events, ts if t0 is None else np.union1d(t0, ts)))
    here, state, inputs, still = jax.tree.map(lambda x: jax.lax.stop_gradient(x) if is_traced(x) else x, given)
    with jax.ensure_compile_time_eval():
        if dt is not None and steps is None and is_traced((here, state, inputs)):
            numerics = Numerics(settle([(here, state)], dt, solver or RK4()), dt, None, inputs, still)
        else:
            numerics = choose_numerics([(here, state)], solver, dt, steps, inputs, still)
        grid = numerics.grid(here, state, ts, float(ts[0] if t0 is None else t0))
        adjoint = (adjoint or Checkpointed()).resolve_for([(here, state)], stack_grids([grid]), numerics.solver)
    return _states(adjoint, Stepper(system, numerics.solver, args, None, events), y0, grid)


@eqx.filter_jit
def _states(adjoint: AbstractReverse, stepper: Stepper, y0: PyTree, grid: TimeGrid) -> PyTree:
    prepared = stepper if adjoint.other_steps else stepper.prepared(grid)
    return adjoint.run(prepared, y0, grid, lambda y, _: y, np.zeros(grid.count.size + grid.observes_start))[1]
