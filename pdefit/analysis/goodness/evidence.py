"""Evidence on a fit: findings about its residuals, and limits that chance does not exceed."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy

from pdefit.analysis.goodness.noise_shape import NoiseShape
from pdefit.analysis.goodness.structure import SURE, Structure

# chi2 per value of residuals of a tenth of sigma: below it there is no noise, and nothing to test
_FAR_BELOW = 0.01
# chi2 per value of residuals 22 % larger than sigma; a stated sigma is rarely known better
LARGEST_CHI2 = 1.5
# correlation that a systematic residual of 22 % of the noise causes
LARGEST_CORRELATION = 0.05
# standard errors that a number may be away from the minimum
_NEAR = 0.1
# root mean square gap between windows, in standard deviations of a gap, beyond which trajectories do not join
_OPEN = 3.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Verdict on a fit.

    **Arguments:**

    - `word`: one of WORDS.
    - `reasons`: the evidence in order of weight: first the deciding findings, then doubts about the intervals.
    - `next`: the next step for the user; empty if there is none.
    """

    word: str
    reasons: tuple[str, ...]
    next: str = ""

    @property
    def reason(self) -> str:
        """The reasons and the next step on one line."""
        return "; ".join(self.reasons) + (f". Next: {self.next}" if self.next else "")

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"


class Correlation(NamedTuple):
    """Lag-one autocorrelation of weighted residuals along one axis.

    **Arguments:**

    - `value`: from -1 to 1; 0 for independent noise.
    - `spread`: its standard deviation for independent noise.
    - `pairs`: number of pairs of neighbours.
    """

    value: float
    spread: float
    pairs: int


class Suspect(NamedTuple):
    """A held value that explains all structure of the residuals.

    **Arguments:**

    - `name`: the name of a number, of a patch of a field, or of an array.
    - `value`, `better`: the held value, and the value that the residuals ask for; NaN for an array.
    - `excess`: the score, in standard deviations, beyond its chance maximum over all held values.
    - `at_bound`: whether it is a scalar that ended at its bound.
    """

    name: str
    value: float
    better: float
    excess: float
    at_bound: bool = False

    def __str__(self) -> str:
        if np.isnan(self.value):
            return f"the values of {self.name}"
        held = "at its bound" if self.at_bound else "held at"
        return f"{self.name} ({held} {self.value:.4g}, where the residuals ask for {self.better:.4g})"


