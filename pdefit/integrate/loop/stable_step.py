"""Stable steps: the stability limit of a system with a solver, and the steps and stages chosen below it."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import diffrax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError, first_line, with_space
from pdefit._util.trees import is_traced
from pdefit.integrate.loop.eigenvalues import not_finite, resolving_step
from pdefit.integrate.solvers.method import AbstractStaged, method_of
from pdefit.systems.capabilities import AbstractStable
from pdefit.systems.system import AbstractSystem

# part of the limit up to which stages are counted for a step, and up to which adaptive steps grow
_SAFETY = 0.95
# part of the limit at which a step is chosen
SHARE = 0.8
# factor by which the limit may fall before a fit chooses its steps again, because a fit that moved one way may go on
MARGIN = 1.6
# a step is unstable beyond this part of its limit, which is an estimate
BEYOND = 1.01


def real_stability(solver: diffrax.AbstractSolver) -> float:
    """Largest x for which a solver is stable for y' = -x y with step 1.

    It is 2 for Euler, 2.785 for RK4, 0.653 (s^2 - 1) for RKC, and infinite for implicit solvers. Solvers that do not
    state it are assigned 2.
    """
    return method_of(solver).real_stability


def stability_limit(system: AbstractSystem, y0: PyTree, solver: diffrax.AbstractSolver) -> float | None:
    """Largest stable step of a solver at the state y0; None if the system states no stable step.

    It follows from the stable step of explicit Euler, which a system may state (`AbstractStable`).
    """
    if not isinstance(system, AbstractStable):
        return None
    return _stable_step(system, y0) * real_stability(solver) / 2


def longest_step(system: AbstractSystem, y0: PyTree, solver: diffrax.AbstractSolver) -> float:
    """Largest step of an adaptive pass, whatever its error.

    For a solver with a number of stages it is a stable step. Other solvers find their limit by rejected steps.
    """
    limit = stability_limit(system, y0, solver) if isinstance(solver, AbstractStaged) else None
    return np.inf if limit is None else _SAFETY * limit


def settle(
    problems: Sequence[tuple[AbstractSystem, PyTree]],
    dt: float | None,
    solver: diffrax.AbstractSolver,
    margin: float = 1.0,
) -> diffrax.AbstractSolver:
    """The solver with a fixed number of stages: if the number is open, the smallest stable one.

    **Arguments:**

    - `problems`: systems, each with a state, for all of which the steps must be stable.
    - `dt`: the step; None if it is open too.
    - `solver`: the solver.
    - `margin`: safety factor, by which the limit is reduced when stages are counted.
    """
    given = not isinstance(solver, AbstractStaged) or solver.settled(None) is solver
    return solver if given else _settled(solver, dt, stated_step(problems), margin)


def demand_values(problems: Sequence[tuple[AbstractSystem, PyTree]]) -> None:
    """Refuse systems, states and inputs with traced arrays: steps are chosen by values."""
    for system, y0 in problems:
        if is_traced((system, y0)):
            raise PdefitError(
                f"Steps and stages for {type(system).__name__} are chosen by values, but its state, a parameter or an input "
                f"is traced (jax.jit, jax.grad, jax.vmap); call pdefit.solve with constant steps (dt) there, and give RKC its "
                f"stages and Backsolve its backups"
            )


def stated_step(problems: Sequence[tuple[AbstractSystem, PyTree]]) -> float | None:
    """Largest stable Euler step of all systems that state one; None if no system does."""
    return min((_stable_step(s, y) for s, y in problems if isinstance(s, AbstractStable)), default=None)


def choose_steps(
    problems: Sequence[tuple[AbstractSystem, PyTree]],
    dt: float | None,
    solver: diffrax.AbstractSolver,
    margin: float = 1.0,
    args: PyTree = None,
) -> tuple[diffrax.AbstractSolver, float]:
    """The solver with fixed stages, and its step.

    **Arguments:**

    - `problems`: systems, each with a state.
    - `dt`: the step, refused beyond the stability limit of the first system. None for `SHARE` of the smallest limit of
      all systems; of Euler's limit, for solvers whose stages are not counted. Systems that state no limit get a step
      that resolves their fastest change.
    - `solver`: the solver.
    - `margin`: safety factor, by which the limit is reduced when stages are counted.
    - `args`: exogenous inputs.
    """
    system, y0 = problems[0]
    solver = settle(problems, dt, solver, margin)
    limit = stability_limit(system, y0, solver)
    if limit is None:
        dt = resolving_step(problems, solver, args) if dt is None else dt
        if dt is None:
            unstated = f"{type(system).__name__} states no stable step, so a step size dt is expected; set dt"
            raise PdefitError(next(filter(None, (not_finite(s, y, args) for s, y in problems)), unstated))
        return solver, dt
    if dt is not None and dt > BEYOND * limit:
        unit = with_space(system.time_unit)
        raise PdefitError(
            f"The step dt = {dt:g}{unit} is beyond the stability limit {limit:.3g}{unit} of "
            f"{type(system).__name__} with {type(solver).__name__}; set dt to at most {limit:.2g}"
        )
    return steps_for(stated_step(problems), dt, solver)


def steps_for(
    stable: float | None, dt: float | None, solver: diffrax.AbstractSolver, margin: float = 1.0
) -> tuple[diffrax.AbstractSolver, float]:
    """`choose_steps` from a known limit of explicit Euler.

    **Arguments:** as in `choose_steps`, and

    - `stable`: the largest stable step of explicit Euler; None if no system states one.
    """
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
        demand_values([(system, y0)])
        raise PdefitError(f"{name} cannot tell its stable step: {first_line(error)}; set its parameters") from None
    if not step > 0:
        cause = f"{name} finds a stable step of {step:g}{with_space(system.time_unit)}; correct its parameters"
        # exogenous inputs are unknown here, without which a plugin may fail
        with suppress(Exception):
            cause = not_finite(system, y0) or cause
        raise PdefitError(cause)
    return step
