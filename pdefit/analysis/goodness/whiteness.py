"""Whether what a fit leaves over looks like noise."""

import dataclasses

import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.objective.compiled import WEIGHTED
from pdefit.inverse.objective.functional import Functional
from pdefit.systems.capabilities import AbstractGridded


@dataclasses.dataclass(frozen=True)
class Correlation:
    """Between weighted residuals and their next neighbours along one axis: `value` in [-1, 1], with the `spread` that
    independent noise would give it, from `pairs` of neighbours."""

    value: float
    spread: float
    pairs: int


def whiteness(functional: Functional, theta: Float[Array, " p"]) -> dict[str, dict[str, Correlation]]:
    """For each observed variable, its correlation along `time` and along every axis of a grid.

        value = sum a b / sqrt(sum a^2 sum b^2),    spread = sqrt(sum a^2 b^2 / (sum a^2 sum b^2))

    over neighbours a, b that were both observed and fitted, within one window. No mean is subtracted (an offset is
    structure too), and the spread supposes independence only, not equal size: a model that is wrong at a front shows
    there. Neighbours in time are those of the record, however far apart. Axes with labels (bodies) have no neighbours.
    A fit of p controls to n values pulls a correlation down by up to p / n; windows that start from noisy data push it up.

    Source: H. White, Econometrica 48:817 (1980), doi:10.2307/1912934 (the spread).
    """
    residuals = WEIGHTED(functional, theta)
    found: dict[str, dict[str, Correlation]] = {}
    for name, values in residuals.items():
        seen = np.asarray(functional.fitted(name))
        axes = {"time": 1, **{dim: k + 2 for k, dim in enumerate(_grid_axes(functional, name, seen.ndim - 2))}}
        along = {dim: _correlation(np.asarray(values, np.float64), seen, axis) for dim, axis in axes.items()}
        found[name] = {dim: c for dim, c in along.items() if c is not None}
    return found


def _grid_axes(functional: Functional, name: str, ndim: int) -> tuple[str, ...]:
    """The dimensions of a field on a grid, where neighbours are neighbours in space."""
    system = functional.problem.system
    where = system.coords().get(name) if isinstance(system, AbstractGridded) else None
    if where is None or len(where.dims) != ndim or any(where.coords[d].dtype.kind not in "fiu" for d in where.dims):
        return ()
    return where.dims


def _correlation(values: np.ndarray, seen: np.ndarray, axis: int) -> Correlation | None:
    """Between neighbours along an axis; None where there are none, or nothing is left over."""
    values, seen = np.moveaxis(values, axis, 0), np.moveaxis(seen, axis, 0)
    both = seen[:-1] & seen[1:]
    a, b = values[:-1][both], values[1:][both]
    size = np.sqrt(np.sum(a**2) * np.sum(b**2))
    if a.size < 2 or not size > 0:
        return None
    return Correlation(float(np.sum(a * b) / size), float(np.sqrt(np.sum((a * b) ** 2)) / size), int(a.size))
