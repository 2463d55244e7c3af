"""Scalars over time: diagnostics of predicted and true states, residuals, and errors of a forecast."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import with_unit
from pdefit.output.pictures._scales import margin, readable_times, scale_of
from pdefit.output.pictures._spacetime import label_lowest, mark_forecast
from pdefit.output.pictures.style import COLORS, NAMES, figure
from pdefit.output.store.tables import read_series

# the prediction is wide and pale, so that the truth upon it is seen where both agree
_LOOKS: dict[str, dict[str, Any]] = {
    "predicted": {"lw": 2.4, "alpha": 0.5},
    "true": {"lw": 1.0, "ls": "--"},
}


def draw_diagnostics(path: Path, film: Film) -> None:
    """Draw the diagnostics of a film, a panel for each quantity, which is the first word of their names."""
    panels: dict[str, list[str]] = {}
    for name in film.diagnostics:
        panels.setdefault(name.partition("_")[0], []).append(name)
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    kinds = [kind for kind in _LOOKS if all(kind in field.kinds for field in film.diagnostics.values())]
    with figure(path, 7.0, 0.8 + (1.9 if across > 1 else 2.6) * down) as fig:
        grid: Any = fig.subplots(down, across, sharex=True, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, (quantity, members) in zip(grid.flat, panels.items(), strict=False):
            _draw_panel(axes, film, quantity, members, kinds, named=axes is grid[0, 0])
        label_lowest(grid, with_unit("time", film.time_unit))
        if len(kinds) > 1:
            lines = [Line2D([], [], color="black", label=NAMES[kind], **_LOOKS[kind]) for kind in kinds]
            fig.legend(handles=lines, loc="outside lower center", ncols=len(lines))


def _draw_panel(axes: Any, film: Film, quantity: str, members: list[str], kinds: list[str], named: bool) -> None:
    """Curves of all members of a quantity, each in its colour."""
    numbers, values = range(film.ts.size), list[np.ndarray]()
    for k, name in enumerate(members):
        for kind in kinds:
            series = np.asarray(list(film.frames(name, kind, numbers)), float)
            label = name.partition("_")[2].replace("_", " ") if kind == "predicted" else ""
            look = _LOOKS[kind] if len(kinds) > 1 else {}
            axes.plot(film.ts, series, color=COLORS[k % len(COLORS)], label=label, **look)
            values.append(series)
    scale = scale_of(np.stack(values))
    label = quantity if len(members) > 1 else members[0].replace("_", " ")
    axes.set(ylabel=label, yscale="log" if scale.is_log else "linear", ylim=margin(scale))
    if len(members) > 1:
        # beside the panel, where no curve passes
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, borderaxespad=0.1)
    mark_forecast(axes, film, named=named)


def draw_residuals(path: Path, table: Path, time_unit: str) -> None:
    """Draw the root mean square residual in standard deviations, a panel for each series; 1 is the noise."""
    ts, columns = read_series(table)
    ts, time_unit = readable_times(ts, time_unit)
    across = min(3, len(columns))
    down = -(-len(columns) // across)
    with figure(path, 7.0, 1.0 + 1.5 * down if down > 1 else 3.2) as fig:
        panels = fig.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for panel in panels.flat:
            panel.set_visible(False)
        for panel, (name, values) in zip(panels.flat, columns.items(), strict=False):
            panel.set_visible(True)
            panel.plot(ts, values, lw=0.9, color=COLORS[0])
            panel.axhline(1.0, color="black", lw=0.8, ls=":")
            panel.set_title(name, fontsize=9)
        # after all panels: the shared axis does not grow any more once a limit is set
        panels.flat[0].set_ylim(bottom=0)
        label_lowest(panels, with_unit("time", time_unit))
        fig.supylabel("rms residual / sigma", fontsize=9)


def draw_forecast(path: Path, table: Path, time_unit: str, unit: str, baseline: str) -> None:
    """Draw the error of the forecast (full) and of the baseline (dashed)."""
    ts, columns = read_series(table)
    ts, time_unit = readable_times(ts, time_unit)
    names = [n for n in columns if not n.endswith(" baseline")]
    with figure(path, 7.0, 4.0) as fig:
        axes = fig.subplots()
        for k, name in enumerate(names):
            color = COLORS[k % 9]
            axes.plot(ts, _positive(columns[name]), color=color, label=name)
            axes.plot(ts, _positive(columns[f"{name} baseline"]), color=color, ls="--", lw=0.8)
        axes.plot([], [], color="black", label="forecast")
        axes.plot([], [], color="black", ls="--", lw=0.8, label=baseline)
        label = with_unit("error", unit) if unit else "relative error"
        axes.set(yscale="log", xlabel=with_unit("time", time_unit), ylabel=label, title="Forecast error")
        fig.legend(loc="outside right upper")


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.nan)
