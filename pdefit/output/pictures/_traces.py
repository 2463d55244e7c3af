"""Values over time: of fields at some points, bodies, diagnostics and residuals, and the error of a forecast."""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pdefit._util.errors import with_space
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Bodies, Quantity, widest
from pdefit.output.pictures.style import (
    BAD,
    BEYOND,
    COLORS,
    NAMES,
    OBSERVED,
    PALE,
    figure,
    label_lowest,
    looks,
    mark_forecast,
    panel_grid,
    panels_of,
    readable_times,
    scale_of,
    with_unit,
)
from pdefit.output.store.tables import read_series

# number of frames that are drawn of a film that does not fit into memory
_MOST_FRAMES = 400
_MOST_POSITIONS = 3000
_LOOKED_AT = 24
_PLACES, _EDGE = 4, 0.1
_MOST_ROWS = 5
# values that differ by less than this fraction of the largest are taken for equal
_ALIKE = 1e-6
# most quantities on one page
_MOST_LINES = 12
# of diagnostics the prediction is wide and pale, so that the truth upon it is seen where both agree
_LOOKS: dict[str, dict[str, Any]] = {
    "predicted": {"lw": 2.4, "alpha": 0.5},
    "true": {"lw": 1.0, "ls": "--"},
}


def draw_traces(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Draw values over time at the points where a field changes most, far from each other.

    A single quantity fills a page with four points. Several quantities have a row of three each, or one panel if all
    points are alike.
    """
    shown = shown[:_MOST_ROWS]
    found = [probes(film, q, _PLACES if len(shown) == 1 else 3) for q in shown]
    is_alike, is_single = all(len(places) == 1 for places in found), len(shown) == 1
    across = min(2, len(shown)) if is_alike else 2 if is_single else max(map(len, found))
    down = -(-len(shown) // across) if is_alike else 2 if is_single else len(shown)
    kinds = {kind for q in shown for kind in q.field.kinds}
    sharey = "none" if is_alike else "row"
    with _over_time(path, film, 0.95 + 1.6 * down, (down, across), kinds, sharey=sharey) as grid:
        rows = grid.reshape(-1, 1) if is_alike else grid.reshape(len(shown), -1)
        for quantity, row, places in zip(shown, rows, found, strict=False):
            series, numbers = _series(film, quantity, places)
            series.pop("sigma", None)
            limits = scale_of(np.concatenate([x.ravel() for x in series.values()])).limits
            for k, (axes, place) in enumerate(zip(row, places, strict=False)):
                draw_kinds(axes, film, film.ts[numbers], {kind: x[:, k] for kind, x in series.items()})
                axes.set(ylim=limits, ylabel=quantity.label if is_alike or k % across == 0 else "")
                axes.set_title("" if is_alike else _place(quantity, place), fontsize=8)


def draw_components(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Draw quantities without spatial axes over time, each with the error of its prediction.

    Measured quantities have error bars, and residuals with a band of one standard deviation.
    """
    shown = shown[:_MOST_LINES]
    shape = len(shown), 1 + any(q.field.reference for q in shown)
    kinds = {kind for q in shown for kind in q.field.kinds}
    with _over_time(path, film, 0.9 + 1.35 * len(shown), shape, kinds) as grid:
        for quantity, row in zip(shown, grid, strict=True):
            series, numbers = _series(film, quantity, [()])
            values = {kind: x[:, 0] for kind, x in series.items()}
            ts, reference, sigma = film.ts[numbers], quantity.field.reference, values.pop("sigma", None)
            draw_kinds(row[0], film, ts, values)
            row[0].set(ylabel=quantity.label, **scale_of(np.concatenate(list(values.values()))).axis)
            if reference is None:
                continue
            if sigma is not None:
                row[0].errorbar(ts, values["observed"], sigma, ls="", lw=0.8, color=OBSERVED, zorder=1)
                row[1].fill_between(ts, -sigma, sigma, color=PALE, lw=0)
                row[1].plot(ts, values["predicted"] - values["observed"], ".", ms=4, mew=0, color=BAD)
                label = with_unit("residual", quantity.field.unit)
            else:
                row[1].plot(ts, values["predicted"] - values[reference], color=BAD, lw=1.0)
                label = quantity.label_of("error", "\n")
            row[1].axhline(0.0, color="black", lw=0.6)
            row[1].set_ylabel(label)
            mark_forecast(row[1], film)


def draw_body_traces(path: Path, film: Film, moving: Bodies) -> None:
    """Draw coordinates over time of four bodies, from small to large orbits, along the two widest axes."""
    numbers = film.chosen(_MOST_POSITIONS)
    series = {kind: moving.positions(film, kind, numbers) for kind in moving.field.kinds}
    moved = np.nan_to_num(series["predicted"]).std(axis=0).max(axis=-1)
    # bodies from all sizes of orbits, because those that move most are all far outside
    order = np.argsort(moved)[::-1]
    bodies = sorted(order[np.unique(np.linspace(0, order.size - 1, min(_PLACES, order.size)).astype(int))].tolist())
    # a full line: dashes would hide orbits of many turns
    look = {"lw": 0.9, "ls": "-"}
    with _over_time(path, film, 0.8 + 1.35 * len(bodies), (len(bodies), 2), {*moving.field.kinds}, look) as grid:
        for row, k in zip(grid, bodies, strict=True):
            for axes, c in zip(row, widest(series["predicted"]), strict=True):
                draw_kinds(axes, film, film.ts[numbers], {kind: x[:, k, c] for kind, x in series.items()}, **look)
                axes.set_ylabel(with_unit(moving.axis_names[c], moving.field.unit))
            row[0].set_title(moving.names[k], fontsize=9)


def draw_diagnostics(path: Path, film: Film) -> None:
    """Draw the diagnostics of a film, with a panel for each quantity, the first word of their names."""
    panels: dict[str, list[str]] = {}
    for name in film.diagnostics:
        panels.setdefault(name.partition("_")[0], []).append(name)
    down, across = panels_of(len(panels), 2)
    kinds = [kind for kind in _LOOKS if all(kind in field.kinds for field in film.diagnostics.values())]
    height = 0.8 + (1.9 if across > 1 else 2.6) * down
    with panel_grid(path, (7.0, height), (down, across), sharex=True) as (fig, grid):
        for axes, (quantity, members) in zip(grid.flat, panels.items(), strict=False):
            _draw_members(axes, film, quantity, members, kinds)
            mark_forecast(axes, film, named=axes is grid[0, 0])
        label_lowest(grid, with_unit("time", film.time_unit))
        if len(kinds) > 1:
            lines = [Line2D([], [], color="black", label=NAMES[kind], **_LOOKS[kind]) for kind in kinds]
            fig.legend(handles=lines, loc="outside lower center", ncols=len(lines))


def _draw_members(axes: Axes, film: Film, quantity: str, members: list[str], kinds: list[str]) -> None:
    """Draw curves of all members of a quantity, each in its colour."""
    values = []
    for k, name in enumerate(members):
        for kind in kinds:
            values.append(np.asarray(list(film.frames(name, kind, range(film.ts.size))), float))
            label = name.partition("_")[2].replace("_", " ") if kind == "predicted" else ""
            look = _LOOKS[kind] if len(kinds) > 1 else {}
            axes.plot(film.ts, values[-1], color=COLORS[k % len(COLORS)], label=label, **look)
    label = quantity if len(members) > 1 else members[0].replace("_", " ")
    axes.set(ylabel=label, **scale_of(np.stack(values)).axis)
    if len(members) > 1:
        # beside the panel, where no curve passes
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, borderaxespad=0.1)


