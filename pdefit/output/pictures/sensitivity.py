"""Figure of the effect of each parameter on what is observed."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import with_space
from pdefit.output.pictures.style import BAD, COLORS, GOOD, figure

# ratio of effects above which the axis is logarithmic, and the most decades that it shows
_SPAN, _DECADES = 30.0, 8


def draw_sensitivity(path: Path, table: Path) -> None:
    """Draw a bar for each parameter, as long as the larger of its two effects, and a mark at each of them.

    Controls have a colour of their own.

    **Arguments:**

    - `path`: of the figure.
    - `table`: path of sensitivity.json.
    """
    found: dict[str, Any] = json.loads(table.read_text(encoding="utf-8"))
    rows = [r for r in found["parameters"] if not r["left_out"]]
    # the effect of a run that blew up is infinite, which is null in the file
    both = np.asarray([[np.inf if r[k] is None else r[k] for k in ("effect_larger", "effect_smaller")] for r in rows])
    finite = both[np.isfinite(both) & (both > 0)]
    largest = float(finite.max(initial=0.0)) or 1.0
    size = both.max(axis=1)
    shown = size[np.isfinite(size) & (size > 0)]
    logarithmic = shown.size > 1 and shown.max() > _SPAN * shown.min()
    low = 0.0
    if logarithmic:
        low = 10 ** np.floor(np.log10(max(float(finite.min()), largest * 10.0**-_DECADES)) - 0.1)
    edge = largest * (2.0 if logarithmic else 1.1)
    y = np.arange(len(rows))[::-1]
    with figure(path, 7.0, 1.3 + 0.22 * len(rows)) as fig:
        axes: Any = fig.subplots()
        for is_control, color, label in ((True, BAD, "control"), (False, GOOD, "other parameter")):
            use = np.asarray([r["control"] == is_control for r in rows])
            if use.any():
                length = np.minimum(np.maximum(size[use], low), edge) - low
                axes.barh(y[use], length, left=low, height=0.66, color=color, alpha=0.45, label=label)
                _marks(axes, both[use], y[use], low, edge, color)
        for k in np.flatnonzero(~np.isfinite(size)):
            axes.text(edge, y[k], "blows up  ", va="center", ha="right", fontsize=7)
        for k in np.flatnonzero(size <= low):
            text = "  no effect" if size[k] == 0 else f"  {size[k]:.0e}"
            axes.text(low, y[k], text, va="center", fontsize=7, color=COLORS[6])
        for face, label in (("black", f"times {found['factor']:g}"), ("white", f"divided by {found['factor']:g}")):
            axes.plot([], [], "o", ms=4, mfc=face, mec="black", label=label)
        axes.set_yticks(y, [r["parameter"] for r in rows])
        beside = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7, "color": COLORS[6]}
        for k, row in enumerate(rows):
            axes.text(1.015, y[k], _value(row), **beside)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set(xlabel="effect on what is observed (rms, in units of its range)", title="Which parameters matter")
        if logarithmic:
            axes.set_xscale("log")
        axes.set_xlim(low, edge)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0, labelsize=8)
        fig.legend(loc="outside lower center", ncols=4)


def _marks(axes: Any, both: np.ndarray, y: np.ndarray, low: float, edge: float, color: str) -> None:
    """Marks of the two changes: filled for times the factor, hollow for divided by it."""
    for effect, face in ((both[:, 0], color), (both[:, 1], "white")):
        seen = np.isfinite(effect) & (effect > low) & (effect <= edge)
        axes.plot(effect[seen], y[seen], "o", ms=4, mfc=face, mec=color, mew=1.0)


def _value(row: dict[str, Any]) -> str:
    """Value and unit, with exponents raised."""
    unit = re.sub(r"\^(-?\d+)", r"$^{\1}$", row["unit"])
    return f"{row['value']:.4g}" + with_space(unit)
