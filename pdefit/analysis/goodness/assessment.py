"""The assessment of a fit: its evidence, its verdict, and what they mean for the intervals."""

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

    - `recordings`: the quality of the fit of each recording by name; the name of a single one is empty.
    - `shift`: sentence about estimates that finer steps or cells move by more than their intervals; empty if there are
      none.
    - `doubt`: reason not to trust the intervals even if the model fits; empty if there is no reason or no interval.
    - `limit`: sentence about how far finer steps and cells move the estimates; empty if that is unknown.
    - `rounding`: sentence about the precision of the data, if residuals are no larger; empty otherwise.
    - `numbers`: sentences about numbers that the data do not determine, or that fall to zero.
    - `bound`: numbers that ended at a bound.
    - `explored`: sentence about further starts of the fit; empty if there are none.
    - `intervals`, `unknown`: the intervals of the numbers, or the reason why there are none.
    - `discretisation`: shifts of the estimate with finer steps and cells.
    - `widened`: by number the ends of the interval that allows for correlated residuals; empty if they are uncorrelated.
    - `effective_values`: the number of independent values that would determine a mean as well; None as of `widened`.
    - `sections`: by recording the section `fit` of `summary.json`.
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
        """The mean squared residual of all recordings in units of sigma: 1 if the model and sigma are right."""
        each = self.recordings.values()
        return sum(one.chi2 for one in each) / max(sum(one.values for one in each), 1)

    def __str__(self) -> str:
        return str(self.verdict)
