"""Quality of a fit of one record: chi2, and whiteness of its residuals."""

import jax
import jax.numpy as jnp

from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.verdict import FAR_BELOW, Quality
from pdefit.analysis.goodness.whiteness import whiteness
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import sum_of_squares
from pdefit.inverse.objective.functional import Functional


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
    # residuals of round-off and of the last digits of an optimizer are never white, so they are not tested
    white = None if sigma_known and chi2 / max(count, 1) < FAR_BELOW else whiteness(functional, found.residuals)
    return Quality(
        chi2=chi2,
        values=count,
        whiteness=white,
        controls=functional.controls.size,
        converged=found.converged and found.status == "done",
        sigma_known=sigma_known,
        heldout=heldout,
        windows_from_data=functional.problem.nodes is not None,
        single_precision=jax.tree.leaves(functional.problem.y0)[0].dtype == jnp.float32,
    )
