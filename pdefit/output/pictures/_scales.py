"""Colour scales: one range for all frames, logarithmic where that shows more."""

import dataclasses
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import LogNorm, Normalize

from pdefit.output.pictures.style import DIVERGING, MISSING, SEQUENTIAL

# span in decades above which a scale is logarithmic
_DECADES = 4.0
# a logarithmic scale ends this many decades below the largest value
_DEEPEST = 12.0
# an error scale ends at this percentile of sizes, or at a fifth of the largest: a few values should not pale the rest
_PERCENTILE, _FIFTH = 99.5, 0.2
# the smaller of both ends over the larger, above which values are signed
_SIGNED = 0.2
# fraction of values within a factor three of the largest, above which a field is a plateau, drawn on a linear scale
_PLATEAU = 0.2


@dataclasses.dataclass(frozen=True)
class Scale:
    """A range of numbers and the colour map that shows it; `is_clipped` where some values lie beyond it."""

    low: float
    high: float
    is_log: bool = False
    is_error: bool = False
    is_clipped: bool = False

    @property
    def map(self) -> str:
        return DIVERGING if self.is_error else SEQUENTIAL

    def norm(self) -> Any:
        """Norm of matplotlib for the range."""
        return (LogNorm if self.is_log else Normalize)(self.low, self.high)

    def colormap(self) -> Any:
        """Colour map of matplotlib; what is missing is grey."""
        return matplotlib.colormaps[self.map].with_extremes(bad=MISSING)


def scale_of(values: np.ndarray) -> Scale:
    """Scale of finite numbers, logarithmic if all are positive and span more than four decades."""
    found = values[np.isfinite(values)]
    if found.size == 0:
        return Scale(0.0, 1.0)
    low, high = float(found.min()), float(found.max())
    if low > 0 and np.log10(high / low) > _DECADES and np.mean(found > high / 3) < _PLATEAU:
        return Scale(max(low, high * 10**-_DEEPEST), high, is_log=True)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        margin = 0.05 * abs(high) or 1.0
        return Scale(low - margin, high + margin)
    return Scale(low, high)


def is_signed(values: np.ndarray) -> bool:
    """Test for values that are as well below zero as above."""
    found = values[np.isfinite(values)]
    low, high = (-float(found.min()), float(found.max())) if found.size else (0.0, 0.0)
    return min(low, high) > _SIGNED * max(low, high)


def scale_of_errors(values: np.ndarray, clip: bool = True) -> Scale:
    """Scale of errors, as wide below zero as above.

    **Arguments:**

    - `values`: the errors.
    - `clip`: whether a few large errors may lie beyond the scale (default), which its colour bar marks.
    """
    found = np.abs(values[np.isfinite(values)])
    largest = float(found.max()) if found.size else 0.0
    robust = max(float(np.percentile(found, _PERCENTILE)), _FIFTH * largest) if found.size else 0.0
    is_clipped = clip and robust < 0.8 * largest
    end = (robust if is_clipped else largest) or 1.0
    return Scale(-end, end, is_error=True, is_clipped=is_clipped)


def readable_times(ts: np.ndarray, unit: str) -> tuple[np.ndarray, str]:
    """Times in a unit in which they have few digits: from 1e5 s on in hours, from 1e7 s on in days."""
    largest = float(np.max(np.abs(ts), initial=0.0)) if unit == "s" else 0.0
    seconds, name = (86400.0, "d") if largest >= 1e7 else (3600.0, "h") if largest >= 1e5 else (1.0, unit)
    return ts / seconds, name


def margin(scale: Scale) -> tuple[float, float]:
    """Limits of an axis that shows a scale with some room."""
    if scale.is_log:
        return scale.low / 1.5, scale.high * 1.5
    room = 0.05 * (scale.high - scale.low)
    return scale.low - room, scale.high + room
