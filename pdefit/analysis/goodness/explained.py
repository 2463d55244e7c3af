"""Explanations of residuals: errors of the discretisation, and values that a fit holds."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy

from pdefit.analysis.goodness.evidence import Suspect
from pdefit.analysis.goodness.structure import LEFT, SURE, basis
from pdefit.inverse.uncertainty.held import Held

# an error of first order is twice the change with half the step; a little more is for what fitted fields take up
_LARGEST_MULTIPLE = 2.5
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
    variance is the variance of the residuals beside the change, at least 1, if sigma is known, or else the jackknife
    variance. A value is named only if residuals are `clean` without its part: a missing term, or a noise with a memory,
    resembles many values a little.

    **Arguments:**

    - `residuals`: weighted residuals by variable.
    - `directions`: changes of them with the fitted numbers.
    - `held`: the values with their changes.
    - `sigma_known`: whether all residuals have the same known variance.
    - `clean`: whether other residuals show no structure.

    Source of the variance: J. MacKinnon, H. White, J. Econometrics 29:305 (1985), doi:10.1016/0304-4076(85)90158-7.
    """
    if not held:
        return ()
    given, whole = _taken(residuals, directions), _flat(residuals, residuals)
    r = _beside(whole, given)
    single, tests = dict[str, tuple[Held, float]](), dict[str, list[np.ndarray]]()
    for one in held:
        change = _flat(residuals, one.residuals)
        norm = float(np.linalg.norm(change))
        # without an effect on this recording, or out of the model's domain
        if not 0 < norm < np.inf:
            continue
        single[one.name], tests[one.name] = (one, norm), [_beside(change, given) / norm]
        if one.path != one.name:
            tests.setdefault(one.path, []).append(tests[one.name][0])
    tests = {name: columns for name, columns in tests.items() if name in single or len(columns) > 1}
    found = list[tuple[float, str, np.ndarray]]()
    for name, columns in tests.items():
        own = basis(np.stack(columns, 1))
        free = np.count_nonzero(r) - given.shape[1] - own.shape[1]
        if not own.shape[1] or free < 1:
            continue
        g = own.T @ r
        left = r - own @ g
        if sigma_known:
            ratio = float(g @ g) / max(1.0, float(left @ left) / free)
        else:
            # a residual that determines the value alone tells nothing
            alone = left / np.maximum(1 - np.sum(own**2, 1), LEFT)
            ratio = float(g @ np.linalg.lstsq((own * alone[:, None] ** 2).T @ own, g)[0])
        chance = len(tests) * float(scipy.stats.f.sf(ratio / own.shape[1], own.shape[1], free))
        found.append((float(scipy.stats.norm.isf(min(chance, 0.5))), name, whole - own @ g))
    found.sort(key=lambda one: -one[0])
    if not found or not found[0][0] > SURE or not clean(_unflat(residuals, found[0][2])):
        return ()

    def suspect(name: str, excess: float) -> Suspect:
        if name not in single:
            return Suspect(name, float("nan"), float("nan"), excess)
        (one, norm), (change,) = single[name], tests[name]
        better = one.value - one.change * float(change @ r / (change @ change) / norm)
        return Suspect(name, one.value, better, excess, one.at_bound)

    return tuple(suspect(name, e) for e, name, _ in found if e >= max(SURE, _NEARLY * found[0][0]))


def without_discretisation(
    residuals: Residuals, directions: Sequence[Residuals], finer: Sequence[Residuals]
) -> dict[str, np.ndarray]:
    """Residuals corrected for discretisation errors, after projection onto the complement of fitted numbers.

    With half the step or cell, an error of order q falls by a factor 2^-q. So the error is -1 to -2 times the change. A
    multiple beyond that is not an error of the discretisation.
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


def _beside(x: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """A vector, or columns, without the part in the span of an orthonormal basis."""
    return x - basis @ (basis.T @ x)
