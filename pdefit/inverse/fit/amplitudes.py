"""Amplitudes of smoothing priors, estimated from the data by maximum evidence.

Let a field be S z with z of standard deviation a, let A be J_r^T J_r with all priors, and W be 1/a for the elements of
the field and 0 elsewhere. The derivative of the log evidence in ln a is |W z|^2 - gamma at the minimum. gamma, the
trace of 1 - W A^-1 W, is the number of the field's degrees of freedom determined by the data. So a solves |W z|^2 =
gamma.

The trace is estimated as the mean of v^T (1 - W A^-1 W) v over random signs v, each with one system solved by conjugate
gradients. A low-rank matrix would miss a part of gamma, and make the amplitude too large.

Source: D. J. C. MacKay, Neural Comput. 4:415 (1992), doi:10.1162/neco.1992.4.3.415; M. F. Hutchinson, Commun. Stat.
Simul. Comput. 19:433 (1990), doi:10.1080/03610919008812866 (the trace).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.controls.parametrization.sobolev import Sobolev
from pdefit.inverse.linear.conjugate_gradients import known_product
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.variants import with_tangents

# an amplitude that would change by less is the old one
_SETTLED = 0.05
# the most random vectors, and the standard error of gamma, relative to it, at which fewer are enough
_VECTORS, _ERROR = 4, 0.1
# the largest change of an amplitude in one round, and in all of them
_ROUND, _ALL = 10.0, 100.0


class Amplitudes(NamedTuple):
    """Amplitudes with maximum evidence.

    **Arguments:**

    - `weights`: the weight of every element in the prior, by path.
    - `settled`: whether they hardly changed, or cannot be determined.
    - `events`: sentences about the events.
    """

    weights: Mapping[str, Array]
    settled: bool
    events: list[str]


def choose_amplitudes(functional: AbstractObjective, theta: Float[Array, " p"], product: Callable) -> Amplitudes | None:
    """Amplitudes with maximum evidence at a minimum; None if all are stated.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: its minimum with the present amplitudes, (p,).
    - `product`: the product J_r^T J_r v of an objective at a point with a vector.
    """
    controls = functional.controls
    each = [(c, c.parametrization) for c in controls.items]
    fields = [(c, field) for c, field in each if isinstance(field, Sobolev) and field.open]
    if not fields:
        return None
    used = (controls.roughness_of_theta() * np.asarray(theta)) ** 2
    masks = [controls.elements[c.name] for c, _ in fields]
    determined, curved = _determined(functional, theta, product, masks)
    weights, settled, changes, events = dict[str, Array](), True, list[str](), list[str]()
    for (c, field), mask, gamma, second in zip(fields, masks, determined, curved, strict=True):
        now, first, factor, lost = field.amplitude(c.scale), field.deviation, 1.0, ""
        assert now is not None, "an open amplitude has a first value"
        if gamma < 1:
            lost = f"the data tell no amplitude of {c.path}, of which they determine less than one number"
        else:
            # Newton's step in ln a where gamma changes with a, and MacKay's where it does not
            power = np.clip(gamma / second, 1.0, 2.0) / 2
            factor = float(np.clip((np.sum(used[mask]) / gamma) ** power, 1 / _ROUND, _ROUND))
            if not first / _ALL <= now * factor <= first * _ALL:
                lost, factor = f"the data tell no amplitude of {c.path}, which went from {first:.3g} to {now:.3g}", 1.0
        if lost:
            events.append(f"{lost}; state it (smoothing.amplitude), and see whether the stated sigma is right")
        elif abs(np.log(factor)) > _SETTLED:
            settled = False
            weights[c.path] = jnp.asarray(field.roughness) / factor
            changes.append(f"{c.path} from {now:.3g} to {now * factor:.3g} ({gamma:.3g} degrees of freedom)")
    if changes:
        events.insert(0, f"amplitude chosen by the data: {', '.join(changes)}")
    return Amplitudes(weights, settled, events)


def _determined(
    functional: AbstractObjective, theta: Float[Array, " p"], product: Callable, masks: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Traces of F = 1 - W A^-1 W and of F^2 over every field."""
    functional, weights = with_tangents(functional), functional.controls.roughness_of_theta()
    given, rng = weights > 0, np.random.default_rng(0)

    def matrix(v: Array) -> Array:
        return jnp.asarray(np.asarray(product(functional, theta, v)))

    # the scale of elements without a prior is their mean curvature
    scale = weights**2
    for rest in (mask & ~given for mask in functional.controls.elements.values()):
        if np.any(rest):
            signs = jnp.asarray(np.where(rest, rng.choice([-1.0, 1.0], rest.size), 0.0))
            mean = float(jnp.vdot(signs, matrix(signs))) / np.sum(rest)
            scale[rest] = mean if mean > 0 else 1.0
    first, second, trace, squares = list[list[float]](), list[list[float]](), np.zeros(0), np.zeros(0)
    for _ in range(_VECTORS):
        signs = np.where(given, rng.choice([-1.0, 1.0], given.size), 0.0)
        found = known_product(matrix, lambda r: r / scale, jnp.asarray(weights * signs), float(np.sum(given)))
        image = signs - weights * np.asarray(found.solution)
        first.append([float(np.sum((signs * image)[mask])) for mask in masks])
        second.append([float(np.sum(image[mask] ** 2)) for mask in masks])
        trace, squares = np.mean(first, 0), np.maximum(np.mean(second, 0), np.finfo(float).tiny)
        if np.all(np.sqrt(2 * squares / len(first)) <= _ERROR * np.abs(trace)):
            break
    return trace, squares
