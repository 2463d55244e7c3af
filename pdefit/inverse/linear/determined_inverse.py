"""Inverse of a Gauss-Newton matrix on the subspace determined by the data."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

# a column of the Jacobian below this fraction of the largest is zero to round-off
_ZERO = 1e-13
# an unknown with a larger part of its squared length in directions without information is not determined
_PART = 0.01


class DeterminedInverse(NamedTuple):
    """Inverse R R^T of J_r^T J_r on the subspace determined by the data.

    **Arguments:**

    - `root`: R, with zero rows for held elements, (p, r).
    - `null`: basis of the undetermined directions, in units of one over `column_norms`, (p, n).
    """

    root: Float[np.ndarray, "p r"]
    null: Float[np.ndarray, "p n"]

    @property
    def matrix(self) -> Float[np.ndarray, "p p"]:
        """The inverse matrix."""
        return self.root @ self.root.T

    @property
    def undetermined(self) -> Bool[np.ndarray, " p"]:
        """Mask of elements that the data do not determine."""
        return undetermined(self.null)

    @property
    def errors(self) -> Float[np.ndarray, " p"]:
        """Standard errors: infinite for undetermined elements, 0 for held ones."""
        return np.where(self.undetermined, np.inf, np.sqrt(np.sum(self.root**2, axis=1)))


def undetermined(parts: Float[np.ndarray, "m n"]) -> Bool[np.ndarray, " m"]:
    """Mask of unit vectors with more than a hundredth of their squared length in directions without information.

    **Arguments:** `parts`: the components of each vector along these directions.
    """
    return np.sum(parts**2, axis=1) > _PART


def column_norms(matrix: np.ndarray) -> np.ndarray:
    """Column norms of the Jacobian of J_r^T J_r; the largest one replaces zeros, of controls without effect."""
    norms = np.sqrt(np.diag(matrix))
    largest = norms.max(initial=0.0)
    return np.where(norms > _ZERO * largest, norms, largest or 1.0)


def determined_inverse(
    matrix: Float[np.ndarray, "p p"], free: Bool[np.ndarray, " p"] | None = None
) -> DeterminedInverse:
    """Inverse of a Gauss-Newton matrix on the subspace determined by the data, after scaling its diagonal to one.

    **Arguments:**

    - `matrix`: J_r^T J_r, (p, p).
    - `free`: the elements that are not held; default all.
    """
    free = np.ones(len(matrix), bool) if free is None else free
    norms = column_norms(matrix)
    values, vectors = np.linalg.eigh((matrix / np.outer(norms, norms))[np.ix_(free, free)])
    null = values <= 10 * values.size * np.finfo(float).eps * values.max(initial=0.0)
    directions = np.zeros((free.size, values.size))
    directions[free] = vectors
    root = directions[:, ~null] / np.sqrt(values[~null]) / norms[:, None]
    return DeterminedInverse(root, directions[:, null])


def standard_errors(
    matrix: Float[np.ndarray, "... p p"], free: Bool[np.ndarray, "... p"] | None = None
) -> Float[np.ndarray, "... p"]:
    """Standard errors from one or many Gauss-Newton matrices; NaN for non-finite matrices.

    **Arguments:** as in `determined_inverse`.
    """
    if matrix.ndim > 2:
        each = [None] * len(matrix) if free is None else free
        return np.stack([standard_errors(*one) for one in zip(matrix, each, strict=True)])
    if not np.all(np.isfinite(matrix)):
        return np.full(len(matrix), np.nan)
    return determined_inverse(matrix, free).errors
