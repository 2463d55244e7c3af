"""Automatic choices of open settings: solver, steps, stages."""

import dataclasses

import diffrax
from jaxtyping import PyTree

from pdefit.cli.config.settings import Settings
from pdefit.cli.config.stages import Stages
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.fit.choose_solver import SolverChoice, choose_solver
from pdefit.inverse.fit.choose_stages import choose_stages
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.formulation import Single
from pdefit.systems.system import AbstractSystem


def choose_method(settings: Settings, problem: Problem, span: float) -> SolverChoice:
    """Solver and steps of a configuration (with an empty reason), or an automatic choice with its reason.

    **Arguments:**

    - `settings`, `problem`: the experiment.
    - `span`: the length of the record, in the system's time unit.
    """
    steps = settings.steps
    if settings.solver is not None:
        return SolverChoice(settings.solver, steps, "")
    adaptive = settings.dt is None and steps is None
    choice = _choice(problem.system, problem.y0, span, problem.args, adaptive)
    if choice is None:
        return SolverChoice(RK4(), steps, "")
    reason = f"solver: {type(choice.solver).__name__}, since {choice.reason}; choose another with solver=..."
    if steps is not None and isinstance(choice.solver, RK4):
        # RK4 does not estimate its error, which adaptive steps need
        return SolverChoice(diffrax.Tsit5(), steps, reason.replace("RK4", "Tsit5"))
    return SolverChoice(choice.solver, choice.steps or steps, reason)


def suitable_solver(system: AbstractSystem, y0: PyTree, span: float, args: PyTree) -> diffrax.AbstractSolver:
    """Solver that suits the equations with constant steps over a time `span`."""
    choice = _choice(system, y0, span, args, adaptive=False)
    return RK4() if choice is None else choice.solver


def _choice(system: AbstractSystem, y0: PyTree, span: float, args: PyTree, adaptive: bool) -> SolverChoice | None:
    """Choice of a solver for the equations; None if they cannot be evaluated.

    The error is reported later, when the equations are evaluated.
    """
    try:
        return choose_solver(system, y0, span, adaptive=adaptive, args=args)
    # a plugin may raise any exception where a parameter has a wrong shape
    except Exception:
        return None


def chosen_stages(functional: Functional, stages: Stages, held: bool) -> tuple[list[Stage], str]:
    """Stages chosen for a fit, and the reason for them.

    **Arguments:**

    - `functional`: the objective.
    - `stages`: the settings, with one stage without an optimizer. Its other settings apply to the last stage.
    - `held`: whether frames are kept out of the fit; then no window may start at one of them.
    """
    choice, (given,) = choose_stages(functional), stages.stages
    last = choice.stages[-1]
    limit = stages.limit or last.max_iterations
    last = dataclasses.replace(last, max_iterations=limit, reweight=given.reweight, stop=given.stop)
    if held or given.formulation is not None:
        # only stages of one trajectory may come before the last one: their windows start at no other frame
        alone = [s for s in choice.stages[:-1] if given.formulation is None and isinstance(s.formulation, Single)]
        return [*alone, dataclasses.replace(last, formulation=given.formulation)], _announced(choice.reason)
    return [*choice.stages[:-1], last], _announced(choice.reason)


def _announced(reason: str) -> str:
    return f"stages: {reason}; choose others with stages=..."
