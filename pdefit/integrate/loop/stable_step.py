"""Steps that a solver is stable with, settled once before anything is traced."""

from collections.abc import Sequence
from typing import Any

import diffrax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError, first_line
from pdefit.integrate.solvers.method import AbstractStaged, method_of
from pdefit.systems.capabilities import AbstractStable
from pdefit.systems.system import AbstractSystem

# of the limit, where a solver's stages were counted for the step, and of an adaptive one
_SAFETY = 0.95
# of the limit, where a step is chosen
SHARE = 0.8
# by how much the limit may fall before steps of a fit are chosen once more: they moved one way, and may go on
MARGIN = 1.6
# a step is unstable beyond this part of its limit, which is an estimate
BEYOND = 1.01


def real_stability(solver: diffrax.AbstractSolver) -> float:
    """The x up to which a method is stable for y' = -x y with step 1: Euler 2, RK4 2.785, RKC 0.653 (s^2 - 1), infinite for
    implicit methods; 2 for methods that do not say."""
    return method_of(solver).real_stability


def stability_limit(system: AbstractSystem, y0: PyTree, solver: diffrax.AbstractSolver) -> float | None:
    """The largest stable step of this solver at y0, from what the system says of explicit Euler; None if it says nothing."""
    if not isinstance(system, AbstractStable):
        return None
    return _stable_step(system, y0) * real_stability(solver) / 2


def longest_step(system: AbstractSystem, y0: PyTree, solver: diffrax.AbstractSolver) -> float:
    """What an adaptive step may be whatever its error: stable, for a solver whose stages are counted for that. The others
    find their limit by failing."""
    limit = stability_limit(system, y0, solver) if isinstance(solver, AbstractStaged) else None
    return np.inf if limit is None else _SAFETY * limit


def settle(
    problems: Sequence[tuple[AbstractSystem, PyTree]],
    dt: float | None,
    solver: diffrax.AbstractSolver,
    margin: float = 1.0,
) -> diffrax.AbstractSolver:
    """The solver with its number of stages, where that was left open: the fewest that are stable with dt for all systems,
    and where their limit is smaller by the factor `margin`."""
    return _settled(solver, dt, stated_step(problems), margin) if isinstance(solver, AbstractStaged) else solver


def stated_step(problems: Sequence[tuple[AbstractSystem, PyTree]]) -> float | None:
    """The largest step of explicit Euler that is stable for all systems that state one; None where none does."""
    return min((_stable_step(s, y) for s, y in problems if isinstance(s, AbstractStable)), default=None)


def choose_steps(
    problems: Sequence[tuple[AbstractSystem, PyTree]],
    dt: float | None,
    solver: diffrax.AbstractSolver,
    margin: float = 1.0,
) -> tuple[diffrax.AbstractSolver, float]:
    """The solver, settled, and its step size: the one asked for, refused beyond the stability limit of the first system at
    its state; when none is asked for, `SHARE` of the limit (of Euler's, for solvers that need not mind theirs), the smallest
    over all systems. Stages are counted for a limit that is smaller by the factor `margin`."""
    system, y0 = problems[0]
    solver = settle(problems, dt, solver, margin)
    limit = stability_limit(system, y0, solver)
    if limit is None:
        if dt is None:
            raise PdefitError(f"{type(system).__name__} states no stable step, so a step size dt is expected; set dt")
        return solver, dt
    if dt is not None and dt > BEYOND * limit:
        raise PdefitError(
            f"The step dt = {dt:g} {system.time_unit} is beyond the stability limit {limit:.3g} {system.time_unit} of "
            f"{type(system).__name__} with {type(solver).__name__}; set dt to at most {limit:.2g}"
        )
    return steps_for(stated_step(problems), dt, solver)


def steps_for(
    stable: float | None, dt: float | None, solver: diffrax.AbstractSolver, margin: float = 1.0
) -> tuple[diffrax.AbstractSolver, float]:
    """As `choose_steps`, from the largest step of explicit Euler that is stable, less a `margin`."""
    solver = _settled(solver, dt, stable, margin)
    if dt is not None or stable is None:
        return solver, np.inf if dt is None else dt
    reach = real_stability(solver) if isinstance(solver, AbstractStaged) else 2.0
    return solver, SHARE / margin * reach / 2 * stable


def _settled(
    solver: diffrax.AbstractSolver, dt: float | None, stable: float | None, margin: float
) -> diffrax.AbstractSolver:
    if not isinstance(solver, AbstractStaged):
        return solver
    if dt is None or not np.isfinite(dt) or stable is None:
        return solver.settled(None)
    return solver.settled(2 * dt * margin / (_SAFETY * stable))


def _stable_step(system: Any, y0: PyTree) -> float:
    name = type(system).__name__
    try:
        step = float(system.stable_step(y0))
    # a plugin fails with any exception where a parameter has another shape than it expects
    except Exception as error:
        raise PdefitError(f"{name} cannot tell its stable step: {first_line(error)}; set its parameters") from None
    if not step > 0:
        raise PdefitError(f"{name} finds a stable step of {step:g} {system.time_unit}; correct its parameters")
    return step
