"""Influence of every observation on fitted scalars, and independent standard errors."""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import PARTS
from pdefit.inverse.objective.spread import at_points, given_devices, over_cores
from pdefit.inverse.uncertainty.intervals import Intervals

# a number is moved by this part of its standard error, so that the model is linear and round-off far below
PART = 0.1
# numbers, at most: each costs a forward run; and numbers times values, which are held
_MOST, _MOST_HELD = 30, 50_000_000


def influences(found: Fit, known: Intervals) -> list[list[dict[str, np.ndarray]]]:
    """Changes of the weighted residuals of every recording with each fitted scalar, all other unknowns adjusted.

    For scalar k it is J_r (J_r^T J_r)^-1 e_k, scaled to norm 1: the weight of every value in the estimate. It costs a
    forward run for each scalar. Undetermined scalars have no influences, nor have scalars at a bound. None are computed
    for more than 30 scalars, or for more than fifty million values times scalars.

    **Arguments:**

    - `found`: the fit.
    - `known`: its intervals.
    """
    functional, theta = found.functional, np.asarray(found.theta)
    steps = (PART * known.inverse[k] / np.sqrt(known.inverse[k, k]) for k in numbers(found, known))
    moved = [[own for _, own in functional.parts(jax.device_put(theta + step))] for step in steps]
    each = []
    for e, (part, _) in enumerate(functional.parts(jax.device_put(theta))):
        now, there = found.recordings[e].residuals, over_cores(part, given_devices(functional), least=0.0)
        each.append([whole_change(now, after.observed) for after in at_points(PARTS, there, [own[e] for own in moved])])
    return each


def whole_change(now: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Change of residuals with a whole standard error, from the change with a `PART` of it.

    A step out of the model's domain counts as no change.
    """
    return {n: np.nan_to_num((x - now[n]) / PART, posinf=0.0, neginf=0.0) for n, x in after.items()}


def numbers(found: Fit, known: Intervals) -> Sequence[int]:
    """Indices in theta of scalars with a known interval; empty if their influences would be too many."""
    alone = found.functional.controls.numbers[: len(known.inverse)]
    usable = alone & np.isfinite(known.error[: len(alone)]) & (np.diag(known.inverse[:, : len(alone)]) > 0)
    chosen = np.flatnonzero(usable)
    few = chosen.size <= _MOST and chosen.size * found.functional.observed_values <= _MOST_HELD
    return chosen.tolist() if few else []


def independent_errors(found: Fit, known: Intervals) -> list[list[np.ndarray]]:
    """Changes of every recording's theta by independent standard errors of the scalars, all other unknowns adjusted.

    Their outer products sum to the covariance. Scalars that `numbers` leaves out are held.

    **Arguments:**

    - `found`, `known`: the fit and its intervals.
    """
    functional, theta, chosen = found.functional, np.asarray(found.theta), numbers(found, known)
    rows = known.inverse[chosen]
    steps = scipy.linalg.solve_triangular(scipy.linalg.cholesky(rows[:, chosen], lower=True), rows, lower=True)
    now, *moved = ([np.asarray(own) for _, own in functional.parts(jnp.asarray(x))] for x in (theta, *(theta + steps)))
    return [[own[e] - here for own in moved] for e, here in enumerate(now)]


def remaining(found: Fit, known: Intervals) -> float:
    """Largest Gauss-Newton step of a free scalar at the estimate, in standard errors.

    NaN without such scalars, or if one has no interval.
    """
    chosen = np.flatnonzero((found.functional.controls.numbers & known.free)[: len(known.inverse)])
    steps, errors = known.inverse[chosen] @ known.gradient, known.error[chosen]
    if not chosen.size or not np.all(errors > 0):
        return float("nan")
    return float(np.max(np.abs(steps) / errors))
