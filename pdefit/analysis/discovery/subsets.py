"""Sparse regression by search over subsets, from normal equations alone."""

import numpy as np
import scipy
from jaxtyping import Float, Int

# sets of each size that are extended by another term
_BEAM = 60


def subsets(
    matrix: Float[np.ndarray, "n n"], right: Float[np.ndarray, " n"], most: int
) -> list[tuple[tuple[int, ...], float]]:
    """Best sets of columns of a least-squares problem, and the reduction of the sum of squares by each.

    All sets of one and two columns are tried. Larger sets grow from the best of each size by adding a column or by
    exchanging one. So there is no threshold, and the order of columns does not matter. Not for hundreds of columns
    that are nearly collinear.

    **Arguments:**

    - `matrix`, `right`: A^T A and A^T b.
    - `most`: the largest number of columns in a set.

    **Returns:** the best sets of every size, the empty set first; within a size the best first.
    """
    size = np.sqrt(np.diag(matrix))
    known = np.flatnonzero(size > 0)
    unit = np.where(size > 0, size, 1.0)
    matrix, right = matrix / np.outer(unit, unit), right / unit
    found: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    best: list[tuple[int, ...]] = [()]
    for count in range(1, min(most, known.size) + 1):
        grown = {tuple(sorted((*s, j))) for s in best for j in known.tolist() if j not in s}
        if count == 2:
            grown = {(i, j) for i in known.tolist() for j in known.tolist() if i < j}
        falls = _falls(matrix, right, np.array(sorted(grown)))
        order = np.argsort(-falls, kind="stable")[:_BEAM]
        tried = np.array(sorted(grown))
        # one term in the place of another
        swapped = {
            tuple(sorted((*(k for k in tried[i].tolist() if k != out), j)))
            for i in order[:10]
            for out in tried[i].tolist()
            for j in known.tolist()
            if j not in tried[i]
        } - grown
        if count > 2 and swapped:
            more = np.array(sorted(swapped))
            tried, falls = np.concatenate([tried, more]), np.concatenate([falls, _falls(matrix, right, more)])
            order = np.argsort(-falls, kind="stable")[:_BEAM]
        best = [tuple(tried[i].tolist()) for i in order]
        found += [(s, float(falls[i])) for s, i in zip(best, order, strict=True)]
    return found


def _falls(matrix: np.ndarray, right: np.ndarray, sets: Int[np.ndarray, "s k"]) -> Float[np.ndarray, " s"]:
    """Reduction of the sum of squares by each set of columns."""
    inside, b = matrix[sets[:, :, None], sets[:, None, :]], right[sets]
    # columns that hardly differ are told apart as far as round-off lets them
    inside = inside + 1e-12 * np.eye(sets.shape[1])
    return np.einsum("sk,sk->s", b, np.linalg.solve(inside, b[:, :, None])[:, :, 0])


def penalty(chosen: int, candidates: int, values: int, constants: int = 0) -> float:
    """The smallest reduction of chi2 that justifies a set of terms, by the extended Bayesian criterion.

    It accounts for the number of sets to choose from.

    **Arguments:** `chosen` of `candidates` terms, with `constants` in them, by `values` measured ones.

    Source: J. Chen, Z. Chen, Biometrika 95:759 (2008), doi:10.1093/biomet/asn034.
    """
    sets = (
        scipy.special.gammaln(candidates + 1)
        - scipy.special.gammaln(chosen + 1)
        - scipy.special.gammaln(candidates - chosen + 1)
    )
    return float((chosen + constants) * np.log(values) + 2 * sets)
