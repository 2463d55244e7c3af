"""Lanczos' method: the component of a vector in a matrix's near null space, from products alone, with bounds."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

# a quadratic form is known when its bounds differ by no more than a fraction of it; after some products it is enough that
# both are on one side of the limit, and no further apart than a factor
_FRACTION, _ENOUGH, _FACTOR = 0.02, 60, 9
# a Krylov space is invariant where the next vector is below this part of the matrix, and a pivot below the other is round-off
_INVARIANT, _ROUND_OFF = 1e-12, 1e-15


class Unseen(NamedTuple):
    """The part of a unit vector u that the data do not determine.

    **Arguments:**

    - `curve`: its squared length for each of several thresholds, (e,).
    - `part`: the part itself at the threshold `eps`, (p,).
    - `least`, `most`: bounds of its squared length there.
    - `alone`: the squared length with all other unknowns held.
    """

    curve: Float[np.ndarray, " e"]
    part: Float[np.ndarray, " p"]
    least: float
    most: float
    alone: float


def unseen_by_products(
    product: Callable[[np.ndarray], np.ndarray],
    start: Float[np.ndarray, " p"],
    eps: float,
    thresholds: Float[np.ndarray, " e"],
    limit: float,
    products: int,
) -> Unseen:
    """Undetermined part of a unit vector u, from products with the matrix A alone.

    The part is eps (A + eps)^-1 u, and its "squared length" eps u^T (A + eps)^-1 u. An eigenvector with eigenvalue l
    has weight eps / (l + eps) instead of 1 or 0, so the length is smooth and grows with eps. It is at least half the
    squared projection on eigenvalues up to eps. Lanczos' tridiagonal matrix gives it for all thresholds at once: a
    lower bound by Gauss quadrature, and an upper bound by Gauss-Radau quadrature with a node at the least possible
    eigenvalue, 0.

    **Arguments:**

    - `product`: A v, (p,) to (p,), for a positive semidefinite matrix.
    - `start`: u, (p,).
    - `eps`: the deciding threshold.
    - `thresholds`: further thresholds, (e,).
    - `limit`: iterations end once the squared length is known to lie above or below this limit.
    - `products`: the largest number of products.

    Source: G. H. Golub, G. Meurant, Matrices, Moments and Quadrature (Princeton, 2010), chapter 6.
    """

    def length(diagonal: list[float], beside: list[float]) -> tuple[float, np.ndarray, np.ndarray]:
        values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside)
        values = np.maximum(values, 0.0)
        return float(vectors[0] ** 2 @ (eps / (values + eps))), values, vectors

    basis, diagonal, beside, pivot = [start], list[float](), list[float](), np.inf
    while True:
        image = product(basis[-1])
        diagonal.append(float(basis[-1] @ image))
        least, values, vectors = length(diagonal, beside)
        space = np.stack(basis)
        # twice, against round-off
        for _ in range(2):
            image = image - space.T @ (space @ image)
        size = float(np.linalg.norm(image))
        if len(basis) == start.size or not size > _INVARIANT * values[-1]:
            most = least
            break
        pivot = diagonal[-1] - (beside[-1] ** 2 / pivot if beside else 0.0)
        # where round-off leaves no pivot, an eigenvalue is 0 already
        most = least if pivot <= _ROUND_OFF * values[-1] else length([*diagonal, size**2 / pivot], [*beside, size])[0]
        sided = len(basis) >= _ENOUGH and (most <= limit or least > limit) and most <= _FACTOR * least
        if sided or most - least <= _FRACTION * least or len(basis) >= products:
            break
        beside.append(size)
        basis.append(image / size)
    curve = vectors[0] ** 2 @ (thresholds / (values[:, None] + thresholds))
    part = space.T @ (vectors @ (eps / (values + eps) * vectors[0]))
    return Unseen(curve, part, least, max(most, least), eps / (diagonal[0] + eps))