@dataclasses.dataclass(frozen=True)
class Quality:
    """Quality of a fit of one record, from its weighted residuals without priors and regularizers.

    **Arguments:**

    - `chi2`, `values`: the sum of squared residuals, and their number.
    - `whiteness`: correlations of neighbouring residuals, by variable and axis. None if residuals are far below sigma,
      as for noiseless data: they are then round-off.
    - `controls`: the number of fitted scalars.
    - `converged`: whether the optimizer found a minimum.
    - `sigma_known`: whether sigma was known independently of this fit.
    - `sigma_exact`: whether sigma is known to better than a percent.
    - `sigma_stated`: whether sigma was stated by the user, not estimated from the data.
    - `noiseless`: whether the data have no noise, so that sigma is only a weight.
    - `of_range`: root mean square of the residuals relative to the range of their variable, the largest of all
      variables.
    - `heldout`: chi2 per value of the held-out frames, with the variance of their predictions, and the number of their
      values; None without held-out frames.
    - `windows_from_data`: whether windows start from noisy data, which by itself correlates residuals.
    - `single_precision`: whether the fit ran in float32, whose round-off may hide a minimum.
    - `remaining`: the largest Newton step of a scalar, in standard errors; NaN if unknown.
    - `gap`: the root mean square gap between windows, in standard deviations of a gap; 0 without free node states.
    - `falling`: relative decrease of J over the last quarter of the evaluations; NaN if they are few.
    - `explained`: fraction of the data's variance that the model explains, adjusted for the number of fitted scalars.
    - `counts`: for variables that are counts, the value of one count; their sigma follows Poisson's law.
    - `courses`: the names of unknown functions of time.
    - `structures`: tests for smooth structure.
    - `suspects`: held values that explain the structure.
    - `noise`: departures of the noise from its statement.
    - `refined`: the quality of the residuals without discretisation errors, if these were measured.
    """

    chi2: float
    values: int
    whiteness: Mapping[str, Mapping[str, Correlation]] | None
    controls: int
    converged: bool
    sigma_known: bool = True
    sigma_exact: bool = False
    sigma_stated: bool = True
    noiseless: bool = False
    of_range: float = float("inf")
    heldout: tuple[float, int] | None = None
    windows_from_data: bool = False
    single_precision: bool = False
    remaining: float = float("nan")
    gap: float = 0.0
    falling: float = float("nan")
    explained: float = 1.0
    counts: Mapping[str, float] = dataclasses.field(default_factory=dict)
    courses: tuple[str, ...] = ()
    structures: tuple[Structure, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    noise: tuple[NoiseShape, ...] = ()
    refined: "Quality | None" = None

    @property
    def at_minimum(self) -> bool:
        """True at a minimum: the optimizer converged, or the Newton step is small relative to the standard errors.

        Stiff gaps that are open determine the scalars by themselves, wherever the minimum is.
        """
        return self.converged or (self.remaining <= _NEAR and self.joined)

    @property
    def joined(self) -> bool:
        """True if each window begins where the previous one ends, to within the standard deviation of a gap."""
        return self.gap <= _OPEN

    @property
    def chi2_per_value(self) -> float:
        """Mean squared residual in units of sigma: 1 if the model and sigma are right."""
        return self.chi2 / max(self.values, 1)

    @property
    def free_values(self) -> int:
        """Values minus controls, but at least half of the values, since data determine only a part of a field."""
        return max(self.values - self.controls, (self.values + 1) // 2, 1)

    @property
    def largest_chi2(self) -> float:
        """Largest acceptable chi2 per value: limited by the spread of few values, or by how well sigma is known."""
        return largest_ratio(self.values, self.sigma_exact)

    @property
    def correlated(self) -> list[tuple[str, str, Correlation]]:
        """Variable, axis and value of the significant correlations, the largest first."""
        limit = LARGEST_CORRELATION + self.controls / max(self.values, 1)
        beyond = [
            (name, axis, c)
            for name, axes in (self.whiteness or {}).items()
            for axis, c in axes.items()
            if abs(c.value) > limit and abs(c.value) > SURE * c.spread
        ]
        return sorted(beyond, key=lambda b: -abs(b[2].value))

    @property
    def structured(self) -> list[Structure]:
        """Significant tests of smooth structure, the surest first."""
        return sorted((s for s in self.structures if s.excess > SURE), key=lambda s: -s.excess)

    @property
    def large(self) -> bool:
        """True if residuals are larger than a known sigma."""
        return self.sigma_known and not self.chi2_per_value <= self.largest_chi2

    @property
    def unheld(self) -> bool:
        """True if held-out frames fit worse than the fitted frames (F test of two variances)."""
        if self.heldout is None:
            return False
        score, count = self.heldout
        limit = scipy.special.fdtri(count, self.free_values, 1.0 - scipy.special.ndtr(-SURE))
        return bool(score > max(LARGEST_CHI2, float(limit)) * self.chi2 / self.free_values)

    @property
    def eventful(self) -> bool:
        """True if one part of the record fits worse than the rest."""
        return any(n.kind == "event" for n in self.noise)

    @property
    def misses(self) -> bool:
        """True if residuals are not independent noise of at most the stated size."""
        if far_below(self.chi2, self.values, self.sigma_known):
            return False
        shown = self.correlated or self.structured or self.unheld or self.eventful or self.suspects
        return bool(self.large or shown)


def far_below(chi2: float, values: int, sigma_known: bool) -> bool:
    """True if residuals are so far below a known sigma that there is no noise to test."""
    return sigma_known and chi2 / max(values, 1) < _FAR_BELOW


def largest_ratio(values: int, exact: bool = False) -> float:
    """Largest acceptable ratio of two mean squares: limited by the spread of few values, or by how well sigma is known."""
    return max(1.0 if exact else LARGEST_CHI2, 1 + SURE * float(np.sqrt(2 / max(values, 1))))
