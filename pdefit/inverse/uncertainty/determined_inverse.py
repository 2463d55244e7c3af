"""Inverse of a Gauss-Newton matrix on what the data determine."""

import numpy as np
from jaxtyping import Bool

# a column of the Jacobian below this fraction of the largest is zero to round-off
_ZERO = 1e-13


def column_norms(matrix: np.ndarray) -> np.ndarray:
    """The norms of the columns of the Jacobian of J_r^T J_r; 1 for controls that change nothing."""
    norms = np.sqrt(np.diag(matrix))
    return np.where(norms > _ZERO * norms.max(), norms, 1.0)


def determined_inverse(matrix: np.ndarray, free: Bool[np.ndarray, " p"] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of J_r^T J_r on what the data determine, and the other directions, in units of one over `column_norms`.

    **Arguments:**

    - `matrix`: J_r^T J_r, (p, p).
    - `free`: the elements that are not held; by default all. The inverse and the directions are zero in held elements.
    """
    free = np.ones(len(matrix), bool) if free is None else free
    size = np.outer(column_norms(matrix), column_norms(matrix))
    values, vectors = np.linalg.eigh((matrix / size)[np.ix_(free, free)])
    null = values <= 10 * values.size * np.finfo(float).eps * values.max(initial=0.0)
    directions = np.zeros((free.size, values.size))
    directions[free] = vectors
    determined = directions[:, ~null]
    return (determined / values[~null]) @ determined.T / size, directions[:, null]
