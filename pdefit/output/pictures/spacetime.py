"""Fields on a line: time to the right, space upwards; truth, prediction and error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdefit.data.readers.fields import Film
from pdefit.output.pictures.maps import colorbar, panels, scales, value_of
from pdefit.output.pictures.quantities import Quantity, with_unit
from pdefit.output.pictures.style import BEYOND, figure

_MOST_FRAMES = 400
_MOST_ROWS = 5


def draw_spacetime(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """One row for each quantity; a line where the forecast begins. Of a simulation, which has nothing beside the prediction,
    two quantities side by side."""
    shown = shown[:_MOST_ROWS]
    if not any(q.field.reference for q in shown):
        _draw_pairs(path, film, shown)
        return
    columns = max((panels(q.field.reference) for q in shown), key=len)
    numbers = film.chosen(_MOST_FRAMES)
    # inches; a colour bar stands right of the prediction, and of the error
    side, down = (1.62, 1.95) if len(columns) > 1 else (2.6, 1.95)
    lefts = [0.75, 0.75 + side + 0.12, 0.75 + 2 * side + 1.2][: len(columns)]
    width, height = lefts[-1] + side + 0.95, 0.3 + len(shown) * (down + 0.15) + 0.4
    with figure(path, width, height, layout=None) as fig:
        for r, quantity in enumerate(shown):
            bottom = height - 0.3 - r * (down + 0.15) - down
            boxes = [(x / width, bottom / height, side / width, down / height) for x in lefts]
            row = [fig.add_axes(box) for box in boxes]
            _draw_row(fig, row, film, quantity, numbers)
            for axes, name in zip(row, columns, strict=True):
                if r == 0:
                    axes.set_title(name, fontsize=9)
                if r == len(shown) - 1:
                    axes.set_xlabel(with_unit("time", film.time_unit))
                else:
                    axes.tick_params(labelbottom=False)


def _draw_pairs(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Predictions alone, two in a row; all lengths in inches."""
    numbers, across = film.chosen(_MOST_FRAMES), min(2, len(shown))
    down = -(-len(shown) // across)
    side, high, right, below = 2.3, 1.8, 1.3, 0.2
    width, height = 0.6 + across * (side + right) - 0.25, 0.15 + down * (high + below) + 0.3
    with figure(path, width, height, layout=None) as fig:
        for k, quantity in enumerate(shown):
            r, c = divmod(k, across)
            left, bottom = 0.6 + c * (side + right), height - 0.15 - r * (high + below) - high
            axes = fig.add_axes((left / width, bottom / height, side / width, high / height))
            _draw_row(fig, [axes], film, quantity, numbers)
            is_lowest = k + across >= len(shown)
            axes.tick_params(labelbottom=is_lowest, labelleft=c == 0)
            axes.set_xlabel(with_unit("time", film.time_unit) if is_lowest else "")
            if c:
                axes.set_ylabel("")


def _draw_row(fig: Any, row: list[Any], film: Film, quantity: Quantity, numbers: list[int]) -> None:
    pairs = list(quantity.pairs(film, numbers))
    shared, errors = scales(pairs)
    names = panels(quantity.field.reference)
    (space,) = quantity.axes
    for axes, name in zip(row, names, strict=False):
        values = np.stack([value_of(name, *pair) for pair in pairs]).T
        scale = errors if name == "error" else shared
        axes.grid(False)
        mesh = axes.pcolormesh(
            _middles(film.ts[numbers]), _middles(space.values), values, cmap=scale.colormap(), norm=scale.norm(),
            rasterized=True,
        )  # fmt: skip
        mark_forecast(axes, film, named=axes is row[0])
        if axes is not row[0]:
            axes.tick_params(labelleft=False)
        if name in ("prediction", "error"):
            box = axes.get_position()
            width = fig.get_figwidth()
            beside = fig.add_axes((box.x1 + 0.08 / width, box.y0, 0.1 / width, box.height))
            label = with_unit("error", quantity.field.unit) if name == "error" else quantity.label
            colorbar(fig, mesh, beside, scale, label)
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
