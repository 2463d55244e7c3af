"""What a configuration leaves open."""

from collections.abc import Mapping
from typing import Any

import diffrax
from jaxtyping import PyTree

from pdefit.app.instantiate import make
from pdefit.integrate.adaptive import Adaptive
from pdefit.integrate.runge_kutta4 import RK4
from pdefit.inverse.choice import choose_solver
from pdefit.systems.system import AbstractSystem

# in place of a solver, or of stages: whatever suits
AUTO = {"auto": True}


def solver_and_steps(
    cfg: Mapping[str, Any], system: AbstractSystem, y0: PyTree, span: float
) -> tuple[diffrax.AbstractSolver, Adaptive | None, tuple[str, ...]]:
    """The solver and its adaptive steps, if it has any; where the solver is left open, the reason for it."""
    steps = None if cfg["steps"] is None else make(cfg["steps"], "steps", Adaptive)
    if cfg["solver"] != AUTO:
        return make(cfg["solver"], "solver", diffrax.AbstractSolver), steps, ()
    try:
        choice = choose_solver(system, y0, span, adaptive=cfg["dt"] is None and steps is None)
    # equations that cannot be evaluated are told of where they are tried
    except Exception:
        return RK4(), steps, ()
    reason = f"solver: {type(choice.solver).__name__}, since {choice.reason}; choose another with solver=..."
    if steps is not None and isinstance(choice.solver, RK4):
        # which does not estimate its error
        return diffrax.Tsit5(), steps, (reason.replace("RK4", "Tsit5"),)
    return choice.solver, choice.steps or steps, (reason,)
