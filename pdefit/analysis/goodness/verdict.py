"""Verdict on a fit: what it rests on, and the one place that decides."""

import dataclasses
from collections.abc import Mapping

import numpy as np

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
    """Verdict on a fit.

    **Arguments:**

    - `word`: FITTED, MISSES or STOPPED.
    - `reasons`: what it is based on: first what decides, then doubts about the intervals.
    - `next`: what to do; empty where nothing is to be done.
    """

    word: str
    reasons: tuple[str, ...]
    next: str = ""

    @property
    def reason(self) -> str:
        """The reasons and what to do, in one line."""
        return "; ".join(filter(None, (self.reasons[0], self.next, *self.reasons[1:])))

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"


@dataclasses.dataclass(frozen=True)
class Correlation:
    """Correlation of weighted residuals with their next neighbours along one axis.

    **Arguments:**

    - `value`: from -1 to 1; 0 for independent noise.
    - `spread`: the standard deviation that independent noise would give it.
    - `pairs`: number of pairs of neighbours.
    """

    value: float
    spread: float
    pairs: int


@dataclasses.dataclass(frozen=True)
class Quality:
    """Quality of a fit of one record, from its weighted residuals. Priors and regularizers do not count.

    **Arguments:**

    - `chi2`, `values`: the sum of squared residuals, and their number.
    - `whiteness`: correlations of neighbouring residuals, by variable and axis. None where residuals are far below
      sigma, as of data without noise: they are then errors of rounding.
    - `controls`: number of the numbers that were fitted.
    - `converged`: whether the optimizer found a minimum.
    - `sigma_known`: whether sigma was known independently of this fit.
    - `heldout`: chi2 per value of the held frames and the number of their values; None without any.
    - `windows_from_data`: whether windows start from noisy data, which correlates residuals by itself.
    - `single_precision`: whether the fit ran in float32, whose round-off may hide a minimum.
    """

    chi2: float
    values: int
    whiteness: Mapping[str, Mapping[str, Correlation]] | None
    controls: int
    converged: bool
    sigma_known: bool = True
    heldout: tuple[float, int] | None = None
    windows_from_data: bool = False
    single_precision: bool = False

    @property
    def chi2_per_value(self) -> float:
        """The mean squared residual in units of sigma: 1 where the model and sigma are right."""
        return self.chi2 / max(self.values, 1)

    @property
    def verdict(self) -> Verdict:
        """The verdict on this fit alone."""
        return decide(Evidence({"": self}))

    def __str__(self) -> str:
        return str(self.verdict)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The evidence that a verdict on a fit rests on.

    **Arguments:**

    - `recordings`: the quality of the fit of each recording by name; the name of a single one is empty.
    - `shift`: sentence about estimates that finer steps or cells move by more than their intervals; empty without any.
    - `doubt`: why intervals are not to be trusted even where the model fits; empty where they are, or there are none.
    """

    recordings: Mapping[str, Quality]
    shift: str = ""
    doubt: str = ""


def decide(evidence: Evidence) -> Verdict:
    """Verdict on a fit: that on its worst recording, with the doubts about its intervals."""
    each = {name: _on_recording(one) for name, one in evidence.recordings.items()}
    name, worst = max(each.items(), key=lambda one: (FITTED, MISSES, STOPPED).index(one[1].word))
    reasons = worst.reasons
    if name and worst.word == MISSES:
        reasons = (f"recording {name}: {reasons[0]}",)
    if name and worst.word == FITTED:
        chi2 = [one.chi2_per_value for one in evidence.recordings.values()]
        reasons = (f"all {len(chi2)} recordings, with chi2 per value from {min(chi2):.3g} to {max(chi2):.3g}",)
    if evidence.shift:
        reasons += (evidence.shift,)
    # any other verdict casts doubt on the intervals by itself
    if evidence.doubt and worst.word == FITTED:
        reasons += (evidence.doubt if evidence.shift else f"intervals are not to be trusted: {evidence.doubt}",)
    return dataclasses.replace(worst, reasons=reasons)


def distrust(word: str, noiseless: bool) -> str:
    """Reason to distrust all intervals of a fit with this verdict; empty without one.

    **Arguments:** `noiseless` is whether the data have no noise.
    """
    if word == STOPPED:
        return "the fit has not converged"
    if word == MISSES:
        return "the model misses structure, so its residuals are not independent noise"
    return "the data have no noise, so residuals are errors of the discretisation and of rounding" if noiseless else ""


def _on_recording(fit: Quality) -> Verdict:
    """Verdict on the fit of one recording, from the size and correlation of residuals, and from held-out frames.

    Tests follow in this order; the first that fails decides:

    - The optimizer found a minimum.
    - chi2 per value is at most 1.5, or 1 plus four standard deviations where there are few values. This is tested only
      where sigma is known. Below 0.01 there is no noise to compare with, and the tests end.
    - No correlation of neighbouring residuals exceeds both 0.05 + controls / values and four of its spreads.
    - chi2 per value of the held frames exceeds that of the fitted frames by no larger factor than that of the second
      test.
    """
    chi2, sigma_known, heldout = fit.chi2_per_value, fit.sigma_known, fit.heldout
    if not fit.converged:
        wider = ", or dtype=float64" if fit.single_precision else ""
        remedy = f"allow more iterations, another stage or optimizer{wider}"
        return Verdict(STOPPED, ("the optimizer recognised no minimum",), remedy)
    if sigma_known and chi2 < FAR_BELOW:
        return Verdict(FITTED, (f"residuals are far below sigma (chi2 per value {chi2:.1e})",))
    if sigma_known and not chi2 <= _largest_ratio(fit.values):
        return Verdict(MISSES, (f"residuals are larger than sigma (chi2 per value {chi2:.3g})",))
    limit = LARGEST_CORRELATION + fit.controls / max(fit.values, 1)
    beyond = [
        (c.value, c.spread, name, axis)
        for name, axes in (fit.whiteness or {}).items()
        for axis, c in axes.items()
        if abs(c.value) > limit and abs(c.value) > SURE * c.spread
    ]
    if beyond:
        value, spread, name, axis = max(beyond, key=lambda b: abs(b[0]))
        noisy_starts = "; windows that start from noisy data cause that too" if fit.windows_from_data else ""
        correlated = f"residuals of {name} are correlated along {axis} ({value:.2f} ± {spread:.2f}{noisy_starts})"
        return Verdict(MISSES, (correlated,))
    if heldout is not None and heldout[0] > _largest_ratio(heldout[1]) * chi2:
        return Verdict(MISSES, (f"held-out frames have chi2 per value {heldout[0]:.3g}, the fitted ones {chi2:.3g}",))
    if not sigma_known:
        unknown = "residuals are uncorrelated (sigma was not known beforehand, so their size is no test)"
        return Verdict(FITTED, (unknown,))
    return Verdict(FITTED, (f"chi2 per value {chi2:.3g}, residuals uncorrelated",))


def _largest_ratio(values: int) -> float:
    """Largest acceptable chi2 per value: limited by the spread of few values, or by how well sigma is known."""
    return max(LARGEST_CHI2, 1 + SURE * float(np.sqrt(2 / max(values, 1))))