def draw_residuals(path: Path, table: Path, time_unit: str) -> None:
    """Draw residuals in standard deviations, with a panel for each variable or body; the band is the noise."""
    ts, columns = read_series(table)
    ts, time_unit = readable_times(ts, time_unit)
    panels = [*dict.fromkeys(name.partition("[")[0] for name in columns)]
    down, across = panels_of(len(panels), 3)
    size = 7.0, 1.0 + 1.5 * down if down > 1 else 3.2
    with panel_grid(path, size, (down, across), sharex=True, sharey=True) as (fig, grid):
        for axes, panel in zip(grid.flat, panels, strict=False):
            for k, values in enumerate(v for name, v in columns.items() if name.partition("[")[0] == panel):
                axes.plot(ts, values, lw=0.9, marker=".", ms=3, color=COLORS[k % len(COLORS)])
            axes.axhspan(-1.0, 1.0, color=PALE, lw=0, zorder=0)
            axes.set_title(panel, fontsize=9)
        # after all panels: the shared axis does not grow any more once a limit is set
        grid[0, 0].set_ylim(bottom=0 if all(name.endswith(" rms") for name in columns) else None)
        label_lowest(grid, with_unit("time", time_unit))
        fig.supylabel("(prediction - data) / sigma", fontsize=9)


