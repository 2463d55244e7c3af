"""Held values that explain the residuals of a fit."""

from collections.abc import Callable, Sequence

import numpy as np
import scipy

from pdefit.analysis.goodness.evidence import Suspect
from pdefit.analysis.goodness.remainder import Remainder
from pdefit.analysis.goodness.structure import LEFT, SURE, basis
from pdefit.inverse.uncertainty.held import Held

# suspects whose excess is this part of the largest are named beside it
_NEARLY = 0.9


def suspects(
    left: Remainder, held: Sequence[Held], sigma_known: bool, clean: Callable[[Remainder], bool]
) -> tuple[Suspect, ...]:
    """Held values that explain all structure of the residuals, the surest first; empty if there are none.

    This is the score test of each value, with the directions of the fitted scalars projected out. Its level is divided
    by the number of values. If sigma is known, its variance is the variance of the residuals without the change, at
    least 1; otherwise the jackknife variance. A value is named only if residuals are `clean` without its part: a
    missing term, or correlated noise, resembles many values a little.

    **Arguments:**

    - `left`: the residuals, with their derivatives in the fitted scalars.
    - `held`: the held values with the changes of residuals that they make.
    - `sigma_known`: whether all residuals have the same known variance.
    - `clean`: whether given residuals show no structure.

    Source of the variance: J. MacKinnon, H. White, J. Econometrics 29:305 (1985), doi:10.1016/0304-4076(85)90158-7.
    """
    if not held:
        return ()
    whole = left.flat(left.residuals)
    r = left.beside(whole)
    single, tests = dict[str, tuple[Held, float]](), dict[str, list[np.ndarray]]()
    for one in held:
        change = left.flat(one.residuals)
        norm = float(np.linalg.norm(change))
        # without an effect on this recording, or out of the model's domain
        if not 0 < norm < np.inf:
            continue
        single[one.name], tests[one.name] = (one, norm), [left.beside(change) / norm]
        if one.path != one.name:
            tests.setdefault(one.path, []).append(tests[one.name][0])
    tests = {name: columns for name, columns in tests.items() if name in single or len(columns) > 1}
    found = list[tuple[float, str, np.ndarray]]()
    for name, columns in tests.items():
        own = basis(np.stack(columns, 1))
        free = np.count_nonzero(r) - left.taken.shape[1] - own.shape[1]
        if not own.shape[1] or free < 1:
            continue
        g = own.T @ r
        rest = r - own @ g
        if sigma_known:
            ratio = float(g @ g) / max(1.0, float(rest @ rest) / free)
        else:
            # a residual that determines the value alone tells nothing
            alone = rest / np.maximum(1 - np.sum(own**2, 1), LEFT)
            ratio = float(g @ np.linalg.lstsq((own * alone[:, None] ** 2).T @ own, g)[0])
        chance = len(tests) * float(scipy.special.fdtrc(own.shape[1], free, ratio / own.shape[1]))
        found.append((-float(scipy.special.ndtri(min(chance, 0.5))), name, whole - own @ g))
    found.sort(key=lambda one: -one[0])
    if not found or not found[0][0] > SURE or not clean(left.replaced(found[0][2])):
        return ()

    def suspect(name: str, excess: float) -> Suspect:
        if name not in single:
            return Suspect(name, float("nan"), float("nan"), excess)
        (one, norm), (change,) = single[name], tests[name]
        better = one.value - one.change * float(change @ r / (change @ change) / norm)
        return Suspect(name, one.value, better, excess, one.at_bound)

    return tuple(suspect(name, e) for e, name, _ in found if e >= max(SURE, _NEARLY * found[0][0]))
