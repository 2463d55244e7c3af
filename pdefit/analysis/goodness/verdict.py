"""What a fit amounts to, in one line."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pdefit.analysis.goodness.whiteness import Correlation

FITTED = "fitted to the noise"
MISSES = "converged but the model misses structure"
STOPPED = "not converged"

# residuals a tenth of sigma: there is no noise to be fitted to
FAR_BELOW = 0.01
# residuals 22 % larger than sigma; a stated sigma is rarely known better
LARGEST_CHI2 = 1.5
# what a systematic residual of 22 % of the noise gives
LARGEST_CORRELATION = 0.05
# spreads beyond which nothing is chance
SURE = 4.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`word` is one of FITTED, MISSES and STOPPED; `reason` what it rests on."""

    word: str
    reason: str

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"


def judge(
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
    """The verdict on a fit of `controls` numbers to `values` residuals, `chi2` being their mean weighted square.

    Not converged, if the optimizer says so. Structure is missed if chi2 exceeds 1.5 (and 1 by four standard deviations),
    asked only where `sigma_known` independently of the fit; if residuals correlate with their neighbours by more than
    0.05 + controls/values and four spreads; or if chi2 of `heldout` values (with their number) is that much larger than that
    of the fitted. Where chi2 is below 0.01, residuals are far below sigma and nothing else is asked.
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
        noisy_starts = "; windows that start from noisy data do that too" if windows_from_data else ""
        return Verdict(
            MISSES, f"residuals of {name} are correlated along {axis} ({value:.2f} ± {spread:.2f}{noisy_starts})"
        )
    if heldout is not None and heldout[0] > _largest_ratio(heldout[1]) * chi2:
        return Verdict(MISSES, f"held-out frames have chi2 per value {heldout[0]:.3g}, the fitted ones {chi2:.3g}")
    if not sigma_known:
        return Verdict(
            FITTED, "residuals are uncorrelated (sigma was not known beforehand, so their size says nothing)"
        )
    return Verdict(FITTED, f"chi2 per value {chi2:.3g}, residuals uncorrelated")


def _largest_ratio(values: int) -> float:
    """What chi2 per value may be: the spread of so few values, or what sigma is known to."""
    return max(LARGEST_CHI2, 1 + SURE * float(np.sqrt(2 / max(values, 1))))
