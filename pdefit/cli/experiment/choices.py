"""What a configuration leaves open."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import diffrax
from jaxtyping import PyTree

from pdefit.cli.config.instantiate import make
from pdefit.cli.config.stages import AUTO
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.fit.choose import choose_solver, choose_stages
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.shooting.formulation import Single
from pdefit.systems.system import AbstractSystem


def solver_and_steps(
    cfg: Mapping[str, Any], system: AbstractSystem, y0: PyTree, span: float, args: PyTree = None
) -> tuple[diffrax.AbstractSolver, Adaptive | None, tuple[str, ...]]:
    """The solver and its adaptive steps, if it has any; where the solver is left open, the reason for it."""
    steps = None if cfg["steps"] is None else make(cfg["steps"], "steps", Adaptive)
    if cfg["solver"] != AUTO:
        return make(cfg["solver"], "solver", diffrax.AbstractSolver), steps, ()
    try:
        choice = choose_solver(system, y0, span, adaptive=cfg["dt"] is None and steps is None, args=args)
    # equations that cannot be evaluated are told of where they are tried
    except Exception:
        return RK4(), steps, ()
    reason = f"solver: {type(choice.solver).__name__}, since {choice.reason}; choose another with solver=..."
    if steps is not None and isinstance(choice.solver, RK4):
        # which does not estimate its error
        return diffrax.Tsit5(), steps, (reason.replace("RK4", "Tsit5"),)
    return choice.solver, choice.steps or steps, (reason,)


def chosen_stages(functional: Functional, given: Stage, node: Mapping[str, Any], held: bool) -> tuple[list[Stage], str]:
    """The stages of a fit whose one stage has no optimizer yet, and the reason for them; what else was given of that stage
    holds for the last. `held` says whether frames are kept out, at which no window may start."""
    choice = choose_stages(functional)
    limit = next(iter(node.values())).get("max_iterations")
    last = choice.stages[-1]
    last = dataclasses.replace(last, max_iterations=limit or last.max_iterations, reweight=given.reweight)
    if held or given.formulation is not None:
        # what starts at the initial state only may prepare the last stage all the same
        alone = [s for s in choice.stages[:-1] if given.formulation is None and isinstance(s.formulation, Single)]
        return [*alone, dataclasses.replace(last, formulation=given.formulation)], _told(choice.reason)
    return [*choice.stages[:-1], last], _told(choice.reason)


def _told(reason: str) -> str:
    return f"stages: {reason}; choose others with stages=..."
