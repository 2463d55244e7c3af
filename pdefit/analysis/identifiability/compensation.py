"""Compensation of a change of one unknown by the remaining unknowns, and its effect on the data."""

import dataclasses
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.analysis.identifiability.identify import Identifiability, of_data
from pdefit.analysis.identifiability.verdict import Compensation, ControlIdentifiability, Courses, Trace
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import normal_equations, sum_of_squares, weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.uncertainty.shift_with_finer_steps import residual_changes, with_residuals_moved

# steps of the way along which a control changes, and corrections at its end
_STEPS, _CORRECTIONS = 10, 3
# a change that can be seen in a figure, in units of the noise
_VISIBLE = 1e-3


def compensation(
    objective: AbstractObjective,
    theta: Float[Array, " p"],
    found: Identifiability,
    one: ControlIdentifiability,
    *,
    by: float = 0.1,
    noise: float = 1.0,
) -> Compensation:
    """Effect of a change of one scalar on the predictions, alone and with the remaining unknowns adjusted to keep them.

    For an unidentifiable scalar with partners the remaining unknowns follow a curve in small steps, each with new normal
    equations and Gauss-Newton corrections, damped by `found.eps`. Otherwise, or if the normal matrix is known by products
    only, they follow a straight line.

    **Arguments:**

    - `objective`, `theta`: the objective and the point, (p,).
    - `found`: the result of `identify` there.
    - `one`: the scalar that changes.
    - `by`: the change, relative to the scalar's size; default 0.1.
    - `noise`: the size of the noise in units of the stated sigma; default 1.
    """
    k = int(one.elements[0])
    data, theta = of_data(with_tangents(objective), jnp.asarray(theta))
    residuals = [weighted(*pair) for pair in data.parts(theta)]
    adjusted = by * one.direction / one.direction[k]
    if not found.by_products and one.word == "not identifiable" and one.partners:
        adjusted = _followed(_recorded(data, theta, residuals), theta, found, k, by)
    changes = found.scale * (np.arange(theta.size) == k) * by, found.scale * adjusted

    def effect(change: np.ndarray) -> float:
        moved = residual_changes(data, theta + change, residuals)
        mean = sum(map(sum_of_squares, moved)) / data.observed_values
        return float(np.sqrt(mean)) / noise if np.isfinite(mean) else np.inf

    return Compensation(one.control, *changes, *map(effect, changes))


def with_compensations(
    objective: AbstractObjective,
    theta: Float[Array, " p"],
    found: Identifiability,
    *,
    by: float = 0.1,
    most: int = 30,
    said: Callable[[int, int, str], None] = lambda done, of, what: None,
) -> Identifiability:
    """The identifiability with the effects of changes of its scalars, the least determined first.

    The courses show the scalar whose change is compensated best.

    **Arguments:**

    - `objective`, `theta`, `by`: as in `compensation`.
    - `found`: the result of `identify` there.
    - `most`: the largest number of scalars that are changed.
    - `said`: called with the number of finished changes, the number of all, and the next one.
    """
    if objective.controls.nodes:
        return found
    numbers = sorted((c for c in found.controls if c.elements.size == 1), key=lambda c: -c.projection)[:most]
    effects = dict[str, Compensation]()
    for done, one in enumerate(numbers):
        said(done, len(numbers), f"{one.control} by {by:.0%}")
        effects[one.control] = compensation(objective, theta, found, one, by=by, noise=found.noise)
    hidden = [effects[c.control] for c in found.controls if c.partners and c.control in effects]
    seen = [m for m in hidden if np.isfinite([m.alone, m.together]).all() and _VISIBLE < m.alone > m.together]
    courses = None
    if seen:
        one = max(seen, key=lambda m: m.alone / max(m.together, 1e-12 * m.alone))
        courses = Courses(one.control, by, tuple(traces(objective, theta, (one.change, one.adjusted))))
    return dataclasses.replace(found, effects=effects, compensated=courses)


def _recorded(objective: AbstractObjective, theta: Array, residuals: list[dict[str, np.ndarray]]) -> AbstractObjective:
    """The objective with the model's observations at theta as data."""
    each = iter(residuals)

    def recorded(part: Functional, own: Array) -> tuple[Functional, Array]:
        return with_residuals_moved(part, {name: -r for name, r in next(each).items()}), own

    return objective.each(recorded, theta)[0]


def _followed(
    objective: AbstractObjective, theta: Array, found: Identifiability, k: int, by: float
) -> Float[np.ndarray, " p"]:
    """The change of all unknowns in units of their sizes: k is changed, the rest is adjusted to minimise J."""
    size, relative = found.scale.size, objective.reweighted(found.sigma)
    others, x, damping = np.arange(size) != k, np.zeros(size), found.eps
    lowest, best, known = np.inf, x, None
    for part in [*np.linspace(0, by, _STEPS, endpoint=False), *[by] * _CORRECTIONS]:
        value, gradient, matrix = map(np.asarray, normal_equations(relative, theta + found.scale * x))
        if part < by or value < lowest:
            # a point before the end is good as it is: the way goes on from there
            lowest, best = float(value) if part == by else np.inf, x
            known = found.scale * gradient, matrix * np.outer(found.scale, found.scale)
        else:
            damping *= 100
        if known is None or not np.all(np.isfinite(known[1])):
            break
        gradient, matrix = known
        ahead = min(part + by / _STEPS, by) - part
        held = matrix[np.ix_(others, others)] + damping * np.eye(size - 1)
        step = np.full(size, ahead)
        step[others] = -np.linalg.solve(held, gradient[others] + ahead * matrix[others, k])
        x = best + step
    return best


def traces(
    objective: AbstractObjective, theta: Float[Array, " p"], changes: Sequence[np.ndarray], most: int = 2
) -> list[Trace]:
    """The observed values of the first recording that a change of one control moves most, one for each variable.

    **Arguments:**

    - `objective`, `theta`: the objective and the point, (p,).
    - `changes`: changes of theta, (p,) each: of one control alone, and with the remaining unknowns adjusted.
    - `most`: the largest number of variables.
    """
    points = [jnp.asarray(theta), *(jnp.asarray(theta) + change for change in changes)]
    part, _ = objective.parts(points[0])[0]
    each = [weighted(part, objective.parts(point)[0][1]) for point in points]
    index, found = np.asarray(part.layout.index), []
    for name, before in each[0].items():
        fitted = np.asarray(part.fitted(name))
        moved = np.nan_to_num(np.abs(each[1][name] - before)) * fitted
        place = np.unravel_index(np.argmax(moved.max(axis=(0, 1))), moved.shape[2:])
        data = part.observations
        value, sigma = (
            np.broadcast_to(x, data.values[name].shape)[index] for x in (data.values[name], data.sigma[name])
        )
        courses = [np.where(fitted, value + sigma * r[name], np.nan)[(..., *place)].ravel() for r in each]
        label = ".".join([name, *map(str, place)])
        found.append((float(moved.max()), Trace(label, np.asarray(data.ts)[index].ravel(), np.stack(courses))))
    return [trace for _, trace in sorted(found, key=lambda pair: -pair[0])[:most]]
