"""Forward runs that look like a recording."""

from typing import Any

import diffrax
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit.integrate.runge_kutta4 import RK4
from pdefit.integrate.trajectory import choose_dt, solve
from pdefit.inverse.observe import AbstractObservationOperator, ObserveAll
from pdefit.systems.observations import Observations
from pdefit.systems.system import AbstractSystem


def simulate(
    system: AbstractSystem,
    y0: PyTree,
    ts: Any,
    *,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    observe: AbstractObservationOperator | None = None,
) -> Observations:
    """What an instrument without noise sees of the solution that starts from y0 at ts[0]."""
    ts = np.asarray(ts, np.float64)
    solver = RK4() if solver is None else solver
    states = solve(system, y0, ts, solver=solver, dt=choose_dt([(system, y0)], dt, solver), t0=float(ts[0]))
    return Observations.build(ts, jax.vmap(observe or ObserveAll())(states))
