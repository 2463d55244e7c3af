"""Figures of estimates: scalars with intervals, unknown fields with standard deviations, and convergence."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from pdefit._util.errors import PdefitError, with_space
from pdefit.data.readers.fields import open_film
from pdefit.output.pictures._maps import aspect, colorbar, draw_image
from pdefit.output.pictures._quantities import Quantity, quantities
from pdefit.output.pictures.style import BAD, COLORS, GOOD, PALE, PREDICTED, TRUE, Scale, figure, scale_of, with_unit
from pdefit.output.store.history import COLUMNS, read_history
from pdefit.output.store.tables import ParameterRow

_SHOWN = 40
# most unknown fields that are drawn
_MOST = 4
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
    interval contains the truth. Bars of intervals that are not trusted are only outlined.
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

    - `path`: the path of the figure.
    - `history`: the path of history.h5.
    - `rows`: the estimates, with the truth if it is known.
    """
    columns = read_history(history)
    loss, stage, accepted = columns["loss"], columns["stage"], columns["accepted"].astype(bool)
    n = loss.size
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
        shown = _listed([name for name in columns if name not in COLUMNS])
        known = bool(shown) and all(truth.get(name) for name in shown)
        for k, name in enumerate(shown):
            values = columns[name]
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


def draw_posterior(path: Path, file: Path, summary: dict[str, Any]) -> None:
    """Draw estimate, standard deviation and its ratio to the prior for up to four fields, and the eigenvalues.

    If the truth is known, it comes first, and the last panel is the error in standard deviations.

    **Arguments:**

    - `path`, `file`: the paths of the picture, and of posterior.h5.
    - `summary`: the section `posterior` of summary.json.
    """
    with open_film(file) as film:
        shown = [q for q in quantities(film) if q.axes][:_MOST]
        parts = [{kind: next(q.frames(film, kind, [0])) for kind in q.field.kinds} for q in shown]
    # inches
    heights = [min(max(2.0 / aspect(q), 1.2), 3.2) if len(q.axes) == 2 else 1.7 for q in shown]
    rows = [_panels(quantity, part) for quantity, part in zip(shown, parts, strict=True)]
    across = max(map(len, rows), default=1)
    with figure(path, 2.5 * across, sum(heights) + 0.5 * len(shown) + 2.0) as fig:
        spec = fig.add_gridspec(len(shown) + 1, across, height_ratios=[*heights, 1.6])
        for row, (quantity, part) in enumerate(zip(shown, parts, strict=True)):
            for k, (title, values, scale, label) in enumerate(rows[row]):
                axes = fig.add_subplot(spec[row, k])
                if len(quantity.axes) == 2:
                    axes.locator_params(nbins=3)
                    draw_image(axes, quantity, values, scale)
                    axes.set(xlabel=quantity.axes[1].label, ylabel="" if k else quantity.axes[0].label)
                    colorbar(fig, scale, label, ax=axes, orientation="horizontal", pad=0.02)
                else:
                    x = quantity.axes[0].values
                    axes.plot(x, values, color=PREDICTED)
                    axes.set(xlabel=quantity.axes[0].label, ylabel=label)
                    if k == 0:
                        band = 1.96 * part["std"]
                        axes.fill_between(x, values - band, values + band, color=PREDICTED, alpha=0.25, lw=0)
                        axes.plot(x, part.get("true", np.full_like(x, np.nan)), color=TRUE, lw=0.8, ls="--")
                axes.set_title(title, fontsize=9)
        axes = fig.add_subplot(spec[-1, :])
        values = np.asarray(summary.get("eigenvalues") or [np.nan], float)
        axes.semilogy(np.arange(values.size) + 1, values, color=PREDICTED, marker=".", ms=3, lw=0.8)
        axes.axhline(1.0, color=TRUE, lw=0.8, ls=":")
        told = f"what the data add to the prior: {summary.get('degrees_of_freedom') or np.nan:.4g} degrees of freedom"
        axes.set(xlabel="number", ylabel="eigenvalue", title=told)


def _panels(quantity: Quantity, part: dict[str, np.ndarray]) -> list[tuple[str, np.ndarray, Scale, str]]:
    """Titles, values, scales and labels of an unknown field's panels. On a line, the truth is drawn over the estimate."""
    known = "true" in part
    ratio = (part["predicted"] - part["true"]) / part["std"] if known else part["std"] / part["prior"]
    largest, names = float(np.nanmax(np.abs(ratio))), {"true": "truth", "predicted": "estimate"}
    values = {kind: part[kind] for kind in names if kind in part and (kind == "predicted" or len(quantity.axes) == 2)}
    shared = scale_of(np.stack([*values.values()]))
    panels = [(names[kind], x, shared, quantity.label) for kind, x in values.items()]
    panels.append(("standard deviation", part["std"], scale_of(part["std"]), with_unit("std", quantity.field.unit)))
    if known:
        return [*panels, ("error / std", ratio, Scale(-largest, largest, is_error=True), "")]
    return [*panels, ("std / std of the prior", ratio, Scale(0.0, largest), "")]


def _listed(names: list[str]) -> list[str]:
    """Names of the displayed controls. Values of an initial state are shown as a field, not one by one."""
    others = [name for name in names if not name.startswith("y0.")]
    return others if others and len(names) - len(others) > _MOST_STATES else names


def _in_words(row: ParameterRow) -> str:
    """Estimate of a control with its interval, or words if there is none."""
    width = "" if row.half_width is None else f" ± {row.half_width:.2g}"
    text = f"{row.estimate:.5g}{width}{with_space('' if row.unit == '1' else row.unit)}"
    return text if width else f"{text}, no interval"


def _relative_half_width(row: ParameterRow) -> float:
    return float("nan") if row.half_width is None or row.estimate == 0 else row.half_width / abs(row.estimate)


def _inside(row: ParameterRow) -> bool:
    if row.truth is None or row.ci95_low is None or row.ci95_high is None:
        return True
    return row.ci95_low <= row.truth <= row.ci95_high
