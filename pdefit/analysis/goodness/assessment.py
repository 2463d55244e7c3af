"""The assessment of a fit: evidence, verdict, and consequences for the intervals."""

import dataclasses
from collections.abc import Mapping

from pdefit.analysis.goodness.discretisation import Discretisation
from pdefit.analysis.goodness.evidence import Quality, Verdict
from pdefit.data.fit_section import FitSection
from pdefit.inverse.controls.theta import AtBound
from pdefit.inverse.uncertainty.intervals import Intervals


@dataclasses.dataclass(frozen=True)
class Assessment:
    """Evidence on a fit, and the verdict that follows from it.

    **Arguments:**

    - `recordings`: the quality of the fit of each recording by name; a single recording has an empty name.
    - `shift`: sentence about estimates that finer steps or cells move by more than their intervals; empty without such
      estimates.
    - `doubt`: the reason not to trust the intervals although the model fits; empty without a reason or without
      intervals.
    - `limit`: sentence about how far finer steps and cells move the estimates; empty if unknown.
    - `rounding`: sentence about the precision of the data, if residuals are no larger than it; empty otherwise.
    - `numbers`: sentences about scalars that the data do not determine, or that fall to zero.
    - `bound`: scalars that ended at a bound.
    - `explored`: sentence about further starts of the fit; empty without starts.
    - `intervals`, `unknown`: the intervals of the scalars, or the reason for their absence.
    - `discretisation`: shifts of the estimate with finer steps and cells.
    - `widened`: interval ends that allow for correlated residuals, by name; empty if residuals are uncorrelated.
    - `effective_values`: the number of independent values that would determine a mean as well; None if uncorrelated.
    - `sections`: the section `fit` of `summary.json`, by recording.
    - `verdict`: the verdict on the fit.
    """

    recordings: Mapping[str, Quality]
    shift: str = ""
    doubt: str = ""
    limit: str = ""
    rounding: str = ""
    numbers: tuple[str, ...] = ()
    bound: tuple[AtBound, ...] = ()
    explored: str = ""
    intervals: Intervals | None = None
    unknown: str = ""
    discretisation: Discretisation = Discretisation([], {}, {})
    widened: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    effective_values: float | None = None
    sections: Mapping[str, FitSection] = dataclasses.field(default_factory=dict)
    verdict: Verdict = Verdict("", ())

    @property
    def chi2_per_value(self) -> float:
        """Mean squared residual of all recordings in units of sigma: 1 if the model and sigma are right."""
        each = self.recordings.values()
        return sum(one.chi2 for one in each) / max(sum(one.values for one in each), 1)

    def __str__(self) -> str:
        return str(self.verdict)
