"""Residuals over time, as in `residuals.csv`."""

import numpy as np

from pdefit.analysis.goodness.remainder import by_frame
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.axes import observed_axes

# values of a variable at a time that have a column of residuals each, at most
_MOST_COLUMNS = 16


def residual_series(functional: Functional, residuals: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weighted residuals, (prediction - data) / sigma, in columns over the observation times (T,); NaN if not fitted.

    A variable, or each label of its first axis (body), has one column for each value, named with its index. If there
    are many values at a time, it has one column with their root mean square.
    """
    coords = observed_axes(functional.problem, functional.observations)
    series: dict[str, np.ndarray] = {}
    for name, weighted in residuals.items():
        value = by_frame(functional, name, weighted)
        labels = coords[name].labels
        if labels and value.ndim > 1 and len(labels) == value.shape[1]:
            for k, label in enumerate(labels):
                series |= _columns(f"{name} {label}", value[:, k])
        else:
            series |= _columns(name, value)
    return series


def _columns(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of values (T, ...) by name."""
    if values[0].size > _MOST_COLUMNS:
        squares = np.ma.masked_invalid(values.reshape(len(values), -1)) ** 2
        return {f"{name} rms": np.ma.sqrt(squares.mean(axis=1)).filled(np.nan)}
    places = {f"[{','.join(map(str, i))}]" if i else "": i for i in np.ndindex(values.shape[1:])}
    return {f"{name}{place}": values[(slice(None), *i)] for place, i in places.items()}
