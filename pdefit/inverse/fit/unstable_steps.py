"""Stability of constant steps: their share of the limit, the control that decides it, and growth of the adjoint.

Functions take an objective, and a point theta in its search space, (p,).
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError, with_space
from pdefit.integrate.forward_runs import Numerics, states
from pdefit.integrate.loop.eigenvalues import eigenvalues, stable_part
from pdefit.integrate.loop.stable_step import BEYOND, SHARE, real_stability, stated_step
from pdefit.integrate.solvers.method import AbstractStaged
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.passed_inputs import passed_inputs
from pdefit.inverse.objective.variants import is_adaptive
from pdefit.systems.capabilities import AbstractStable
from pdefit.systems.system import parameters

# steps that were left open are kept while they are at most this part of their stability limit
_STABLE = 0.95
# growth of noise, beyond that by the equations, with which a step is unstable, in so many steps at most
_NOISE_GROWTH, _SHOWN = 100.0, 1000
# the size of that noise, relative to the state
_NOISE = 1e-7
# the part of a control by which it is moved to see what depends on it, and the least change that counts
_MOVED, _LEAST = 0.5, 1e-3


def stable_step(objective: AbstractObjective, theta: Float[Array, " p"]) -> float | None:
    """Largest step of explicit Euler that is stable for all recordings at theta; None if no system states one."""
    return stated_step([(problem.system, problem.y0) for problem, _ in objective.problems_and_steps(theta)])


def share_of_limit(objective: AbstractObjective, theta: Float[Array, " p"]) -> float:
    """Ratio of the step to its stability limit at theta, the largest of all recordings; 0 without a limit."""
    # the problems of many recordings take milliseconds
    if not isinstance(objective.problem.system, AbstractStable):
        return 0.0
    reach, shares = real_stability(objective.runner.solver) / 2, [0.0]
    for problem, dt in objective.problems_and_steps(theta):
        stable = stated_step([(problem.system, problem.y0)])
        shares.append(0.0 if stable is None else dt / (stable * reach))
    return max(shares)


def is_open(objective: AbstractObjective) -> bool:
    """True if constant steps may be chosen again: the step or the number of stages was left open."""
    staged = isinstance(objective.asked_solver, AbstractStaged) and objective.asked_solver != objective.runner.solver
    return objective.steps is None and (objective.asked_dt is None or staged)


def suits(objective: AbstractObjective, theta: Float[Array, " p"]) -> bool:
    """True if constant steps can be kept at theta.

    This holds for given steps, for stable ones, and for any steps if the system cannot state its limit.
    """
    try:
        return not is_open(objective) or share_of_limit(objective, theta) <= _STABLE
    except PdefitError:
        return True


def deciding_control(objective: AbstractObjective, theta: Float[Array, " p"]) -> str | None:
    """Path of the control that lowers the stable step most; None if the stable step depends on no control.

    Each control is moved up and down by half its value, within its bounds.
    """
    here = stable_step(objective, theta)
    if here is None:
        return None
    lower, upper = objective.controls.bounds
    sizes, lowest = objective.controls.sizes(theta), {}
    for path, elements in objective.controls.elements.items():
        lowest[path] = here
        for factor in (1 + _MOVED, 1 - _MOVED):
            # a positive control is moved through its logarithm or as it is: both stay positive
            moved = jnp.where(elements, theta + (factor - 1) * sizes, theta)
            try:
                limit = stable_step(objective, jnp.clip(moved, lower, upper))
            except PdefitError:
                continue
            if limit is not None:
                lowest[path] = min(lowest[path], limit)
    path = min(lowest, key=lambda p: lowest[p], default=None)
    return path if path is not None and lowest[path] < (1 - _LEAST) * here else None


def refuse_unstable(functional: Functional) -> None:
    """Refuse a given step that amplifies noise far more than the equations do, if a system states no stable step.

    The eigenvalues at the guess and the solver's stability region raise the suspicion. Two short runs decide, because
    the state may soon change.
    """
    problem, dt, unit = functional.problem, functional.layout.time_grid.largest, functional.problem.system.time_unit
    if functional.asked_dt is None or functional.steps is not None or isinstance(problem.system, AbstractStable):
        return
    system, solver, y0 = problem.system, functional.runner.solver, problem.y0
    steps = int(min(functional.layout.time_grid.steps, _SHOWN))
    values = eigenvalues(system.vector_field, y0, problem.args)
    part = stable_part(values, solver, dt, _NOISE_GROWTH ** (1 / steps))
    if not 0 < part < 1:
        return
    t0 = float(functional.observations.ts[0])
    flat, back = ravel_pytree(y0)
    # a factor and not a summand, so that a density cannot become negative
    noisy = flat * (1 + _NOISE * jax.random.normal(jax.random.key(0), flat.shape, flat.dtype))

    def growth(step: float) -> float:
        numerics, end = Numerics(solver, step, None, problem.args), np.asarray([t0 + steps * dt])
        a, b = (ravel_pytree(states(system, y, end, numerics, t0=t0))[0] for y in (y0, back(noisy)))
        return float(jnp.linalg.norm(b - a) / jnp.linalg.norm(noisy - flat))

    natural, grown = growth(part * dt), growth(dt)
    if math.isfinite(natural) and not grown <= _NOISE_GROWTH * max(natural, 1.0):
        how = f"by a factor of {grown:.1e}" if math.isfinite(grown) else "without bound"
        raise PdefitError(
            f"The step dt = {dt:.4g}{with_space(unit)} is unstable for {type(system).__name__} with {type(solver).__name__}: "
            f"in {steps} steps noise grows {how}, but by a factor of {natural:.1e} with smaller ones; set dt={part * dt:.2g} "
            f"or less"
        )


def longer_than_frames(functional: Functional) -> tuple[str, ...]:
    """Sentence about a given step longer than all intervals between observations; empty otherwise."""
    longest, unit = float(np.max(np.diff(functional.observations.ts))), functional.problem.system.time_unit
    if functional.asked_dt is None or functional.asked_dt <= longest * (1 + 1e-9):
        return ()
    return (
        f"dt = {functional.asked_dt:g}{with_space(unit)} is longer than the {longest:.4g}{with_space(unit)} between "
        f"observations, which are therefore the steps; a dt of at most that is used as it is",
    )


@dataclasses.dataclass(frozen=True)
class StepChoice:
    """The reason for the choice of a constant step.

    **Arguments:**

    - `dt`, `unit`: the step and its unit.
    - `given`: whether the step was given, not chosen.
    - `stated`: whether the system states a stable step.
    - `share`: the ratio of the step to the stability limit at the guess; None if the system states no limit.
    - `decided_by`: the path of the control that determines that limit; None if no control matters.
    - `meaning`: the meaning of that control, in words.
    """

    dt: float
    unit: str
    given: bool
    stated: bool
    share: float | None
    decided_by: str | None
    meaning: str

    def __str__(self) -> str:
        text = f"dt {self.dt:.4g}{with_space(self.unit)}"
        if self.share is None:
            return (
                text if self.given or self.stated else f"{text}, half of the fastest time of the equations at the guess"
            )
        what = f" ({self.meaning})" if self.meaning else ""
        decided = f"decided by {self.decided_by}{what}" if self.decided_by else "no control decides"
        return f"{text}{' as given' if self.given else ''}, {self.share:.2g} of what is stable at the guess; {decided}"


def step_choice(objective: AbstractObjective) -> StepChoice:
    """The reason for the constant step of an objective, without a run."""
    theta, system = objective.theta0, objective.problem.system
    share, control = share_of_limit(objective, theta), deciding_control(objective, theta)
    info = None if control is None else parameters(system).get(control.split(".")[0])
    given, stated = objective.asked_dt is not None, isinstance(system, AbstractStable)
    doc = "" if info is None else info.doc
    return StepChoice(objective.dt, system.time_unit, given, stated, share or None, control, doc)


def near_stability(objective: AbstractObjective, theta: Float[Array, " p"]) -> list[str]:
    """Sentences about steps that are hardly stable, or unstable, at theta, and about inputs that they do not resolve.

    Rejected steps may have stopped the progress of the fit.
    """
    if objective.steps is not None:
        return []
    share, passed = share_of_limit(objective, theta), passed_inputs(objective, theta)
    if share <= (_STABLE if is_open(objective) else SHARE):
        return [*passed]
    unit = with_space(objective.problem.system.time_unit)
    dt = max(dt for _, dt in objective.problems_and_steps(theta))
    control = deciding_control(objective, theta)
    return [
        *passed,
        f"dt = {dt:.3g}{unit} is {'beyond' if share > BEYOND else 'close to'} the stability limit {dt / share:.3g}{unit} at "
        f"the best point{'' if control is None else f', which {control} decides'}; set dt={SHARE * dt / share:.2g} or less",
    ]


# with a converged step and half of it, the growth agrees better than this part of its decades
_ALIKE = 0.1


def explain_growth(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    growth: float,
    watched: Callable[[AbstractObjective, Array], tuple[Array, Array, Array]],
) -> str:
    """The reason for a large growth of the adjoint, from a gradient with half the step.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: the point, (p,).
    - `growth`: the growth factor with the steps of the functional.
    - `watched`: computes the value, the gradient and the growth of the adjoint.

    **Returns:** a sentence about a trajectory of that sensitivity.

    **Errors:** PdefitError that names the step, if half the step changes the growth.
    """
    finer = float(watched(functional.halved(), theta)[2])
    unit = with_space(functional.problem.system.time_unit)
    if not (math.isfinite(growth) or math.isfinite(finer)):
        raise PdefitError(
            "The loss or its gradient is not finite where the fit is, with half the step neither; ask `pdefit doctor` for the "
            "first step, field and term that fail"
        )
    if not math.isfinite(growth) or abs(_decades(finer) - _decades(growth)) > _ALIKE * _decades(growth):
        growths = f"The adjoint grows by {growth:.0e} over the record, but by {finer:.0e} with half the step: "
        if is_adaptive(functional):
            raise PdefitError(
                f"{growths}adaptive steps are too large for the linearised equations; set rtol, atol smaller"
            )
        raise PdefitError(
            f"{growths}dt = {functional.dt:.3g}{unit} is too large for the linearised equations; set "
            f"dt={functional.dt / 2:.2g} or less"
        )
    return (
        f"the adjoint grows by {growth:.0e} over the record, whatever the step: the end hardly tells of the beginning; "
        f"cut the record into shorter segments (formulation=segments)"
    )


def _decades(growth: float) -> float:
    return math.log10(max(growth, 1.0)) if math.isfinite(growth) else math.inf
