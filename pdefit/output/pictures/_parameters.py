"""Estimates with their intervals and, where the truth is known, errors."""

from pathlib import Path
from typing import Any

import numpy as np

from pdefit.output.pictures.style import BAD, GOOD, PALE, figure
from pdefit.output.store.parameters import ParameterRow

_SHOWN = 40
_DOUBTED: dict[str, Any] = {
    "facecolor": "none",
    "edgecolor": PALE,
    "linestyle": "--",
    "label": "95 % interval, not to be trusted",
}


def draw_parameters(path: Path, rows: list[ParameterRow]) -> None:
    """Draw a bar for each control, as long as half its 95 % interval, and a dot at its error.

    Both are relative and logarithmic, because errors of one fit span decades. The colour of a dot shows whether the
    interval contains the truth. Bars of intervals that are not to be trusted are only outlined.
    """
    rows = rows[:_SHOWN]
    half = np.asarray([_relative_half_width(r) for r in rows])
    error = np.asarray([np.nan if r.relative_error is None else abs(r.relative_error) for r in rows])
    finite = np.concatenate([half[np.isfinite(half) & (half > 0)], error[np.isfinite(error) & (error > 0)]])
    if finite.size == 0:
        finite = np.asarray([1e-3, 1.0])
    left, right = 10 ** np.floor(np.log10(finite.min()) - 0.3), 10 ** np.ceil(np.log10(finite.max()) + 0.1)
    y = np.arange(len(rows))[::-1]
    with figure(path, 7.0, 1.3 + 0.26 * len(rows)) as fig:
        axes = fig.subplots()
        doubted = np.asarray([r.interval_trusted is False for r in rows], bool)
        trusted: dict[str, Any] = {"color": PALE, "label": "95 % interval, half width"}
        for group, look in ((~doubted, trusted), (doubted, _DOUBTED)):
            if np.any(group):
                axes.barh(y[group], half[group] - left, left=left, height=0.62, **look)
        inside = np.asarray([_inside(r) for r in rows], bool)
        shown = np.clip(error, left, None)
        for group, color, label in ((inside, GOOD, "error, truth inside"), (~inside, BAD, "error, truth outside")):
            use = group & np.isfinite(error)
            if np.any(use):
                axes.plot(shown[use], y[use], "o", ms=5, color=color, label=label)
        axes.set_yticks(y, [r.control for r in rows])
        axes.set(xscale="log", xlim=(left, right), xlabel="relative to the estimate", title="Estimates and intervals")
        axes.grid(axis="y", visible=False)
        fig.legend(loc="outside lower center", ncols=3)


def _relative_half_width(row: ParameterRow) -> float:
    return float("nan") if row.half_width is None or row.estimate == 0 else row.half_width / abs(row.estimate)


def _inside(row: ParameterRow) -> bool:
    if row.truth is None or row.ci95_low is None or row.ci95_high is None:
        return True
    return row.ci95_low <= row.truth <= row.ci95_high
