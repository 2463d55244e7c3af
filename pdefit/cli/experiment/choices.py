"""What a configuration leaves open."""

import dataclasses

import diffrax
from jaxtyping import PyTree

from pdefit.cli.config.settings import Settings
from pdefit.cli.config.stages import Stages
from pdefit.cli.experiment._made import MethodChoice
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.fit.choose import SolverChoice, choose_solver, choose_stages
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.formulation import Single
from pdefit.systems.system import AbstractSystem


def choose_method(settings: Settings, problem: Problem, span: float) -> MethodChoice:
    """The solver and its steps for a record of length `span`: those of the configuration, or what suits the equations."""
    steps = settings.steps
    if settings.solver is not None:
        return MethodChoice(settings.solver, steps, ())
    adaptive = settings.dt is None and steps is None
    choice = _choice(problem.system, problem.y0, span, problem.args, adaptive)
    if choice is None:
        return MethodChoice(RK4(), steps, ())
    reason = f"solver: {type(choice.solver).__name__}, since {choice.reason}; choose another with solver=..."
    if steps is not None and isinstance(choice.solver, RK4):
        # which does not estimate its error
        return MethodChoice(diffrax.Tsit5(), steps, (reason.replace("RK4", "Tsit5"),))
    return MethodChoice(choice.solver, choice.steps or steps, (reason,))


def suitable_solver(system: AbstractSystem, y0: PyTree, span: float, args: PyTree) -> diffrax.AbstractSolver:
    """A solver that suits the equations with constant steps."""
    choice = _choice(system, y0, span, args, adaptive=False)
    return RK4() if choice is None else choice.solver


def _choice(system: AbstractSystem, y0: PyTree, span: float, args: PyTree, adaptive: bool) -> SolverChoice | None:
    """What suits the equations; None for those that cannot be evaluated, which is an error where they are tried."""
    try:
        return choose_solver(system, y0, span, adaptive=adaptive, args=args)
    # a plugin fails with any exception where a parameter has another shape than it expects
    except Exception:
        return None


def chosen_stages(functional: Functional, stages: Stages, held: bool) -> tuple[list[Stage], str]:
    """The stages of a fit whose one stage has no optimizer yet, and the reason for them; what else was given of that stage
    holds for the last. `held` says whether frames are kept out, at which no window may start."""
    choice, (given,) = choose_stages(functional), stages.stages
    last = choice.stages[-1]
    last = dataclasses.replace(last, max_iterations=stages.limit or last.max_iterations, reweight=given.reweight)
    if held or given.formulation is not None:
        # what starts at the initial state only may prepare the last stage all the same
        alone = [s for s in choice.stages[:-1] if given.formulation is None and isinstance(s.formulation, Single)]
        return [*alone, dataclasses.replace(last, formulation=given.formulation)], _told(choice.reason)
    return [*choice.stages[:-1], last], _told(choice.reason)


def _told(reason: str) -> str:
    return f"stages: {reason}; choose others with stages=..."
