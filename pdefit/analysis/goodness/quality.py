"""Quality of a fit of one record: chi2, whiteness of its residuals, and the verdict that follows from them."""

import dataclasses

from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.verdict import FAR_BELOW, Verdict, decide
from pdefit.analysis.goodness.whiteness import Correlation, whiteness
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import sum_of_squares
from pdefit.inverse.objective.functional import Functional


@dataclasses.dataclass(frozen=True)
class Quality:
    """Quality of a fit, from its weighted residuals. Priors and regularizers do not count.

    **Arguments:**

    - `verdict`: the verdict, a `word` and a `reason`.
    - `chi2`, `values`: the sum of squared residuals, and their number.
    - `whiteness`: correlations of neighbouring residuals, by variable and axis. None where residuals are far below
      sigma, as of data without noise: they are then errors of rounding.
    """

    verdict: Verdict
    chi2: float
    values: int
    whiteness: dict[str, dict[str, Correlation]] | None

    @property
    def chi2_per_value(self) -> float:
        """The mean squared residual in units of sigma: 1 where the model and sigma are right."""
        return self.chi2 / max(self.values, 1)

    def __str__(self) -> str:
        return str(self.verdict)


def judge(found: Fit, *, sigma_known: bool = True, heldout: tuple[float, int] | None = None) -> Quality:
    """The verdict on a fit of one record, with the numbers that it rests on.

    The verdict is "fitted to the noise", "converged but the model misses structure" or "not converged".

    **Arguments:**

    - `found`: the fit.
    - `sigma_known`: whether the sigma of the observations was known before the fit; default True. Otherwise the size of
      residuals is no test, and only their correlations are.
    - `heldout`: chi2 per value of frames that were kept out of the fit, and the number of their values.
    """
    functional = found.functional
    if not isinstance(functional, Functional):
        raise PdefitError("judge expects the fit of one record; of many recordings, fit and judge one by itself")
    chi2, count = sum_of_squares(found.residuals), functional.observed_values
    per_value = chi2 / max(count, 1)
    # residuals of round-off and of the last digits of an optimizer are never white, so they are not tested
    white = None if sigma_known and per_value < FAR_BELOW else whiteness(functional, found.residuals)
    verdict = decide(
        converged=found.converged and found.status == "done",
        chi2=per_value,
        values=count,
        controls=functional.controls.size,
        sigma_known=sigma_known,
        whiteness=white or {},
        heldout=heldout,
        windows_from_data=functional.problem.nodes is not None,
    )
    return Quality(verdict, chi2, count, white)
