"""Figures of studies: the comparison of sensitivity algorithms, and the effects of parameters on observations."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pdefit._util.errors import with_space
from pdefit.output.pictures.study import Picture, Record
from pdefit.output.pictures.style import BAD, COLORS, GOOD, name_bars

# where an error of zero is drawn on a logarithmic axis
_NONE = 1e-17
# relative error above which a gradient fails its certificate
_RIGHT = 1e-6
# ratio of effects above which the axis is logarithmic, and the most decades that it shows
_SPAN, _DECADES = 30.0, 8


def _measured(found: Record) -> list[Record]:
    return [r for r in found["rows"] if r["seconds"] is not None][::-1]


def _adjoint_panels(fig: Figure, found: Record) -> list[Axes]:
    high = 0.9 + 0.26 * len(_measured(found))
    parts: Any = fig.subfigures(2, 1, height_ratios=[high, 2.0])
    above, below = parts
    return [*above.subplots(1, 3, sharey=True), below.subplots()]


def draw_adjoints(panels: Sequence[Axes], found: Record) -> None:
    """Draw error, time and memory of every algorithm, and the error of finite differences against their step.

    **Arguments:**

    - `panels`: up to four axes.
    - `found`: the content of compare.json.
    """
    rows = _measured(found)
    parts = (
        lambda axes: _errors(axes, rows, found["reference"]),
        lambda axes: _values(axes, rows, [1e3 * r["seconds"] for r in rows], "time of a gradient (ms)"),
        lambda axes: _values(axes, rows, [r["peak_bytes"] / 1e6 for r in rows], "memory (MB)"),
        lambda axes: _v_curve(axes, found),
    )
    for axes, part in zip(panels, parts, strict=False):
        part(axes)


ADJOINTS = Picture(
    "compare.json", lambda found: (7.0, 2.9 + 0.26 * len(_measured(found))), _adjoint_panels, draw_adjoints
)


def _errors(axes: Axes, rows: list[Record], reference: str) -> None:
    # an error that is not a number is drawn as infinite
    errors = [np.inf if r["error"] is None else max(r["error"], _NONE) for r in rows]
    edge = 1e2 * max([e for e in errors if np.isfinite(e)] + [_RIGHT])
    for y, (row, error) in enumerate(zip(rows, errors, strict=True)):
        if row["algorithm"] == reference:
            axes.text(_NONE * 2, y, "reference", va="center", fontsize=7, color=COLORS[6])
        else:
            _dot(axes, _NONE, min(error, edge), y, row, "o" if np.isfinite(error) else ">")
    axes.axvline(_RIGHT, color=COLORS[6], lw=0.9, ls="--")
    above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    axes.text(_RIGHT, 1.01, "certificate", fontsize=7, color=COLORS[6], **above)
    axes.set(xscale="log", xlim=(_NONE, 10 * edge), xlabel="relative error of the gradient")
    axes.set_yticks(range(len(rows)), [r["algorithm"] for r in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(False, axis="y")


def _values(axes: Axes, rows: list[Record], values: list[float], label: str) -> None:
    low, high = (10.0**edge for edge in (np.floor(np.log10(min(values)) - 0.1), np.ceil(np.log10(max(values)) + 0.1)))
    for y, (row, value) in enumerate(zip(rows, values, strict=True)):
        _dot(axes, low, value, y, row, "o")
    axes.set(xscale="log", xlim=(low, high), xlabel=label)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def _dot(axes: Axes, low: float, value: float, y: int, row: Record, marker: str) -> None:
    """Draw a value at the end of a line, coloured by whether the gradient is right."""
    color = GOOD if row["error"] is not None and row["error"] <= _RIGHT else BAD
    axes.plot([low, value], [y, y], color=color, lw=2.0, solid_capstyle="butt")
    axes.plot([value], [y], marker, color=color, ms=5, clip_on=False)


def _v_curve(axes: Axes, found: Record) -> None:
    steps = np.asarray(found["steps"])
    errors = np.asarray([np.nan if e is None else max(e, _NONE) for e in found["errors"]])
    axes.plot(steps, errors, "o-", ms=3.5, color=COLORS[0], label="central differences")
    first = np.flatnonzero(np.isfinite(errors))[:1]
    if first.size and errors[first[0]] > 0:
        k = int(first[0])
        guide = slice(k, max(int(np.nanargmin(errors)), k + 2))
        axes.plot(steps[guide], 3 * errors[k] * (steps[guide] / steps[k]) ** 2, ":", color=COLORS[6], label="step$^2$")
    ad = max(found["ad_error"] or 0.0, _NONE)
    axes.axhline(ad, color=COLORS[2], ls="--", label="automatic differentiation")
    axes.set(xscale="log", yscale="log", xlabel="relative step", ylabel="relative error", title="Finite differences")
    axes.invert_xaxis()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _compared(found: Record) -> list[Record]:
    return [r for r in found["parameters"] if not r["left_out"]]


def draw_sensitivity(panels: Sequence[Axes], found: Record) -> None:
    """Draw a bar for each parameter, as long as the larger of its two effects, with a mark at each effect.

    Controls have a separate colour.

    **Arguments:**

    - `panels`: one axes.
    - `found`: the content of sensitivity.json.
    """
    axes, rows = panels[0], _compared(found)
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
    y = name_bars(axes, [r["parameter"] for r in rows])
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
    beside = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7, "color": COLORS[6]}
    for k, row in enumerate(rows):
        axes.text(1.015, y[k], _value(row), **beside)
    axes.set(xlabel="effect on what is observed (rms, in units of its range)", title="Which parameters matter")
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xlim(low, edge)


SENSITIVITY = Picture(
    "sensitivity.json",
    lambda found: (7.0, 1.3 + 0.22 * len(_compared(found))),
    lambda fig, found: [fig.subplots()],
    draw_sensitivity,
    lambda fig, panels, found: fig.legend(loc="outside lower center", ncols=4),
)


def _marks(axes: Axes, both: np.ndarray, y: np.ndarray, low: float, edge: float, color: str) -> None:
    """Draw marks of the two changes: filled for multiplication by the factor, hollow for division."""
    for effect, face in ((both[:, 0], color), (both[:, 1], "white")):
        seen = np.isfinite(effect) & (effect > low) & (effect <= edge)
        axes.plot(effect[seen], y[seen], "o", ms=4, mfc=face, mec=color, mew=1.0)


def _value(row: Record) -> str:
    """Value and unit, with exponents raised."""
    unit = re.sub(r"\^(-?\d+)", r"$^{\1}$", row["unit"])
    return f"{row['value']:.4g}" + with_space(unit)
