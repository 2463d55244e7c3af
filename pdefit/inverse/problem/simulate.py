"""Forward runs that look like a recording."""

from typing import Any

import diffrax
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.precision import demand_float64
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.numerics import choose_numerics
from pdefit.integrate.solve import solve
from pdefit.inverse.problem.instrument import AbstractObservationOperator, ObserveAll
from pdefit.systems.system import AbstractSystem


def simulate(
    system: AbstractSystem,
    y0: PyTree,
    ts: Any,
    *,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    steps: Adaptive | None = None,
    observe: AbstractObservationOperator | None = None,
    args: PyTree = None,
) -> Observations:
    """Observations without noise of the solution that starts from y0 at ts[0].

    **Arguments:**

    - `system`, `y0`: the equations and the initial state.
    - `ts` (n,): increasing times, in the system's time unit.
    - `solver`, `dt`: the method (default: RK4) and its largest step; `None` takes the stable step.
    - `steps`: adaptive steps in place of `dt`.
    - `observe`: the instrument (default: the whole state).
    - `args`: exogenous inputs of the system.
    """
    demand_float64()
    ts = np.asarray(ts, np.float64)
    numerics = choose_numerics([(system, y0)], solver, dt, steps, args)
    states = solve(system, y0, ts, t0=float(ts[0]), **numerics._asdict())
    return Observations.build(ts, jax.vmap(observe or ObserveAll())(states))
