"""Forward runs with the form of a record."""

from collections.abc import Mapping

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from pdefit._util.precision import demand_float64
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.time_loop import precision
from pdefit.integrate.numerics import choose_numerics
from pdefit.integrate.solve import solve
from pdefit.inverse.problem.instrument import AbstractObservationOperator, ObserveAll
from pdefit.systems.system import AbstractSystem


def simulate(
    system: AbstractSystem,
    y0: PyTree,
    ts: ArrayLike,
    *,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    steps: Adaptive | None = None,
    observe: AbstractObservationOperator | None = None,
    positions: Mapping[str, ArrayLike] | None = None,
    args: PyTree = None,
) -> Observations:
    """Observations without noise of the solution that starts from y0 at ts[0].

    Their sigma is 1. A value that is not finite counts as missing.

    **Arguments:**

    - `system`: the equations with their parameters.
    - `y0`: the state at ts[0].
    - `ts`: the times, increasing, (n,), in the system's time unit.
    - `solver`: the time stepping method; default `RK4()`.
    - `dt`: the largest step, in the system's time unit; by default 0.8 of the stable one.
    - `steps`: adaptive steps in place of `dt`.
    - `observe`: the instrument; by default it observes the whole state.
    - `positions`: for variables that are observed at points (`At`) their coordinates, (n, d) or (T, n, d).
    - `args`: exogenous inputs of the system and of the instrument.
    """
    demand_float64()
    ts = np.asarray(ts, np.float64)
    numerics = choose_numerics([(system, y0)], solver, dt, steps, args)
    states = solve(system, y0, ts, t0=float(ts[0]), **numerics._asdict())
    instrument = (observe or ObserveAll()).on(system)
    where = {
        name: jnp.broadcast_to(jnp.asarray(x), (ts.size, *np.shape(x)[-2:])) for name, x in (positions or {}).items()
    }
    times = jnp.asarray(ts, precision(states))
    seen = jax.vmap(lambda t, y, x: instrument.placed(x)(t, y, args))(times, states, where)
    return instrument.located(Observations.build(ts, seen, positions=positions))
