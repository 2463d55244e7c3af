"""The page compare.html: runs of the same data side by side, with their residuals."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdefit._util.atomic import write_text
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._maps import colorbar, draw_image, mean_misfit
from pdefit.output.pictures._quantities import Axis, Quantity, quantities
from pdefit.output.pictures._vectors import planes
from pdefit.output.pictures.report import template
from pdefit.output.pictures.style import GOOD, panel_grid, readable_times, scale_of_errors, with_unit
from pdefit.output.pictures.sweep import embedded_figure, short_label

# columns of the figure at most, inches across a panel, and its width over its height
_MOST_COLUMNS, _ACROSS, _SHAPE = 6, 2.9, 1.4
_LABEL = "(prediction - data) / rms"


class Misfit(NamedTuple):
    """The misfit of a run in one quantity.

    **Arguments:**

    - `quantity`: a quantity with the axes of the values: a plane, a line and time, or time alone.
    - `values`: prediction minus data; on a plane the mean over time, times the root of the number of frames.
    - `size`: the root mean square of prediction minus data, in the unit of the quantity.
    """

    quantity: Quantity
    values: np.ndarray
    size: float


def misfits(film: Film, numbers: Sequence[int]) -> dict[str, Misfit]:
    """Misfits of a film in each observed quantity at some frames, by name with unit."""
    ts, unit = readable_times(film.ts[numbers], film.time_unit)
    out: dict[str, Misfit] = {}
    every = [*planes(film), *(q for q in quantities(film) if len(q.axes) < 2)]
    for quantity in (q for q in every if "observed" in q.field.kinds):
        if len(quantity.axes) == 2:
            out[quantity.label] = Misfit(quantity, *mean_misfit(film, quantity, numbers))
            continue
        frames = quantity.compared(film, numbers, ["observed", "prediction"])
        values = np.stack([x["prediction"] - x["observed"] for x in frames], -1).reshape(-1, len(numbers))
        # the numbers of a field, such as those of all bodies, share a panel
        name = quantity.label if quantity.axes else with_unit(quantity.field.name, quantity.field.unit)
        values = np.vstack([out[name].values, values]) if name in out else values
        there = values[np.isfinite(values)]
        over_time = dataclasses.replace(quantity, axes=(*quantity.axes, Axis("time", unit, ts)))
        out[name] = Misfit(over_time, values, float(np.linalg.norm(there)) / max(there.size, 1) ** 0.5)
    return out


def write_compare_page(path: Path, runs: Mapping[str, Mapping[str, Misfit]], **content: Any) -> None:
    """Write the page, which needs no other file except the linked reports.

    **Arguments:**

    - `path`: the path of the page.
    - `runs`: the misfits of each run, by name.
    - `content`: further entries of the template.
    """
    names = [name for name in next(iter(runs.values())) if all(name in of for of in runs.values())][:_MOST_COLUMNS]
    drawn = [embedded_figure(lambda p: _draw(p, runs, names), "residuals of all runs", "")] if names else []
    write_text(path, template("compare.html.jinja").render(figures=drawn, names=[*runs], **content))


def _draw(path: Path, runs: Mapping[str, Mapping[str, Misfit]], names: Sequence[str]) -> None:
    """Draw residuals: a row for each run, and a column with a common scale for each quantity."""
    size = len(names) * (_ACROSS + 0.5) + 0.4, len(runs) * (_ACROSS / _SHAPE + 0.3) + 1.0
    with panel_grid(path, size, (len(runs), len(names))) as (fig, grid):
        for column, name in zip(grid.T, names, strict=True):
            noise = min(of[name].size for of in runs.values()) or 1.0
            scale = scale_of_errors(np.concatenate([of[name].values.ravel() / noise for of in runs.values()]))
            for axes, (run, of) in zip(column, runs.items(), strict=True):
                quantity, values, _ = of[name]
                axes.set_title(f"{short_label(run)}: {name}", fontsize=9)
                axes.set(xlabel=quantity.axes[-1].label, ylabel=quantity.axes[0].label)
                if len(quantity.axes) == 1:
                    axes.plot(quantity.axes[0].values, values.T / noise, color=GOOD, lw=0.8)
                    axes.set(ylabel=_LABEL, **scale.axis)
                    continue
                draw_image(axes, quantity, values / noise, scale)
                # time and space are not alike, whatever their units
                axes.set_aspect("auto" if quantity.axes[1].name == "time" else axes.get_aspect())
                if axes is column[-1]:
                    colorbar(fig, scale, _LABEL, ax=list(column), location="bottom", aspect=30)
