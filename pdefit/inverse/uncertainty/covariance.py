"""Covariance of an estimate in search space, from its normal equations."""

from typing import NamedTuple

import jax
import numpy as np
import scipy
from jaxtyping import Array, Bool, Float

from pdefit._util.errors import PdefitError
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.linear.determined_inverse import column_norms, determined_inverse, undetermined
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import EQUATIONS, Equations
from pdefit.inverse.objective.segment_jacobian import SegmentNormalEquations
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.uncertainty.control_values import at_points


class Covariance(NamedTuple):
    """Covariance of the first k elements of theta.

    **Arguments:**

    - `matrix`: the covariance, (k, k).
    - `inverse`: the corresponding rows of (J_r^T J_r)^-1, (k, p).
    - `undetermined`: mask of elements (or values at points) that the data do not determine, (k,).
    - `gradient`: J_r^T r, (p,).
    - `method`: the origin of the covariance, as text.
    - `degrees`: its degrees of freedom.
    - `equations`: the normal equations, if they were evaluated.
    """

    matrix: Float[np.ndarray, "k k"]
    inverse: Float[np.ndarray, "k p"]
    undetermined: Bool[np.ndarray, " k"]
    gradient: Float[np.ndarray, " p"]
    method: str
    degrees: int
    equations: Equations | None = None


def covariance_of(
    functional: AbstractObjective, theta: Float[Array, " p"], equations: Equations | None = None
) -> Covariance:
    """Covariance of all elements of theta, as described at `pdefit.intervals`.

    **Arguments:**

    - `functional`, `theta`: the objective and its minimum, (p,).
    - `equations`: the normal equations at theta; by default they are evaluated.
    """
    found: Equations = EQUATIONS(with_tangents(functional), theta) if equations is None else equations
    groups, gradient, matrix = jax.tree.map(np.asarray, found[0].joined()), *map(np.asarray, found[1][1:])
    free = functional.controls.bounds.free(theta)
    names = np.array(functional.controls.names())[free]
    if names.size and not np.diag(matrix)[free].max() > 0:
        raise PdefitError(
            f"The data say nothing about {', '.join(names)} (the Jacobian is zero); give a prior, or observe more"
        )
    known = determined_inverse(matrix, free)
    inverse = known.matrix
    middle, method, degrees = _scores(functional, groups, matrix, inverse, free)
    points = values_per_element(functional.controls) / column_norms(matrix)
    left_open = undetermined(points / np.linalg.norm(points, axis=1, keepdims=True) @ known.null)
    return Covariance(inverse @ middle @ inverse, inverse, left_open, gradient, method, degrees, found)


def _scores(
    functional: AbstractObjective,
    groups: SegmentNormalEquations,
    matrix: np.ndarray,
    inverse: np.ndarray,
    free: np.ndarray,
) -> tuple[np.ndarray, str, int]:
    """Covariance of the gradient, its method, and its degrees of freedom. A prior's score has variance 1."""
    norms = column_norms(matrix)
    segments, p, held = functional.groups, norms.size, int(np.count_nonzero(~free))
    prior = groups.extra_jac.T @ groups.extra_jac
    if segments <= max(np.count_nonzero(free[: functional.controls.shared.size]), 1):
        # the prior of modes is in units of the noise, whose size the residuals tell; a stated amplitude is not
        smooth = functional.controls.roughness_of_theta() ** 2
        prior = prior - np.diag(np.where(functional.controls.mask(lambda c: c.has_modes), smooth, 0.0))
        # both take part of the freedom
        used = p - held - float(np.diag(inverse) @ smooth)
        degrees = max(functional.observed_values + functional.continuity_values - round(used), 1)
        variance = 2 * float(np.sum(groups.half_square)) / degrees
        middle = variance * (matrix - prior) + prior
        return middle, "Gauss-Newton covariance times the residual variance", degrees
    scores, size = np.zeros((len(groups.half_square), p)), np.outer(norms, norms)
    block = np.ix_(free, free)
    # segments that pad a record have a score of zero
    for g, columns in enumerate(np.asarray(groups.columns)):
        score, own = np.zeros(p), np.zeros((p, p))
        np.add.at(score, columns, groups.gradient[g])
        np.add.at(own, np.ix_(columns, columns), groups.matrix[g])
        score, own = (score / norms)[free], (own / size)[block]
        # the residuals the segment would have had, had it not been fitted: J^T (1 - H)^-1 r by Woodbury's identity
        without: np.ndarray = scipy.linalg.lstsq((matrix / size)[block] - own, score, lapack_driver="gelsy")[0]  # pyright: ignore
        scores[g, free] = score + own @ without
    scores *= norms
    middle = (segments - 1) / segments * scores.T @ scores + prior
    return middle, f"sandwich covariance, clustered by {segments} segments (CR3)", segments - 1


def values_per_element(controls: Controls) -> np.ndarray:
    """Derivatives of all values at points of the controls in all elements of theta, (p, p).

    **Arguments:** `controls`: all controls, or some of them.
    """
    return at_points(controls, np.eye(controls.size)).T
