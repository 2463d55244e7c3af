"""Estimates with their intervals and, where the truth is known, errors; and how a fit came to them."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from pdefit._util.errors import PdefitError, with_space
from pdefit.data.readers.formats import opened
from pdefit.output.pictures.style import BAD, COLORS, GOOD, PALE, figure
from pdefit.output.store.parameters import ParameterRow

_SHOWN = 40
# most values of initial states that are listed
_MOST_STATES = 12
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
    listed = _listed([r.control for r in rows])[:_SHOWN]
    more, rows = len(rows) - len(listed), [r for r in rows if r.control in listed]
    half = np.asarray([_relative_half_width(r) for r in rows])
    error = np.asarray([np.nan if r.relative_error is None else abs(r.relative_error) for r in rows])
    finite = np.concatenate([half[np.isfinite(half) & (half > 0)], error[np.isfinite(error) & (error > 0)]])
    is_empty = finite.size == 0
    if is_empty:
        finite = np.asarray([1e-3, 1.0])
    left, right = 10 ** np.floor(np.log10(finite.min()) - 0.3), 10 ** np.ceil(np.log10(finite.max()) + 0.1)
    y = np.arange(len(rows))[::-1]
    with figure(path, 7.0, 1.3 + 0.26 * len(rows)) as fig:
        axes = fig.subplots()
        doubted = np.asarray([r.interval_trusted is False for r in rows], bool)
        trusted: dict[str, Any] = {"color": PALE, "label": "95 % interval, half width"}
        for group, look in ((~doubted, trusted), (doubted, _DOUBTED)):
            group = group & np.isfinite(half)
            if np.any(group):
                axes.barh(y[group], half[group] - left, left=left, height=0.62, **look)
        inside, unknown = np.asarray([_inside(r) for r in rows], bool), np.isnan(half)
        shown = np.clip(error, left, None)
        for group, color, label in (
            (inside & ~unknown, GOOD, "error, truth inside"),
            (~inside, BAD, "error, truth outside"),
            (inside & unknown, "black", "error, no interval"),
        ):
            use = group & np.isfinite(error)
            if np.any(use):
                axes.plot(shown[use], y[use], "o", ms=5, color=color, label=label)
        axes.set_yticks(y, [r.control for r in rows])
        title = f"Estimates and intervals{f'; {more} more in parameters.csv' if more else ''}"
        axes.set(xscale="log", xlim=(left, right), xlabel="relative to the estimate", title=title)
        axes.grid(axis="y", visible=False)
        beside = axes.secondary_yaxis("right")
        beside.set_yticks(y, [_in_words(r) for r in rows], fontsize=8)
        beside.tick_params(length=0)
        beside.spines["right"].set_visible(False)
        if is_empty:
            axes.set(xlabel="")
            axes.set_xticks([])
            axes.set_xticks([], minor=True)
            axes.set_title(f"{title}: neither intervals nor true values are known")
        elif axes.get_legend_handles_labels()[0]:
            fig.legend(loc="outside lower center", ncols=3)


def draw_convergence(path: Path, history: Path, rows: list[ParameterRow]) -> None:
    """Draw the loss against the iteration, and beside it the relative error of every control.

    Without a truth the error is the distance from the last value.

    **Arguments:**

    - `path`: of the figure.
    - `history`: path of history.h5.
    - `rows`: the estimates, with the truth where it is known.
    """
    with opened(history) as file:
        columns = ("n_done", "loss", "stage", "accepted", "control", "control_name")
        done, *rows_of, named = (file[column].checked().stored for column in columns)
        n = int(done[()])
        loss, stage, accepted, control = (column[:n] for column in rows_of)
        accepted = accepted.astype(bool)
        names = [x.decode() for x in named[:]]
    if n == 0:
        raise PdefitError(f"'{history.name}' holds no evaluation yet")
    iteration = np.arange(1, n + 1)
    with figure(path) as fig:
        left, right = fig.subplots(1, 2)
        good = accepted & np.isfinite(loss) & (loss > 0)
        for s in np.unique(stage):
            inside = good & (stage == s)
            label = f"stage {s}" if np.any(inside) else ""
            left.plot(iteration[inside], loss[inside], ".-", ms=4, color=COLORS[(s - 1) % 9], label=label)
        if np.unique(stage[good]).size > 1:
            left.legend()
        left.set(yscale="log", xlabel="iteration", ylabel="loss J", title="Loss")
        truth = {r.control: r.truth for r in rows}
        shown = _listed(names)
        known = bool(shown) and all(truth.get(name) for name in shown)
        for k, name in enumerate(shown):
            values = control[:, names.index(name)]
            reference = truth[name] if known else values[-1]
            error = np.abs(values / reference - 1) if reference else np.abs(values)
            style = {"color": COLORS[k % 9], "label": name, "ls": "-" if k < 9 else "--"}
            right.plot(iteration[accepted], np.where(error > 0, error, np.nan)[accepted], **style)
        for axes in (left, right):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if shown:
            what = "|estimate / truth - 1|" if known else "|estimate / final - 1|"
            right.set(yscale="log", xlabel="iteration", ylabel=what, title="Controls")
            if len(shown) <= 18:
                fig.legend(*right.get_legend_handles_labels(), loc="outside right upper", fontsize=7)
        else:
            right.set_axis_off()


def _listed(names: list[str]) -> list[str]:
    """Names of the controls that are shown. Values of an initial state are shown as a field, not one by one."""
    others = [name for name in names if not name.startswith("y0.")]
    return others if others and len(names) - len(others) > _MOST_STATES else names


def _in_words(row: ParameterRow) -> str:
    """The estimate of a control with its interval, in words where there is none."""
    width = "" if row.half_width is None else f" ± {row.half_width:.2g}"
    text = f"{row.estimate:.5g}{width}{with_space('' if row.unit == '1' else row.unit)}"
    return text if width else f"{text}, no interval"


def _relative_half_width(row: ParameterRow) -> float:
    return float("nan") if row.half_width is None or row.estimate == 0 else row.half_width / abs(row.estimate)


def _inside(row: ParameterRow) -> bool:
    if row.truth is None or row.ci95_low is None or row.ci95_high is None:
        return True
    return row.ci95_low <= row.truth <= row.ci95_high
