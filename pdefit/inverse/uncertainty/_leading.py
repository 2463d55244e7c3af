"""The leading eigenpairs of a symmetric matrix that is known by its products alone."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# vectors that span the first directions: eigenvalues that are that many times the same are all found
_BLOCK = 4
# the search ends when a product adds less than this to the degrees of freedom
_GAIN = 0.05
# random products from which the rest of the trace is estimated
_PROBES = 2


class Leading(NamedTuple):
    """A low-rank part B B^T of a positive semidefinite matrix M, with M - B B^T positive semidefinite, too.

    **Arguments:**

    - `factor`: B, (m, r).
    - `products`: the number of products with M.
    - `missing`: an estimate of the trace of the rest; 0 where the search ended because products added hardly anything.
    """

    factor: Float[np.ndarray, "m r"]
    products: int
    missing: float


def leading(
    product: Callable[[np.ndarray], np.ndarray],
    size: int,
    rank: int,
    seed: int,
    precision: float,
    stop: Callable[[int], bool],
) -> Leading:
    """The leading part of a positive semidefinite matrix M, by a block Krylov space and Nystrom's approximation.

    A basis Q of the Krylov space of random vectors is kept orthonormal against all of its vectors. With Y = M Q the part
    is Y (Q^T Y)^-1 Y^T. It is never larger than M, and exact on the range of Q.

    **Arguments:**

    - `product`: the product M v.
    - `size`: the size m of M.
    - `rank`: the most products of the basis, one for each eigenpair.
    - `seed`: of the random vectors.
    - `precision`: the relative error of products.
    - `stop`: called with the number of products before each; where it returns true, the search ends.

    Source: C. Musco, C. Musco, NeurIPS 28 (2015), arXiv:1504.05477; J. A. Tropp et al., SIAM J. Matrix Anal. Appl.
    38:1454 (2017), doi:10.1137/17M1111590.
    """
    rng, most = np.random.default_rng(seed), min(rank, size)
    basis, images = np.zeros((most, size)), np.zeros((most, size))
    done, before, settled = 0, 0.0, False
    while done < most and not settled and not stop(done):
        start = images[done - _BLOCK] if done >= _BLOCK else rng.standard_normal(size)
        basis[done] = _orthogonal(start, basis[:done], rng)
        images[done] = product(basis[done])
        done += 1
        if done % _BLOCK == 0:
            known = np.maximum(np.linalg.eigvalsh(_symmetric(basis[:done] @ images[:done].T)), 0.0)
            freedom = float(np.sum(known / (1 + known)))
            settled, before = freedom - before < _GAIN * _BLOCK, freedom
    factor = _nystrom(basis[:done], images[:done], precision)
    rest, probes = [], 0 if settled or done == size else _PROBES
    while len(rest) < probes and not stop(done + len(rest)):
        v = rng.choice([-1.0, 1.0], size)
        rest.append(v @ product(v) - np.sum((v @ factor) ** 2))
    missing = max(float(np.mean(rest)), 0.0) if rest else 0.0
    return Leading(factor, done + len(rest), missing)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2


def _orthogonal(v: np.ndarray, basis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The unit vector of the part of v orthogonal to a basis; of a random vector where nothing of v is left."""
    while True:
        size = np.linalg.norm(v)
        # once more, against round-off
        for _ in range(2):
            v = v - (basis @ v) @ basis
        if (left := np.linalg.norm(v)) > 1e-12 * size:
            return v / left
        v = rng.standard_normal(v.size)


def _nystrom(basis: np.ndarray, images: np.ndarray, precision: float) -> np.ndarray:
    """The factor B of Y (Q^T Y)^-1 Y^T, with orthogonal columns of which the longest comes first."""
    values, vectors = np.linalg.eigh(_symmetric(basis @ images.T))
    kept = values > precision * values.max(initial=0.0)
    factor = images.T @ (vectors[:, kept] / np.sqrt(values[kept]))
    return factor @ np.linalg.eigh(factor.T @ factor)[1][:, ::-1]
