"""Fields on a line in space and time: truth, prediction and error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._maps import colorbar, panels, scales
from pdefit.output.pictures._quantities import Quantity, with_unit
from pdefit.output.pictures.style import BEYOND, NAMES, figure

_MOST_FRAMES = 400
_MOST_ROWS = 5


def draw_spacetime(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Draw fields on a line against time and space, a row for each; a dashed line marks the start of the forecast.

    A simulation has predictions only. Two of them stand side by side.
    """
    shown, numbers = shown[:_MOST_ROWS], film.chosen(_MOST_FRAMES)
    names = max((panels(q.field.reference) for q in shown), key=len)
    is_alone = len(names) == 1
    across = min(2, len(shown)) if is_alone else len(names)
    down = -(-len(shown) // across) if is_alone else len(shown)
    with figure(path, 3.55 * across if is_alone else 7.6, 0.7 + 2.1 * down) as fig:
        grid: Any = fig.subplots(down, across, sharex=True, squeeze=False)
        for axes in grid.flat:
            axes.set_visible(False)
        rows = grid.reshape(-1, 1) if is_alone else grid
        for quantity, row in zip(shown, rows, strict=False):
            own = panels(quantity.field.reference)
            # a field that was not observed has a prediction alone, which stands below the others
            _draw_row(fig, row if is_alone else _below(names, own, row), film, quantity, numbers)
        for axes, name in zip(grid[0], [] if is_alone else names, strict=False):
            axes.set_title(name, fontsize=9)
        label_lowest(grid, with_unit("time", film.time_unit))


def _below(names: Sequence[str], own: Sequence[str], row: Any) -> list[Any]:
    """The axes of a row that stand below the names of its panels; `truth` and `observed` share the first column."""
    return [row[names.index(name) if name in names else 0] for name in own]


def _draw_row(fig: Any, row: Any, film: Film, quantity: Quantity, numbers: list[int]) -> None:
    """Truth, prediction and error of a field; a colour bar stands right of the prediction, and of the error."""
    pairs, reference = list(quantity.pairs(film, numbers)), quantity.field.reference
    shared, errors = scales(pairs)
    (space,) = quantity.axes
    values = {"prediction": np.stack([predicted for _, predicted in pairs])}
    if reference is not None:
        true = np.stack([x for x, _ in pairs if x is not None])
        values = {NAMES[reference]: true, **values, "error": values["prediction"] - true}
    for axes, (name, frames) in zip(row, values.items(), strict=False):
        axes.set_visible(True)
        axes.grid(False)
        scale = errors if name == "error" else shared
        axes.pcolormesh(
            _middles(film.ts[numbers]), _middles(space.values), frames.T, cmap=scale.colormap(), norm=scale.norm(),
            rasterized=True,
        )  # fmt: skip
        mark_forecast(axes, film, named=axes is row[0])
        axes.tick_params(labelleft=axes is row[0])
        if name in ("prediction", "error"):
            label = quantity.error_label("\n") if name == "error" else quantity.label
            colorbar(fig, scale, label, ax=axes, aspect=20, pad=0.02)
    row[0].set_ylabel(space.label)


def label_lowest(grid: Any, label: str) -> None:
    """Name the horizontal axis below the lowest panel of each column."""
    for column in grid.T:
        panels = [axes for axes in column if axes.get_visible()]
        for axes in panels:
            axes.set_xlabel(label if axes is panels[-1] else "")
            axes.tick_params(labelbottom=axes is panels[-1])


def mark_forecast(axes: Any, film: Film, named: bool = False) -> None:
    """Draw a vertical line between the last fitted frame and the first beyond."""
    if 0 < film.forecast < film.ts.size:
        edge = float(film.ts[film.forecast - 1 : film.forecast + 1].mean())
        axes.axvline(edge, color=BEYOND, lw=1.0, ls="--")
        if named:
            place = {"transform": axes.get_xaxis_transform(), "va": "bottom", "fontsize": 7, "color": BEYOND}
            axes.text(edge, 1.01, "forecast", ha="left", **place)


def _middles(values: np.ndarray) -> np.ndarray:
    """Edges (n + 1,) of the cells around n places."""
    if values.size == 1:
        return np.asarray([values[0] - 0.5, values[0] + 0.5])
    inner = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - inner[0]], inner, [2 * values[-1] - inner[-1]]])
