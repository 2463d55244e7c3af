"""Checks of the residuals' tangents and adjoint against central differences."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import with_space
from pdefit.integrate.loop.eigenvalues import not_finite
from pdefit.inverse.certify._record import Check, over
from pdefit.inverse.certify._scaled_residuals import Residuals, norm
from pdefit.inverse.certify._sketch import Sketch
from pdefit.inverse.certify._taylor import Differences, Line, differences
from pdefit.inverse.certify.direction import direction
from pdefit.systems.time_series import kinked

# The largest relative error of a tangent against differences. More passes only where measured round-off is larger, and
# never more than COARSE.
DIFFERENCES = 1e-6
COARSE = 1e-3
# A step of first order errs by twice its change by half the step. A random product with it is rarely three times as large.
_BY_STEPS = 6.0
# a kink is left by so large a part of a direction, as by the largest difference
_ASIDE = 2.0**-4
# the tangents of a converged step agree much better than this factor
_EXPLODES = 10.0


def against_differences(
    residuals: Residuals, path: str, v: Array, moved: Sketch | None, pulled: tuple[np.ndarray, Array] | None = None
) -> Check:
    """Check of a tangent against differences along v; near theta instead if an input may have a kink at theta.

    **Arguments:**

    - `residuals`: the residuals near theta.
    - `path`: the control that is varied, for the name of the check.
    - `v`: the direction, (p,).
    - `moved`: the tangent; None without one.
    - `pulled`: random w and J_r^T w, which replace a missing tangent.
    """
    found = _at_theta(residuals, path, v, moved, pulled)
    objective, theta = residuals.objective, residuals.theta
    series = kinked(objective.problem) if found.detail["finding"] == "wrong" else {}
    if not series:
        return found
    # a wrong rule is wrong beside the kink as well
    aside = theta + _ASIDE * direction(objective.controls, theta, jax.random.key(1))
    near = Residuals(objective, aside, v, residuals.few, residuals.source)
    beside = _at_theta(near, path, v, near.tangent(v)) if near.finite else found
    if beside.limit > COARSE or beside.detail["finding"] not in ("right", "kink"):
        return found
    names = ", ".join(name for name in series if f".{name}." in path) or ", ".join(series)
    note = f"right beside a kink of the input {names}, at which this point lies; method: smooth has no kinks"
    return dataclasses.replace(beside, note=note)


def _at_theta(
    residuals: Residuals, path: str, v: Array, moved: Sketch | None, pulled: tuple[np.ndarray, Array] | None = None
) -> Check:
    """The check of `against_differences` at theta itself."""
    x, along = np.asarray(residuals.theta), np.asarray(v)
    line = Line(residuals, x, along, residuals.noise, residuals.inside, residuals.each)
    if moved is not None:
        tangent = moved.scaled(residuals.sizes)
        size = norm(tangent)
        found = differences(line, lambda q: q - tangent, size, DIFFERENCES, residuals.few)
        if residuals.measured_noise is None:
            residuals.measured_noise = found.noise
        return _judged(f"{path}: tangent against differences", found, residuals, size, v)
    w, gradient = pulled or residuals.random_pull(jax.random.key(0))
    slope = float(np.vdot(gradient, v))
    gap, size = lambda q: np.atleast_1d(np.vdot(w, q) - slope), residuals.size(v)
    found = differences(line, gap, size, DIFFERENCES, residuals.few)
    return _judged(f"{path}: gradient against differences", found, residuals, 0.0, v)


def _judged(name: str, found: Differences, residuals: Residuals, size: float, v: Array) -> Check:
    limit = max(DIFFERENCES, found.limit)
    detail = dataclasses.asdict(found)
    if found.finding == "unseen" or (found.limit > COARSE and found.finding == "right"):
        note = "less than round-off: the data do not see it, and neither do differences"
        return Check(name, found.constant, limit, True, _REMEDIES["wrong"], note, detail)
    if found.finding == "kink":
        note = "right between kinks (abs, max, clip), which differences cross"
        return Check(name, min(found.errors), limit, True, "", note, detail)
    if found.finding == "right":
        return Check(name, found.constant, limit, True, "", "", detail)
    remedy = _infinite(residuals, size) or _exploding(residuals, size, v) or _REMEDIES[found.finding]
    if found.finding == "switch":
        note = "errors jump from step to step"
        return Check(name, max(found.errors), DIFFERENCES, False, remedy, note, detail)
    return Check(name, found.constant, limit, False, remedy, "", detail)


def _infinite(residuals: Residuals, size: float) -> str | None:
    """Sentence on the cause of a non-finite tangent; None if it is finite."""
    if np.isfinite(size):
        return None
    problems = (part.at(theta) for part, theta in residuals.objective.parts(residuals.theta))
    causes = (not_finite(problem.system, problem.y0, problem.args) for problem in problems)
    return next(
        filter(None, causes), "it is not finite: pdefit.doctor(J, theta) names the time, the field and the line"
    )


def _exploding(residuals: Residuals, size: float, v: Array) -> str | None:
    """Sentence that names dt, if half the step makes the tangent much smaller; None otherwise.

    Switches do not have this effect.
    """
    part, unit = residuals.objective, with_space(residuals.objective.problem.system.time_unit)
    # the remedy names dt, which adaptive steps do not have
    if part.steps is not None or size == 0:
        return None
    times = over(size, norm(_at_half_the_step(residuals, v)))
    if np.isfinite(times) and times < _EXPLODES:
        return None
    return (
        f"the tangent is {times:.0e} times that of half the step: dt = {part.dt:.3g}{unit} is too large for the "
        f"linearised equations, though the forward run survives it; set dt={part.dt / 2:.2g} or less"
    )


def of_steps(residuals: Residuals, v: Array, tangent: Sketch) -> float:
    """Largest relative error of a product with the tangent that the steps of the trajectory explain.

    A continuous adjoint is exact up to the step error, which a run with half the step measures. A discrete adjoint is
    exact.
    """
    if not residuals.objective.runner.adjoint.other_steps:
        return 0.0
    whole = tangent.scaled(residuals.sizes)
    return min(_BY_STEPS * over(norm(whole - _at_half_the_step(residuals, v)), norm(whole)), COARSE)


def _at_half_the_step(residuals: Residuals, v: Array) -> np.ndarray:
    """Scaled tangent along v of the objective with half the steps."""
    finer, theta = residuals.objective.halved(), residuals.theta
    pushed = residuals.source.push(finer, theta, v)
    assert pushed is not None
    return pushed[1].scaled(residuals.sizes)


_REMEDIES = {
    "wrong": (
        "the derivative is wrong at every step: a stop_gradient, a round or a custom derivative rule in the equations hides "
        "part of it, or a hard switch acts all along the trajectory; correct the derivative, or use a smooth switch"
    ),
    "switch": (
        "a hard switch (a comparison, where, round, floor) in the equations makes the trajectory jump, which no derivative "
        "sees; use a smooth switch, or smooth_tangents=true where the system has a smooth twin"
    ),
}
