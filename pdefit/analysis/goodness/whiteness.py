"""Whiteness of residuals: whether what a fit leaves over looks like independent noise."""

import dataclasses

import numpy as np

from pdefit.inverse.objective.functional import Functional
from pdefit.systems.capabilities import AbstractGridded


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
