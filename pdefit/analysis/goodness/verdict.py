"""Verdict on a fit, in one line."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pdefit.analysis.goodness.whiteness import Correlation

FITTED = "fitted to the noise"
MISSES = "converged but the model misses structure"
STOPPED = "not converged"

# chi2 per value of residuals of a tenth of sigma: below it there is no noise, and nothing to test
FAR_BELOW = 0.01
# chi2 per value of residuals 22 % larger than sigma; a stated sigma is rarely known better
LARGEST_CHI2 = 1.5
# correlation that a systematic residual of 22 % of the noise causes
LARGEST_CORRELATION = 0.05
# number of standard deviations beyond which a deviation is not taken for chance
SURE = 4.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Verdict on a fit: `word` is FITTED, MISSES or STOPPED, and `reason` what it is based on."""

    word: str
    reason: str

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"


def decide(
    *,
    converged: bool,
    chi2: float,
    values: int,
    controls: int,
    sigma_known: bool,
    whiteness: Mapping[str, Mapping[str, Correlation]],
    heldout: tuple[float, int] | None = None,
    windows_from_data: bool = False,
) -> Verdict:
    """Verdict on a fit, from its size of residuals, their correlation and the frames that were held out.

    Tests follow in this order; the first that fails decides:

    - The optimizer found a minimum.
    - chi2 per value is at most 1.5, or 1 plus four standard deviations where there are few values. This is tested only
      where sigma is known. Below 0.01 there is no noise to compare with, and the tests end.
    - No correlation of neighbouring residuals exceeds both 0.05 + controls / values and four of its spreads.
    - chi2 per value of the held frames exceeds that of the fitted frames by no larger factor than that of the second
      test.

    **Arguments:**

    - `converged`: whether the optimizer found a minimum.
    - `chi2`: mean squared weighted residual of the `values` that were fitted by `controls` numbers.
    - `sigma_known`: whether sigma was known independently of this fit.
    - `whiteness`: correlations of neighbouring residuals, by variable and axis.
    - `heldout`: chi2 per value of the held frames and the number of their values; None without any.
    - `windows_from_data`: whether windows start from noisy data, which correlates residuals by itself.
    """
    if not converged:
        return Verdict(
            STOPPED, "the optimizer recognised no minimum; allow more iterations, another stage, or dtype=float64"
        )
    if sigma_known and chi2 < FAR_BELOW:
        return Verdict(FITTED, f"residuals are far below sigma (chi2 per value {chi2:.1e})")
    if sigma_known and not chi2 <= _largest_ratio(values):
        return Verdict(MISSES, f"residuals are larger than sigma (chi2 per value {chi2:.3g})")
    limit = LARGEST_CORRELATION + controls / max(values, 1)
    beyond = [
        (c.value, c.spread, name, axis)
        for name, axes in whiteness.items()
        for axis, c in axes.items()
        if abs(c.value) > limit and abs(c.value) > SURE * c.spread
    ]
    if beyond:
        value, spread, name, axis = max(beyond, key=lambda b: abs(b[0]))
        noisy_starts = "; windows that start from noisy data cause that too" if windows_from_data else ""
        return Verdict(
            MISSES, f"residuals of {name} are correlated along {axis} ({value:.2f} ± {spread:.2f}{noisy_starts})"
        )
    if heldout is not None and heldout[0] > _largest_ratio(heldout[1]) * chi2:
        return Verdict(MISSES, f"held-out frames have chi2 per value {heldout[0]:.3g}, the fitted ones {chi2:.3g}")
    if not sigma_known:
        return Verdict(FITTED, "residuals are uncorrelated (sigma was not known beforehand, so their size is no test)")
    return Verdict(FITTED, f"chi2 per value {chi2:.3g}, residuals uncorrelated")


def _largest_ratio(values: int) -> float:
    """Largest acceptable chi2 per value: limited by the spread of few values, or by how well sigma is known."""
    return max(LARGEST_CHI2, 1 + SURE * float(np.sqrt(2 / max(values, 1))))
