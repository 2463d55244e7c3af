"""Figure of a design: expected intervals, the gain of one more frame or place, and the cadence."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from pdefit.output.pictures.study import Picture, Record
from pdefit.output.pictures.style import BAD, BEYOND, COLORS, GOOD, PALE, TRUE, name_bars, readable_times, with_unit

# intervals that are drawn, the widest first, and unknowns with a line of their own
_ROWS, _LINES = 16, 6


def draw_design(panels: Sequence[Axes], found: Record) -> None:
    """Draw the expected intervals, and the shortening of the target's interval by further observations.

    **Arguments:**

    - `panels`: up to four axes.
    - `found`: the content of design.json.
    """
    names = [row["control"] for row in found["intervals"]]
    target = names.index(found["target"])
    places = _best_places(found["candidates"], target)
    parts = (
        lambda axes: _intervals(axes, found, _widest(found["intervals"], target), target),
        lambda axes: _frames(axes, found, names, target),
        lambda axes: _cadence(axes, found, names, target),
        lambda axes: _places(axes, places, target, found["target"]) if places else _others(axes, found, target),
    )
    for axes, part in zip(panels, parts, strict=False):
        part(axes)


def _high(found: Record) -> float:
    return max(2.4, 0.9 + 0.2 * min(len(found["intervals"]), _ROWS))


def _name(fig: Figure, panels: Sequence[Axes], found: Record) -> None:
    named = {}
    for axes in panels[:3]:
        named |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    fig.legend(named.values(), named.keys(), loc="outside lower center", ncols=5)


DESIGN = Picture(
    "design.json",
    lambda found: (7.0, _high(found) + 2.6),
    lambda fig, found: fig.subplots(2, 2, height_ratios=[_high(found), 2.6]).ravel().tolist(),
    draw_design,
    _name,
)


def _widest(intervals: list[Record], target: int) -> list[int]:
    """Indices of the drawn intervals: undetermined ones and the widest first, and the target."""
    order = sorted(
        range(len(intervals)), key=lambda k: (intervals[k]["half"] is not None, -(intervals[k]["half"] or 0))
    )
    return order[:_ROWS] if target in order[:_ROWS] else [*order[: _ROWS - 1], target]


def _intervals(axes: Axes, found: Record, rows: list[int], target: int) -> None:
    y = name_bars(axes, [found["intervals"][k]["control"] for k in rows])
    now = 100 * np.asarray([found["intervals"][k]["half"] for k in rows], float)
    known = np.isfinite(now)
    low = np.nanmin(now) if known.any() else 1.0
    axes.hlines(y, 0, 1, transform=axes.get_yaxis_transform(), color="#E6E6E6", lw=0.8)
    colours = [GOOD if k == target else COLORS[6] for k in rows]
    axes.scatter(now, y, s=34, color=colours, zorder=3, label="as planned")
    for position in y[~known]:
        axes.text(
            0.03, position, "undetermined", transform=axes.get_yaxis_transform(), va="center", color=BAD, fontsize=8
        )
    frame = next((c for c in found["candidates"] if c["kind"] == "frame" and not c["second"]), None)
    if frame is not None:
        after = 100 * np.asarray([frame["half"][k] for k in rows], float)
        axes.scatter(after, y, s=34, marker="|", color=BAD, lw=1.8, zorder=4, label="with the best frame")
    widest = np.nanmax(now) if known.any() else 100.0
    axes.set(xscale="log", xlim=(low / 2, widest * 2))
    decades = np.arange(np.floor(np.log10(low / 2)), np.ceil(np.log10(2 * widest)) + 1)
    steps = (1, 2, 5) if decades.size < 5 else (1,)
    ticks = [
        m * 10.0**e for e in decades[:: -(-decades.size // 6)] for m in steps if low / 2 <= m * 10.0**e <= 2 * widest
    ]
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    of_zero = "; of 1 where it is 0" * any(found["intervals"][k]["value"] == 0 for k in rows)
    axes.set(xlabel=f"half the 95 % interval (% of the value{of_zero})")
    axes.set_title("Intervals to expect", fontsize=9)


def _frames(axes: Axes, found: Record, names: list[str], target: int) -> None:
    frames = sorted(
        (c for c in found["candidates"] if c["kind"] == "frame" and not c["second"]), key=lambda c: c["time"]
    )
    unit = found["time_unit"]
    ts, shown = readable_times(np.asarray([c["time"] for c in frames]), unit)
    record = readable_times(np.asarray([*found["times"], frames[-1]["time"]] if frames else found["times"]), unit)[0]
    record = record[: len(found["times"])]
    shrink = np.asarray([c["shrink"] for c in frames], float).reshape(len(frames), -1)
    for k, colour in _colours(names, target).items():
        look: Any = {"lw": 1.8, "zorder": 3} if k == target else {"lw": 0.9}
        axes.plot(ts, shrink[:, k], color=colour, label=names[k], **look)
    axes.plot(
        record, np.ones(record.size), "|", color=TRUE, ms=5, mew=min(0.7, 30 / record.size), label="frames as planned"
    )
    axes.axvspan(record[-1], max(ts.max(initial=record[-1]), record[-1]), color="#F2F2F2", zorder=0)
    axes.axvline(record[-1], color=BEYOND, lw=1.0, ls="--")
    axes.set(xlabel=with_unit("time of one more frame", shown), ylabel="interval with it / without")
    axes.set_title("What one more frame gains", fontsize=9)


def _colours(names: list[str], target: int) -> dict[int, str]:
    """Colours of the target and some other unknowns."""
    others = [k for k in range(len(names)) if k != target][: _LINES - 1]
    return {target: GOOD} | dict(zip(others, [c for c in COLORS[2:] if c != GOOD], strict=False))


def _cadence(axes: Axes, found: Record, names: list[str], target: int) -> None:
    rows = found["cadences"]
    n = np.asarray([r["frames"] for r in rows], float)
    half = np.asarray([r["half"] for r in rows], float)
    now = next(i for i, r in enumerate(rows) if r["every"] == 1)
    for k, colour in _colours(names, target).items():
        look: Any = {"lw": 1.8, "zorder": 3} if k == target else {"lw": 0.9}
        axes.plot(n, half[:, k] / half[now, k], "o-", ms=3.5, color=colour, label=names[k], **look)
    axes.plot(n, np.sqrt(n[now] / n), color=TRUE, lw=1.0, ls="--", label="as the number of values")
    axes.axvline(n[now], color=TRUE, lw=0.7, ls=":")
    axes.set(xscale="log", yscale="log", xlabel="frames that tell anything", ylabel="interval / as planned")
    axes.set_xticks(n, [f"{x:g}" for x in n])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    low, top = axes.get_ylim()
    ticks = [x for x in (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if low <= x <= top]
    axes.set_yticks(ticks, [f"{x:g}" for x in ticks])
    axes.set_title("Which cadence is enough", fontsize=9)


def _best_places(candidates: list[Record], target: int) -> list[Record]:
    """Candidate places of the variable with the largest gain, if they lie along one or two axes."""
    places = [c for c in candidates if c["kind"] == "place" and not c["second"] and c["shrink"][target] is not None]
    if not places:
        return []
    best = min(places, key=lambda c: c["shrink"][target])
    own = [c for c in places if c["variable"] == best["variable"]]
    varying = _axes_of(own)
    return own if len(own) > 1 and 1 <= len(varying) <= 2 else []


def _axes_of(places: list[Record]) -> list[int]:
    middles = np.asarray([c["place"] for c in places])
    return [axis for axis in range(middles.shape[1]) if np.ptp(middles[:, axis]) > 0]


def _places(axes: Axes, places: list[Record], target: int, name: str) -> None:
    if all(" = " not in c["what"] and "(" not in c["what"] for c in places):
        _bars(axes, sorted(places, key=lambda c: c["shrink"][target])[:8], target, name)
        return
    varying = _axes_of(places)
    where = np.asarray([c["place"] for c in places])[:, varying]
    gain = 100 * (1 - np.asarray([c["shrink"][target] for c in places]))
    names = [places[0]["axes"][axis] for axis in varying]
    title = f"One more look at a part of {places[0]['variable']}"
    label = f"% shorter interval of {name}"
    if len(varying) == 1:
        order = np.argsort(where[:, 0])
        axes.plot(where[order, 0], gain[order], "o-", ms=3.5, color=GOOD)
        axes.set(xlabel=names[0], ylabel=label, ylim=(0, None))
    else:
        first, second = (np.unique(where[:, a]) for a in (0, 1))
        if first.size * second.size == len(places):
            values = np.full((first.size, second.size), np.nan)
            values[np.searchsorted(first, where[:, 0]), np.searchsorted(second, where[:, 1])] = gain
            drawn = axes.pcolormesh(first, second, values.T, shading="nearest", rasterized=True, vmin=0)
        else:
            drawn = axes.scatter(*where.T, c=gain, s=24, vmin=0)
        axes.figure.colorbar(drawn, ax=axes, label=label)
        axes.grid(visible=False)
        axes.set(xlabel=names[0], ylabel=names[1])
    axes.set_title(title, fontsize=9)


def _others(axes: Axes, found: Record, target: int) -> None:
    """Draw bars of the interval with a second observation of each field, and with a repeated recording."""
    rows = [c for c in found["candidates"] if c["kind"] in ("field", "recording") and not c["second"]][:8]
    _bars(axes, rows, target, found["target"])
    axes.set_title("One variable, or all, once more", fontsize=9)


def _bars(axes: Axes, rows: list[Record], target: int, name: str) -> None:
    words = (c["what"].removesuffix(", a second time").removesuffix(", in every frame") for c in rows)
    pairs = zip(rows, words, strict=True)
    names = [w if c["kind"] == "place" else c["variable"] or "a second recording" for c, w in pairs]
    shrink = np.asarray([c["shrink"][target] for c in rows], float)
    axes.barh(name_bars(axes, names), shrink, height=0.62, color=PALE)
    axes.axvline(1.0, color=TRUE, lw=0.9, ls="--")
    axes.set(xlim=(0, 1.05), xlabel=f"{name}: interval with / without")
    axes.set_title("One more look at some places", fontsize=9)
