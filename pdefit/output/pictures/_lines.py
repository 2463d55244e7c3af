"""Fields on a line: space-time images, and curves of single frames."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._maps import colorbar, draw_image, scales
from pdefit.output.pictures._quantities import Axis, Quantity
from pdefit.output.pictures.style import (
    BAD,
    NAMES,
    label_lowest,
    looks,
    mark_forecast,
    panel_grid,
    panels_of,
    scale_of,
    scale_of_errors,
    with_unit,
)

_MOST_FRAMES = 400
_MOST_ROWS, _MOST_CURVES = 5, 3
# number of frames from which scales of curves are chosen
_LOOKED_AT = 24


def draw_spacetime(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Draw fields on a line against time and space, a row for each; a dashed line marks the start of the forecast.

    For a simulation, which has predictions only, two fields share a row.
    """
    shown, numbers = shown[:_MOST_ROWS], film.chosen(_MOST_FRAMES)
    names = max((q.panels for q in shown), key=len)
    is_alone = len(names) == 1
    down, across = panels_of(len(shown), 2) if is_alone else (len(shown), len(names))
    size = 3.55 * across if is_alone else 7.6, 0.7 + 2.1 * down
    with panel_grid(path, size, (down, across), sharex=True) as (fig, grid):
        for quantity, row in zip(shown, grid.reshape(-1, 1) if is_alone else grid, strict=False):
            _draw_row(fig, _below(names, quantity.panels, row), film, quantity, numbers)
        for axes, name in zip(grid[0], [] if is_alone else names, strict=False):
            axes.set_title(name, fontsize=9)
        label_lowest(grid, with_unit("time", film.time_unit))


def _below(names: Sequence[str], own: Sequence[str], row: Any) -> list[Any]:
    """Axes of a row below the names of its panels; `truth` and `observed` share the first column."""
    return [row[names.index(name) if name in names else 0] for name in own]


def _draw_row(fig: Figure, row: Sequence[Axes], film: Film, quantity: Quantity, numbers: list[int]) -> None:
    """Draw truth, prediction and error of a field, with colour bars for prediction and error."""
    (space,) = quantity.axes
    plane = dataclasses.replace(quantity, axes=(space, Axis("time", film.time_unit, film.ts[numbers])))
    frames = list(quantity.compared(film, numbers))
    shared, errors = scales(frames)
    for axes, name in zip(row, quantity.panels, strict=True):
        scale = errors if name == "error" else shared
        draw_image(axes, plane, np.stack([frame[name] for frame in frames], axis=1), scale)
        # time and space are not alike, whatever their units
        axes.set_aspect("auto")
        mark_forecast(axes, film, named=axes is row[0])
        axes.tick_params(labelleft=axes is row[0])
        if name in ("prediction", "error"):
            colorbar(fig, scale, quantity.label_of(name, "\n"), ax=axes, aspect=20, pad=0.02)
    row[0].set_ylabel(space.label)


class Curves:
    """Scene of up to three fields on a line, one below the other: values on the left, the error on the right."""

    def __init__(self, film: Film, shown: Sequence[Quantity]):
        self._film, self._shown = film, [q for q in shown if len(q.axes) == 1][:_MOST_CURVES]
        self._columns = 1 + any(q.field.reference for q in self._shown)
        self._panels: Any = None
        self.size = 4.4 * self._columns, 0.3 + 2.7 * len(self._shown)

    def arrange(self, fig: Figure) -> None:
        self._panels = fig.subplots(len(self._shown), self._columns, sharex="row", squeeze=False)
        for quantity, row in zip(self._shown, self._panels, strict=True):
            values = self._values(quantity, self._film.chosen(_LOOKED_AT))
            errors = scale_of_errors(np.stack([v.pop("error", np.zeros(1)) for v in values]), clip=False)
            scale = scale_of(np.stack([x for v in values for x in v.values()]))
            (space,) = quantity.axes
            row[0].set(xlabel=space.label, ylabel=quantity.label, xlim=sorted(space.edges), **scale.axis)
            marks = [Line2D([], [], label=NAMES[kind], **look) for kind, look in looks(quantity.field.kinds).items()]
            # above the axes, where no curve passes
            row[0].legend(handles=marks, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1)
            if quantity.field.reference is not None:
                row[1].set(xlabel=space.label, ylabel=quantity.label_of("error"), ylim=errors.limits)
                row[1].axhline(0.0, color="black", lw=0.6)
            elif row.size > 1:
                row[1].set_visible(False)

    def draw(self, number: int) -> list[Artist]:
        drawn = []
        for quantity, row in zip(self._shown, self._panels, strict=True):
            where, (values,) = quantity.axes[0].values, self._values(quantity, [number])
            for kind, style in looks(quantity.field.kinds).items():
                drawn += row[0].plot(where, values[NAMES[kind]], **style)
            if "error" in values:
                drawn += row[1].plot(where, values["error"], color=BAD, lw=1.2)
        return drawn

    def _values(self, quantity: Quantity, numbers: Sequence[int]) -> list[dict[str, np.ndarray]]:
        """Frames of each kind, and their errors relative to the first kind."""
        names = [NAMES[kind] for kind in quantity.field.kinds if kind in NAMES]
        return list(quantity.compared(self._film, numbers, [*names, *quantity.panels[2:]]))