def draw_forecast(path: Path, table: Path, time_unit: str, unit: str, baseline: str) -> None:
    """Draw the error of the forecast (solid) and of the baseline (dashed)."""
    ts, columns = read_series(table)
    ts, time_unit = readable_times(ts, time_unit)
    positive = {name: np.where(values > 0, values, np.nan) for name, values in columns.items()}
    dashed: dict[str, Any] = {"ls": "--", "lw": 0.8}
    with figure(path, 7.0, 4.0) as fig:
        axes = fig.subplots()
        for k, name in enumerate(n for n in columns if not n.endswith(" baseline")):
            # a line of one time does not show
            axes.plot(ts, positive[name], marker="o" if len(ts) == 1 else "", color=COLORS[k % 9], label=name)
            below = positive.get(f"{name} baseline", np.full_like(ts, np.nan))
            axes.plot(ts, below, marker="x" if len(ts) == 1 else "", color=COLORS[k % 9], **dashed)
        axes.plot([], [], color="black", label="forecast")
        axes.plot([], [], color="black", label=baseline, **dashed)
        label = with_unit("error", unit) if unit else "relative error"
        axes.set(yscale="log", xlabel=with_unit("time", time_unit), ylabel=label, title="Forecast error")
        fig.legend(loc="outside right upper")


def probes(film: Film, quantity: Quantity, count: int = _PLACES) -> list[tuple[int, ...]]:
    """Indices of at most `count` points where a field changes most in time, far from each other.

    There is one point if the field is uniform.
    """
    look = np.stack(list(quantity.frames(film, "predicted", film.chosen(_LOOKED_AT))))
    look = np.where(np.isfinite(look), look, 0.0)
    size = np.abs(look).max() or 1.0
    if np.ptp(look.reshape(len(look), -1), axis=1).max() <= _ALIKE * size:
        count = 1
    change = (look / size).std(axis=0)
    change = change / (change.max() or 1.0) + 1e-3
    # positions in units of the sides of the picture, which count alike
    where = np.stack(np.meshgrid(*(np.linspace(0, 1, n) for n in change.shape), indexing="ij"))
    # places at an edge are far from all others, but seldom typical
    change = np.where(np.any((where < _EDGE) | (where > 1 - _EDGE), axis=0), 0.3 * change, change)
    apart, found = np.ones_like(change), []
    for _ in range(min(count, change.size)):
        best = np.unravel_index(int(np.argmax(change * apart)), change.shape)
        found.append(tuple(int(i) for i in best))
        here = where[(slice(None), *best)].reshape(-1, *[1] * change.ndim)
        apart = np.minimum(apart, np.sqrt(((where - here) ** 2).sum(axis=0)))
    return sorted(found)


def _series(film: Film, quantity: Quantity, places: list[tuple[int, ...]]) -> tuple[dict[str, np.ndarray], list[int]]:
    """Values (frames, points) of every kind, and the indices of the frames."""
    numbers = film.chosen(film.ts.size if film.is_small(quantity.field.name) else _MOST_FRAMES)
    # without an axis the one place is ()
    index = tuple(np.asarray(i, int) for i in zip(*places, strict=True)) or (None,)
    kinds = quantity.field.kinds
    return {k: np.stack([frame[index] for frame in quantity.frames(film, k, numbers)]) for k in kinds}, numbers


def draw_kinds(axes: Axes, film: Film, ts: np.ndarray, values: Mapping[str, np.ndarray], **predicted: Any) -> None:
    """Draw observed (dots), true (thin) and predicted values over time; `predicted` styles the last."""
    for kind, look in looks(values, **predicted).items():
        # a single frame is drawn as a dot, because it makes no line
        look |= {"marker": "o"} if ts.size == 1 and kind == "predicted" else {}
        axes.plot(ts, values[kind], **look)
    mark_forecast(axes, film)


def _place(quantity: Quantity, place: tuple[int, ...]) -> str:
    pairs = zip(quantity.axes, place, strict=True)
    at = [f"{axis.name} = {axis.values[i]:.3g}{with_space(axis.unit)}" for axis, i in pairs]
    return ", ".join(at[::-1] if quantity.flip else at)


@contextmanager
def _over_time(
    path: Path, film: Film, height: float, shape: tuple[int, int], kinds: Set[str], predicted: Any = None, **shared: Any
) -> Iterator[Any]:
    """Grid of panels with the time below the last row, and a legend, which a simulation alone does not need."""
    with panel_grid(path, (7.0, height), shape, sharex=True, **shared) as (fig, grid):
        yield grid
        label_lowest(grid, with_unit("time", film.time_unit))
        lines = [Line2D([], [], label=NAMES[kind], **look) for kind, look in looks(kinds, **predicted or {}).items()]
        if 0 < film.forecast < film.ts.size:
            lines.append(Line2D([], [], color=BEYOND, ls="--", lw=1.0, label="the forecast begins"))
        if len(lines) > 1:
            fig.legend(handles=lines, loc="outside lower center", ncols=len(lines))
