"""Diagnostics of a system over time: scalars of predicted states and, where they are known, of true ones."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import with_unit
from pdefit.output.pictures._scales import margin, scale_of
from pdefit.output.pictures._spacetime import mark_forecast
from pdefit.output.pictures.style import COLORS, NAMES, figure

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
        for column in range(across):
            lowest = [axes for axes in grid[:, column] if axes.get_visible()][-1]
            lowest.set_xlabel(with_unit("time", film.time_unit))
            lowest.tick_params(labelbottom=True)
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
        axes.legend(
            loc="best", fontsize=7, ncols=1 + (len(members) > 3), frameon=True, framealpha=0.8, edgecolor="none"
        )
    mark_forecast(axes, film, named=named)
