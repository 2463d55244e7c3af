"""Low-rank approximation of a matrix known only by its products, by random vectors."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float


class Leading(NamedTuple):
    """A low-rank part B B^T of a positive semidefinite matrix M, with M - B B^T positive semidefinite, too.

    **Arguments:**

    - `factor`: B, (m, r).
    - `products`: the number of products with M.
    - `missing`: an upper estimate of the trace of the remainder M - B B^T.
    """

    factor: Float[np.ndarray, "m r"]
    products: int
    missing: float


def leading(
    products: Callable[[np.ndarray], np.ndarray],
    size: int,
    rank: int,
    tolerance: float,
    batch: int,
    seed: int,
    precision: float,
    stop: Callable[[int], bool],
) -> Leading:
    """Low-rank part of a positive semidefinite matrix M from random products (Nystrom's approximation).

    With an orthonormal basis Q of random vectors and Y = M Q, the part is Y (Q^T Y)^-1 Y^T. It never exceeds M. For the
    same number of products, powers of M or a Krylov space would find fewer eigenpairs if many are far above 1.

    A new random vector v also measures the remainder: the mean of v^T (M - B B^T) v is its trace.

    **Arguments:**

    - `products`: the products with several vectors, (b, m) to (b, m).
    - `size`: the size m of M.
    - `rank`: the largest number of products, one for each eigenpair.
    - `tolerance`: the search ends when the trace of the remainder is below this fraction of the number of eigenpairs.
    - `batch`: the number of simultaneous products.
    - `seed`: the seed of the random vectors.
    - `precision`: the relative error of products.
    - `stop`: called with the number of products before each batch; if it returns true, the search ends.

    Source: J. A. Tropp, A. Yurtsever, M. Udell, V. Cevher, NeurIPS 30 (2017), arXiv:1706.05736.
    """
    rng, most, missing = np.random.default_rng(seed), min(rank, size), np.inf
    basis, images = np.zeros((0, size)), np.zeros((0, size))
    while len(basis) < most and missing > tolerance * len(basis) and not stop(len(basis)):
        new = rng.standard_normal((min(batch, most - len(basis)), size))
        lengths = np.ones(len(new))
        # once more, against round-off
        for _ in range(2):
            q, triangle = np.linalg.qr((new - (new @ basis.T) @ basis).T)
            new, lengths = q.T, lengths * np.diag(triangle)
        basis, images = np.concatenate([basis, new]), np.concatenate([images, products(new)])
        # pivots are what earlier vectors leave over along the part of a new one that is orthogonal to them
        small = _small(basis, images)
        factor, failed = scipy.linalg.lapack.dpotrf(small, lower=1)  # pyright: ignore[reportAttributeAccessIssue]
        pivots = np.where(np.arange(len(small)) < failed - 1, np.diag(factor), 0.0) if failed else np.diag(factor)
        later = (lengths * pivots[-len(new) :])[-(len(new) + 1) // 2 :]
        # no less than the round-off of products
        missing = max(float(np.mean(later**2)), precision * np.trace(small)) if len(basis) < size else 0.0
    values, vectors = np.linalg.eigh(_small(basis, images))
    # smaller eigenvalues are lost in round-off
    large = values > 10 * precision * values.max(initial=0.0)
    return Leading(images.T @ (vectors[:, large] / np.sqrt(values[large])), len(basis), missing)


def _small(basis: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Q^T M Q, symmetrised against round-off."""
    product = basis @ images.T
    return (product + product.T) / 2
