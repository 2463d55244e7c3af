"""Fields on a line: time to the right, space upwards; truth, prediction and error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdefit.files.film import Film
from pdefit.pictures.maps import panels, scales, value_of
from pdefit.pictures.quantities import Quantity
from pdefit.pictures.style import BEYOND, figure

_MOST_FRAMES = 400
_MOST_ROWS = 5


def draw_spacetime(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """One row for each quantity; a line where the forecast begins."""
    shown = shown[:_MOST_ROWS]
    columns = max((panels(q.field.reference) for q in shown), key=len)
    numbers = film.chosen(_MOST_FRAMES)
    ts = film.ts[numbers]
    width = 7.4 if len(columns) > 1 else 3.8
    with figure(path, width, 0.7 + 2.0 * len(shown)) as fig:
        grid: Any = fig.subplots(len(shown), len(columns), sharex=True, squeeze=False)
        for row, quantity in zip(grid, shown, strict=True):
            _draw_row(fig, row, film, quantity, ts, numbers)
        for axes, name in zip(grid[0], columns, strict=True):
            axes.set_title(name, fontsize=9)
        for axes in grid[-1]:
            axes.set_xlabel(f"time ({film.time_unit})")


def _draw_row(fig: Any, row: Any, film: Film, quantity: Quantity, ts: np.ndarray, numbers: list[int]) -> None:
    pairs = list(quantity.pairs(film, numbers))
    shared, errors = scales(pairs)
    names = panels(quantity.field.reference)
    (space,) = quantity.axes
    for axes, name in zip(row, names, strict=False):
        values = np.stack([value_of(name, *pair) for pair in pairs]).T
        scale = errors if name == "error" else shared
        axes.grid(False)
        mesh = axes.pcolormesh(
            _middles(ts), _middles(space.values), values, cmap=scale.colormap(), norm=scale.norm(), rasterized=True
        )
        mark_forecast(axes, film, named=axes is row[0])
        if axes is not row[0]:
            axes.tick_params(labelleft=False)
        label = f"error ({quantity.field.unit})" if name == "error" else quantity.label
        if name == "error" or name == names[-2:][0]:
            beside = [axes] if name == "error" else list(row[: max(len(names) - 1, 1)])
            fig.colorbar(mesh, ax=beside, label=label, pad=0.02, aspect=18)
    row[0].set_ylabel(space.label)
    for axes in row[len(names) :]:
        axes.set_visible(False)


def mark_forecast(axes: Any, film: Film, named: bool = False) -> None:
    """A vertical line between the last fitted frame and the first beyond."""
    if 0 < film.forecast < film.ts.size:
        edge = float(film.ts[film.forecast - 1 : film.forecast + 1].mean())
        axes.axvline(edge, color=BEYOND, lw=1.0, ls="--")
        if named:
            place = {"transform": axes.get_xaxis_transform(), "va": "bottom", "fontsize": 7, "color": BEYOND}
            axes.text(edge, 1.01, "forecast", ha="left", **place)


def _middles(values: np.ndarray) -> np.ndarray:
    """Edges (n + 1,) of cells around n places."""
    if values.size == 1:
        return np.asarray([values[0] - 0.5, values[0] + 0.5])
    inner = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - inner[0]], inner, [2 * values[-1] - inner[-1]]])
