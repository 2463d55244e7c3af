"""Quality of a fit of one record: chi2, and whether what the fit leaves over looks like independent noise."""

import jax
import jax.numpy as jnp
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.verdict import FAR_BELOW, Correlation, Quality
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import sum_of_squares
from pdefit.inverse.objective.functional import Functional
from pdefit.systems.capabilities import AbstractGridded


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


def whiteness(functional: Functional, residuals: dict[str, np.ndarray]) -> dict[str, dict[str, Correlation]]:
    """Correlations of neighbouring residuals of each observed variable, along `time` and along every axis of a grid.

        value = sum a b / sqrt(sum a^2 sum b^2),    spread = sqrt(sum a^2 b^2 / (sum a^2 sum b^2))

    The sums run over neighbours a, b in one window that were both observed and fitted. No mean is subtracted, because
    an offset is structure too. The spread supposes that residuals are independent, not that they are of equal size.
    Neighbours in time are successive frames, however far apart. Axes with labels (bodies) have no neighbours.

    Fitting p controls to n values lowers a correlation by up to p / n. Windows that start from noisy data raise it.

    **Arguments:**

    - `functional`: the objective of the fit.
    - `residuals`: its weighted residuals at the estimate, by variable (S, I, ...).

    Source of the spread: H. White, Econometrica 48:817 (1980), doi:10.2307/1912934.
    """
    found: dict[str, dict[str, Correlation]] = {}
    for name, values in residuals.items():
        seen = np.asarray(functional.fitted(name))
        axes = {"time": 1, **{dim: k + 2 for k, dim in enumerate(_grid_axes(functional, name, seen.ndim - 2))}}
        along = {dim: _correlation(values, seen, axis) for dim, axis in axes.items()}
        found[name] = {dim: c for dim, c in along.items() if c is not None}
    return found


def _grid_axes(functional: Functional, name: str, ndim: int) -> tuple[str, ...]:
    """Names of the axes along which a field has neighbours in space; empty for lists and fields without a grid."""
    system = functional.problem.system
    where = system.coords().get(name) if isinstance(system, AbstractGridded) else None
    if where is None or len(where.dims) != ndim or any(where.coords[d].dtype.kind not in "fiu" for d in where.dims):
        return ()
    return where.dims


def _correlation(values: np.ndarray, seen: np.ndarray, axis: int) -> Correlation | None:
    """Correlation between neighbours along an axis; None where there are none, or all residuals are zero."""
    values, seen = np.moveaxis(values, axis, 0), np.moveaxis(seen, axis, 0)
    both = seen[:-1] & seen[1:]
    a, b = values[:-1][both], values[1:][both]
    size = np.sqrt(np.sum(a**2) * np.sum(b**2))
    if a.size < 2 or not size > 0:
        return None
    return Correlation(float(np.sum(a * b) / size), float(np.sqrt(np.sum((a * b) ** 2)) / size), int(a.size))
