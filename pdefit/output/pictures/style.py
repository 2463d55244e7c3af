"""Style of all figures: colours, lines, sizes, scales of colours and axes, and grids of panels."""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from pdefit._util.atomic import beside
from pdefit.data.readers.fields import Film

# Okabe and Ito's palette, distinguishable with colour-blind eyes (https://jfly.uni-koeln.de/color)
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#332288", "#8C6D1F")
GOOD, BAD, PALE = COLORS[0], COLORS[1], "#C9D6E2"
# colours of the truth, the observations, the prediction, and the start of the forecast
TRUE, OBSERVED, PREDICTED, BEYOND = "#000000", COLORS[6], COLORS[0], COLORS[1]
NAMES = {"true": "truth", "observed": "observed", "predicted": "prediction"}
_LOOKS: dict[str, dict[str, Any]] = {
    "observed": {"color": OBSERVED, "ls": "", "marker": ".", "ms": 5, "mew": 0},
    "true": {"color": TRUE, "lw": 0.9},
    "predicted": {"color": PREDICTED, "lw": 1.4},
}
# colour maps: perceptually uniform for values, with a white zero for errors, grey for missing values
SEQUENTIAL, DIVERGING, MISSING = "viridis", "RdBu_r", "#D9D9D9"
DPI = 160
FORMATS = ("png", "svg", "pdf")

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


_RC: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "xtick.direction": "out",
    "savefig.facecolor": "white",
    # text in SVG and PDF stays text, and the same run gives the same bytes
    "svg.fonttype": "none",
    "svg.hashsalt": "pdefit",
    "pdf.fonttype": 42,
}


def with_unit(name: str, unit: str) -> str:
    """Axis label with unit; dimensionless quantities have no unit."""
    return name if unit in ("", "1") else f"{name} ({unit})"


def kind_of_axis(values: Sequence[float]) -> str:
    """Axis scale: `log` for positive values over more than a decade (with readable ticks), else `linear`."""
    return "log" if values and min(values) > 0 and max(values) > 10 * min(values) else "linear"


def panels_of(count: int, most: int) -> tuple[int, int]:
    """Numbers of rows and columns of panels.

    **Arguments:** `count`, `most`: the number of panels, and the largest number of columns.
    """
    across = max(min(count, most), 1)
    return -(-count // across), across


def looks(kinds: Collection[str], **predicted: Any) -> dict[str, dict[str, Any]]:
    """Line styles of these kinds, in drawing order.

    A prediction is dashed where the truth is drawn too. Keywords change the style of the prediction.
    """
    found = {kind: look for kind, look in _LOOKS.items() if kind in kinds}
    found["predicted"] = {**found["predicted"], "ls": "--" if "true" in kinds else "-", **predicted}
    return found


def name_bars(axes: Axes, names: Sequence[str]) -> np.ndarray:
    """Label horizontal bars from above, without ticks and lines; returns their positions (n,)."""
    y = np.arange(len(names))[::-1]
    axes.set_yticks(y, names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0, labelsize=8)
    return y


@contextmanager
def styled() -> Iterator[None]:
    """Context manager with the style of figures. It opens no window, and restores the global state at its end."""
    with matplotlib.rc_context(_RC):
        yield


@contextmanager
def figure(path: Path, width: float = 7.0, height: float = 3.6, layout: Any = "constrained") -> Iterator[Figure]:
    """Context manager of a figure, saved at the end of the block in the format of the suffix of `path`.

    **Arguments:**

    - `width`, `height`: the size in inches.
    - `layout`: matplotlib's layout engine; None for fixed positions.
    """
    with styled():
        fig = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(fig)
        yield fig
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(path) as neighbour:
            fig.savefig(neighbour, dpi=DPI)


@contextmanager
def panel_grid(
    path: Path, size: tuple[float, float], shape: tuple[int, int], layout: Any = "constrained", **shared: Any
) -> Iterator[tuple[Figure, Any]]:
    """Context manager of a figure with a grid of panels; empty panels are removed at the end of the block.

    **Arguments:**

    - `size`: the width and height in inches.
    - `shape`: the numbers of rows and columns.
    - `shared`: options of matplotlib's `subplots`.
    """
    with figure(path, *size, layout) as fig:
        grid: Any = fig.subplots(*shape, squeeze=False, **shared)
        yield fig, grid
        for axes in grid.flat:
            axes.set_visible(axes.has_data())


def label_lowest(grid: np.ndarray, label: str) -> None:
    """Label the horizontal axis below the lowest panel of each column."""
    for column in grid.T:
        shown = [axes for axes in column if axes.has_data()]
        for axes in shown:
            axes.set_xlabel(label if axes is shown[-1] else "")
            axes.tick_params(labelbottom=axes is shown[-1])


def mark_forecast(axes: Axes, film: Film, named: bool = False) -> None:
    """Draw a vertical line between the last fitted frame and the first forecast frame."""
    if 0 < film.forecast < film.ts.size:
        edge = float(film.ts[film.forecast - 1 : film.forecast + 1].mean())
        axes.axvline(edge, color=BEYOND, lw=1.0, ls="--")
        if named:
            place = {"transform": axes.get_xaxis_transform(), "va": "bottom", "fontsize": 7, "color": BEYOND}
            axes.text(edge, 1.01, "forecast", ha="left", **place)


@dataclasses.dataclass(frozen=True)
class Scale:
    """A range of numbers with its colour map; `is_clipped` if some values lie beyond it."""

    low: float
    high: float
    is_log: bool = False
    is_error: bool = False
    is_clipped: bool = False

    @property
    def colours(self) -> dict[str, Any]:
        """Colour map and norm of matplotlib; missing values are grey."""
        colormap = matplotlib.colormaps[DIVERGING if self.is_error else SEQUENTIAL]
        norm = (LogNorm if self.is_log else Normalize)(self.low, self.high)
        return {"cmap": colormap.with_extremes(bad=MISSING), "norm": norm}

    @property
    def limits(self) -> tuple[float, float]:
        """Axis limits with some margin around the range."""
        if self.is_log:
            return self.low / 1.5, self.high * 1.5
        room = 0.05 * (self.high - self.low)
        return self.low - room, self.high + room

    @property
    def axis(self) -> dict[str, Any]:
        """Properties of a vertical axis with this range."""
        return {"yscale": "log" if self.is_log else "linear", "ylim": self.limits}


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
    """True if values lie substantially on both sides of zero."""
    found = values[np.isfinite(values)]
    low, high = (-float(found.min()), float(found.max())) if found.size else (0.0, 0.0)
    return min(low, high) > _SIGNED * max(low, high)


def scale_of_errors(values: np.ndarray, clip: bool = True) -> Scale:
    """Scale of errors, symmetric about zero.

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
    """Times in a unit with few digits: hours from 1e5 s on, days from 1e7 s on."""
    largest = float(np.max(np.abs(ts), initial=0.0)) if unit == "s" else 0.0
    seconds, name = (86400.0, "d") if largest >= 1e7 else (3600.0, "h") if largest >= 1e5 else (1.0, unit)
    return ts / seconds, name
