"""Explanations of residuals: errors of the discretisation, and values that a fit holds."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy

from pdefit.analysis.goodness.evidence import SURE, Suspect
from pdefit.inverse.uncertainty.held import Held

# an error of first order is twice the change with half the step; a little more is for what fitted fields take up
_LARGEST_MULTIPLE = 2.5
# the part of a change that fitted numbers leave over, below which it is theirs
_LEFT = 1e-3
# suspects whose excess is this part of the largest are named beside it
_NEARLY = 0.9

Residuals = Mapping[str, np.ndarray]


def suspects(
    residuals: Residuals,
    directions: Sequence[Residuals],
    held: Sequence[Held],
    sigma_known: bool,
    clean: Callable[[Residuals], bool],
) -> tuple[Suspect, ...]:
    """Held values that explain all structure of the residuals, the surest first; empty without one.

    The score test of each value, beside what fitted numbers take up. Its level is divided by the number of values. The
    variance is that of the residuals beside the change, at least 1, where sigma is known, or else that of the jackknife. A
    value is named only where residuals are `clean` without its part: a missing term, or a noise with a memory, resembles
    many values a little.

    **Arguments:**

    - `residuals`: weighted residuals by variable.
    - `directions`: changes of them with the fitted numbers.
    - `held`: the values with their changes.
    - `sigma_known`: whether all residuals have the same known variance.
    - `clean`: whether other residuals show no structure.

    Source of the variance: J. MacKinnon, H. White, J. Econometrics 29:305 (1985), doi:10.1016/0304-4076(85)90158-7.
    """
    given, whole = _taken(residuals, directions), _flat(residuals, residuals)
    r = _beside(whole, given)
    changes = {
        one.name: _beside(c, given) / np.linalg.norm(c) for one in held for c in [_flat(residuals, one.residuals)]
    }
    arrays = {path: [one.name for one in each] for path, each in itertools.groupby(held, lambda one: one.path)}
    tests = {one.name: [one.name] for one in held} | {path: each for path, each in arrays.items() if len(each) > 1}
    found = list[tuple[float, str, np.ndarray]]()
    for name, each in tests.items():
        basis = _basis(np.stack([changes[n] for n in each], 1))
        free = np.count_nonzero(r) - given.shape[1] - basis.shape[1]
        if not basis.shape[1] or free < 1 or not np.all(np.isfinite(basis)):
            continue
        g = basis.T @ r
        left = r - basis @ g
        if sigma_known:
            ratio = float(g @ g) / max(1.0, float(left @ left) / free)
        else:
            # a residual that determines the value alone tells nothing
            alone = left / np.maximum(1 - np.sum(basis**2, 1), _LEFT)
            ratio = float(g @ np.linalg.lstsq((basis * alone[:, None] ** 2).T @ basis, g)[0])
        chance = len(tests) * float(scipy.stats.f.sf(ratio / basis.shape[1], basis.shape[1], free))
        found.append((float(scipy.stats.norm.isf(min(chance, 0.5))), name, whole - basis @ g))
    found.sort(key=lambda one: -one[0])
    if not found or not found[0][0] > SURE or not clean(_unflat(residuals, found[0][2])):
        return ()
    sure = [(excess, name) for excess, name, _ in found if excess >= max(SURE, _NEARLY * found[0][0])]
    singles = {one.name: one for one in held}

    def better(name: str) -> tuple[float, float]:
        if name not in singles:
            return float("nan"), float("nan")
        one, size = singles[name], np.linalg.norm(_flat(residuals, singles[name].residuals))
        along = changes[name]
        return one.value, one.value - one.change * float(along @ r / (along @ along) / size)

    return tuple(Suspect(name, *better(name), excess) for excess, name in sure)


def without_discretisation(
    residuals: Residuals, directions: Sequence[Residuals], finer: Sequence[Residuals]
) -> dict[str, np.ndarray]:
    """Residuals less what finer steps and cells take away, as far as fitted numbers leave it there.

    With half of either, an error of order q falls to a part 2^-q of itself. So the error is -1 to -2 times the change. A
    multiple beyond that is none of the discretisation.
    """
    changes = np.stack([_flat(residuals, d) for d in finer], 1)
    changes = _beside(changes, _taken(residuals, directions))
    r = _flat(residuals, residuals)
    if not np.all(np.isfinite(changes)):
        return dict(residuals)
    multiples = scipy.optimize.lsq_linear(changes, r, (-_LARGEST_MULTIPLE, 0.0)).x
    return _unflat(residuals, r - changes @ multiples)


def _flat(like: Residuals, values: Residuals) -> np.ndarray:
    """Values by variable in one vector, in the order of the residuals."""
    return np.concatenate([np.ravel(values[name]) for name in like])


def _unflat(like: Residuals, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Values by variable from one vector."""
    ends = np.cumsum([np.size(r) for r in like.values()])
    parts = np.split(flat, ends[:-1])
    return {name: part.reshape(np.shape(r)) for (name, r), part in zip(like.items(), parts, strict=True)}


def _taken(like: Residuals, directions: Sequence[Residuals]) -> np.ndarray:
    """An orthonormal basis of the changes that fitted numbers make, (n, k)."""
    if not directions:
        return np.zeros((sum(np.size(r) for r in like.values()), 0))
    return np.linalg.qr(np.stack([_flat(like, d) for d in directions], 1))[0]


def _basis(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis of columns, without directions that are nearly nothing."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, sizes > _LEFT]


def _beside(x: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """A vector, or columns, without the part in the span of an orthonormal basis."""
    return x - basis @ (basis.T @ x)
