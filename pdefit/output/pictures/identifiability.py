"""Figure of identifiability: controls that compensate each other, the spectrum, thresholds, and compensated changes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pdefit.output.pictures.study import Picture, Record
from pdefit.output.pictures.style import BAD, COLORS, GOOD, TRUE, name_bars, readable_times, with_unit

# rows that are drawn, and controls with a colour of their own
_ROWS, _COLOURS = 24, 8
# eigenvalues below this part of the largest are round-off, and are drawn there
_ROUND_OFF = 1e-16


def draw_identifiability(panels: Sequence[Axes], found: Record) -> None:
    """Draw the squared components of each control's projection on the null space, stacked, with further panels.

    These are the eigenvalues, the projections against the threshold, and the observed values when the best compensated
    control is changed alone (orange), and with the other unknowns adjusted (blue).

    **Arguments:**

    - `panels`: up to five axes; three without courses.
    - `found`: the content of identifiability.json.
    """
    rows = _rows(found)
    colours = _colours(rows)
    parts: list[Any] = [lambda axes: _bars(axes, rows, colours, found["delta"])]
    if found["eigenvalues"] is not None:
        parts.append(lambda axes: _spectrum(axes, np.asarray(found["eigenvalues"]), found["eps"]))
    parts.append(lambda axes: _curves(axes, rows, colours, found))
    parts += [lambda axes, course=c: _course(axes, course, found) for c in _courses(found)]
    for part, axes in zip(parts, panels, strict=False):
        part(axes)


def _rows(found: Record) -> list[Record]:
    return sorted(found["controls"], key=lambda r: -r["projection"])[:_ROWS]


def _courses(found: Record) -> list[Record]:
    return (found["compensated"] or {}).get("traces", [])


def _heights(found: Record) -> list[float]:
    return [1.5 + 0.24 * max(len(_rows(found)), 5), 2.3, *([2.3] if _courses(found) else [])]


def _size(found: Record) -> tuple[float, float]:
    legend = 0.1 + 0.2 * (-(-len(_colours(_rows(found))) // 5))
    return 7.0, sum(_heights(found)) + legend


def _panels(fig: Figure, found: Record) -> list[Axes]:
    heights, courses = _heights(found), _courses(found)
    parts: Any = fig.subfigures(len(heights), 1, height_ratios=heights)
    first, second, *third = parts
    # without a spectrum the bars take its place
    wide = [1.0] if found["eigenvalues"] is None else [1.9, 1.0]
    panels = [*first.subplots(1, len(wide), width_ratios=wide, squeeze=False).flat, second.subplots()]
    return panels + [axes for part in third for axes in part.subplots(1, len(courses), squeeze=False).flat]


def _name(fig: Figure, panels: Sequence[Axes], found: Record) -> None:
    if _courses(found):
        part: Any = panels[-1].figure
        title = f"A change of {found['compensated']['control']} that the others compensate"
        part.suptitle(title, x=0.01, ha="left", fontsize=10)
        part.legend(*panels[-1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    named = panels[0].get_legend_handles_labels()
    fig.legend(*named, loc="outside lower center", ncols=5, title="parts of the unseen direction, and curves")


IDENTIFIABILITY = Picture("identifiability.json", _size, _panels, draw_identifiability, _name)


def _colours(rows: list[Record]) -> dict[str, str]:
    """A colour for each of the controls with the largest components; all others are grey."""
    total: Any = Counter()
    for row in rows:
        total.update(row["components"])
    palette = [c for c in COLORS if c != COLORS[6]]
    return {name: colour for (name, _), colour in zip(total.most_common(_COLOURS), palette, strict=False)}


def _bars(axes: Axes, rows: list[Record], colours: dict[str, str], delta: float) -> None:
    names = [r["control"] + (f" ({r['unknowns']})" if r["unknowns"] > 1 else "") for r in rows]
    y, left = name_bars(axes, names), np.zeros(len(rows))
    for name, colour in colours.items():
        parts = np.asarray([r["components"].get(name, 0.0) for r in rows])
        axes.barh(y, parts, left=left, height=0.66, color=colour, label=name, edgecolor="white", lw=0.4)
        left = left + parts
    rest = np.asarray([r["projection"] for r in rows]) - left
    if np.any(rest > 1e-3):
        axes.barh(y, rest, left=left, height=0.66, color=COLORS[6], label="all others")
    axes.axvline(delta, color=TRUE, lw=0.9, ls="--")
    axes.text(delta, len(rows) - 0.35, f" {delta:g}", fontsize=7, va="bottom", ha="left")
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(TRUE if row["word"] == "identifiable" else BAD)
    axes.set(xlim=(0, 1.02), ylim=(-0.6, len(rows) - 0.1), xlabel="squared projection on what no data see")
    axes.set_title("Which controls compensate each other", pad=12)


def _spectrum(axes: Axes, values: np.ndarray, eps: float) -> None:
    floor = max(_ROUND_OFF * values.max(), min(values.min(), eps) / 10)
    shown = np.maximum(values, floor)[::-1]
    number = np.arange(1, values.size + 1)
    for use, face in ((shown > eps, TRUE), (shown <= eps, "white")):
        axes.plot(number[use], shown[use], "o", ms=3.5, mfc=face, mec=TRUE, mew=0.8)
    axes.axhline(eps, color=TRUE, lw=0.9, ls="--")
    # on the left, where eigenvalues are large
    axes.text(0.02, eps, f"{eps:g}", transform=axes.get_yaxis_transform(), fontsize=7, va="bottom", ha="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(yscale="log", xlabel="number", ylim=(floor / 3, 5 * shown.max()), xlim=(0, values.size + 1))
    axes.set_title("Eigenvalues", pad=12)


def _curves(axes: Axes, rows: list[Record], colours: dict[str, str], found: Record) -> None:
    eps = np.asarray(found["thresholds"])
    look: Any = {"drawstyle": "default" if found["by_products"] else "steps-post"}
    for row in rows[::-1]:
        axes.plot(eps, row["curve"], color=colours.get(row["control"], COLORS[6]), lw=1.2, **look)
    axes.axvline(found["eps"], color=TRUE, lw=0.9, ls="--")
    axes.axhline(found["delta"], color=TRUE, lw=0.9, ls="--")
    axes.set(xscale="log", xlim=(eps[0], eps[-1]), ylim=(-0.02, 1.04), ylabel="squared projection")
    axes.set(xlabel="eigenvalue up to which a direction counts as unseen", title="The verdict over its thresholds")


def _course(axes: Axes, course: Record, found: Record) -> None:
    name, change = found["compensated"]["control"], f"{100 * found['compensated']['change']:g} %"
    ts, shown = readable_times(np.asarray(course["times"]), found["time_unit"])
    now, alone, together = np.asarray(course["values"], float)
    axes.plot(ts, now, color="#BBBBBB", lw=4.0, label="as it is")
    axes.plot(ts, alone, color=BAD, ls="--", label=f"{name} {change} larger")
    axes.plot(ts, together, color=GOOD, lw=1.2, label="the others adjusted, too")
    axes.set(xlabel=with_unit("time", shown), ylabel=course["name"])
