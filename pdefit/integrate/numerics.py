"""How equations are stepped in time: method, step and exogenous inputs in one record."""

from collections.abc import Sequence
from typing import NamedTuple

import diffrax
import numpy as np
from jaxtyping import PyTree

from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.stable_step import choose_steps, settle
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid, constant_grid
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.systems.system import AbstractSystem


class Numerics(NamedTuple):
    """The numerical method of a forward run.

    **Arguments:**

    - `solver`: the time stepping method, with a fixed number of stages.
    - `dt`: the largest constant step, in the system's time unit.
    - `steps`: the tolerance of adaptive steps, which replace those of `dt`.
    - `args`: exogenous inputs of the system.
    """

    solver: diffrax.AbstractSolver
    dt: float
    steps: Adaptive | None = None
    args: PyTree = None

    def stepper(self, system: AbstractSystem) -> Stepper:
        """One step of a system by this method."""
        return Stepper(system, self.solver, self.args)

    def grid(self, system: AbstractSystem, y0: PyTree, ts: np.ndarray, t0: float) -> TimeGrid:
        """The steps from t0 to the times ts by this method.

        **Arguments:**

        - `system`, `y0`: the equations and the state at t0, from which adaptive steps are chosen.
        - `ts` (I,): increasing times; the first may be t0 itself.
        - `t0`: the start.
        """
        if self.steps is None:
            return constant_grid(t0, ts, self.dt)
        return adaptive_grid(system, y0, ts, solver=self.solver, steps=self.steps, t0=t0, args=self.args)


def choose_numerics(
    problems: Sequence[tuple[AbstractSystem, PyTree]],
    solver: diffrax.AbstractSolver | None,
    dt: float | None,
    steps: Adaptive | None,
    args: PyTree = None,
) -> Numerics:
    """The numerical method of forward runs, with what was left open chosen.

    **Arguments:**

    - `problems`: systems with a state each. Constant steps are stable for all of them.
    - `solver`: `None` is RK4.
    - `dt`: `None` is 0.8 of the largest stable step, or as of `choose_steps` where a system states none.
    - `steps`, `args`: as of `Numerics`.
    """
    solver = RK4() if solver is None else solver
    if steps is not None:
        return Numerics(settle(problems, None, solver), np.inf, steps, args)
    return Numerics(*choose_steps(problems, dt, solver, args=args), None, args)
