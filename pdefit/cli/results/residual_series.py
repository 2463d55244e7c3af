"""Size of the residuals over time."""

from typing import Any

import numpy as np

from pdefit.inverse.objective.functional import Functional
from pdefit.systems.fields import field_coords


def residual_series(functional: Functional, residuals: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Root mean square of the weighted residuals at every observation time (T,), for each variable.

    A variable whose first axis has labels (bodies) gives one series for each label. NaN where nothing was fitted.
    """
    layout = functional.layout
    coords = field_coords(functional.problem.system, functional.problem.y0)
    series: dict[str, np.ndarray] = {}
    value: Any
    for name, weighted in residuals.items():
        value = np.full((functional.observations.ts.size, *weighted.shape[2:]), np.nan)
        fitted = np.asarray(functional.fitted(name))[layout.counts]
        value[layout.index[layout.counts]] = np.where(fitted, np.square(weighted)[layout.counts], np.nan)
        axis = coords[name] if name in coords else None
        labels = axis.coords[axis.dims[0]] if axis and axis.dims else np.zeros(0)
        if labels.dtype.kind in "US" and value.ndim > 1 and labels.size == value.shape[1]:
            for k, label in enumerate(labels):
                series[str(label)] = _rms(value[:, k])
        else:
            series[name] = _rms(value)
    return series


def _rms(squares: np.ndarray) -> np.ndarray:
    flat = squares.reshape(squares.shape[0], -1)
    seen = np.isfinite(flat)
    return np.sqrt(np.where(seen, flat, 0).sum(axis=1) / np.where(seen.any(axis=1), seen.sum(axis=1), np.nan))
