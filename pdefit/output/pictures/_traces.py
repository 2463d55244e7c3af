"""Traces: values over time at a few places of a field, of bodies, or of a system without space."""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from pdefit._util.errors import with_space
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Bodies, Quantity, widest, with_unit
from pdefit.output.pictures._scales import margin, scale_of
from pdefit.output.pictures._spacetime import label_lowest, mark_forecast
from pdefit.output.pictures.style import BAD, BEYOND, NAMES, OBSERVED, PALE, figure, looks

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


def draw_traces(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Draw values over time at places where a field changes most, far from each other.

    One quantity fills a page of four places. Of several, each has a row of three, or one panel where all places are
    alike.
    """
    shown = shown[:_MOST_ROWS]
    found = [probes(film, q, _PLACES if len(shown) == 1 else 3) for q in shown]
    is_alike, is_single = all(len(places) == 1 for places in found), len(shown) == 1
    across = min(2, len(shown)) if is_alike else 2 if is_single else max(map(len, found))
    down = -(-len(shown) // across) if is_alike else 2 if is_single else len(shown)
    with figure(path, 7.0, 0.95 + 1.6 * down) as fig:
        grid: Any = fig.subplots(down, across, sharex=True, sharey="none" if is_alike else "row", squeeze=False)
        for axes in grid.flat:
            axes.set_visible(False)
        rows = grid.reshape(-1, 1) if is_alike else grid.reshape(len(shown), -1)
        for quantity, row, places in zip(shown, rows, found, strict=False):
            series, numbers = _series(film, quantity, places)
            series.pop("sigma", None)
            limits = margin(scale_of(np.concatenate([x.ravel() for x in series.values()])))
            for k, (axes, place) in enumerate(zip(row, places, strict=False)):
                axes.set_visible(True)
                draw_kinds(axes, film, film.ts[numbers], {kind: x[:, k] for kind, x in series.items()})
                axes.set(ylim=limits, ylabel=quantity.label if is_alike or k % across == 0 else "")
                axes.set_title("" if is_alike else _place(quantity, place), fontsize=8)
        _finish(fig, grid, film, {kind for q in shown for kind in q.field.kinds})


def draw_components(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Draw quantities without space over time, and beside each the error of its prediction.

    What an instrument measured has error bars, and beside it the residuals with a band of one standard deviation.
    """
    shown = shown[:_MOST_LINES]
    with_error = any(q.field.reference for q in shown)
    with figure(path, 7.0, 0.9 + 1.35 * len(shown)) as fig:
        grid: Any = fig.subplots(len(shown), 1 + with_error, sharex=True, squeeze=False)
        for quantity, row in zip(shown, grid, strict=True):
            series, numbers = _series(film, quantity, [()])
            values = {kind: x[:, 0] for kind, x in series.items()}
            ts, reference, sigma = film.ts[numbers], quantity.field.reference, values.pop("sigma", None)
            draw_kinds(row[0], film, ts, values)
            scale = scale_of(np.concatenate(list(values.values())))
            row[0].set(ylabel=quantity.label, yscale="log" if scale.is_log else "linear", ylim=margin(scale))
            if sigma is not None:
                row[0].errorbar(ts, values["observed"], sigma, ls="", lw=0.8, color=OBSERVED, zorder=1)
                row[1].fill_between(ts, -sigma, sigma, color=PALE, lw=0)
                row[1].plot(ts, values["predicted"] - values["observed"], ".", ms=4, mew=0, color=BAD)
                row[1].axhline(0.0, color="black", lw=0.6)
                row[1].set_ylabel(with_unit("residual", quantity.field.unit))
                mark_forecast(row[1], film)
            elif reference is not None:
                row[1].plot(ts, values["predicted"] - values[reference], color=BAD, lw=1.0)
                row[1].axhline(0.0, color="black", lw=0.6)
                row[1].set_ylabel(quantity.error_label("\n"))
                mark_forecast(row[1], film)
            elif with_error:
                row[1].set_visible(False)
        _finish(fig, grid, film, {kind for q in shown for kind in q.field.kinds})


def draw_body_traces(path: Path, film: Film, moving: Bodies) -> None:
    """Draw coordinates over time of four bodies, from small to large orbits, along the two widest axes."""
    numbers = film.chosen(_MOST_POSITIONS)
    series = {kind: moving.positions(film, kind, numbers) for kind in moving.field.kinds}
    moved = np.nan_to_num(series["predicted"]).std(axis=0).max(axis=-1)
    # bodies from all sizes of orbits, because those that move most are all far outside
    order = np.argsort(moved)[::-1]
    bodies = sorted(order[np.unique(np.linspace(0, order.size - 1, min(_PLACES, order.size)).astype(int))].tolist())
    with figure(path, 7.0, 0.8 + 1.35 * len(bodies)) as fig:
        grid: Any = fig.subplots(len(bodies), 2, sharex=True, squeeze=False)
        for row, k in zip(grid, bodies, strict=True):
            for axes, c in zip(row, widest(series["predicted"]), strict=True):
                values = {kind: x[:, k, c] for kind, x in series.items()}
                # a full line: dashes would hide orbits of many turns
                draw_kinds(axes, film, film.ts[numbers], values, lw=0.9, ls="-")
                axes.set_ylabel(with_unit(moving.axis_names[c], moving.field.unit))
            row[0].set_title(moving.names[k], fontsize=9)
        _finish(fig, grid, film, set(moving.field.kinds), lw=0.9, ls="-")


def probes(film: Film, quantity: Quantity, count: int = _PLACES) -> list[tuple[int, ...]]:
    """Indices of places where a field changes most in time, each far from the others, `count` at most.

    There is one place where the field is the same everywhere.
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
    """Values (frames, places) of every kind."""
    numbers = film.chosen(film.ts.size if film.is_small(quantity.field.name) else _MOST_FRAMES)
    index = tuple(np.asarray(i, int) for i in zip(*places, strict=True))
    return {
        kind: np.stack(
            [np.atleast_1d(frame[index] if index else frame) for frame in quantity.frames(film, kind, numbers)]
        )
        for kind in quantity.field.kinds
    }, numbers


def draw_kinds(axes: Any, film: Film, ts: np.ndarray, values: Mapping[str, np.ndarray], **predicted: Any) -> None:
    """Observed (dots), true (thin) and predicted values over time; `predicted` changes the look of the last."""
    for kind, look in looks(values, **predicted).items():
        # a single frame is drawn as a dot, because it makes no line
        axes.plot(ts, values[kind], **look, **({"marker": "o"} if ts.size == 1 and kind == "predicted" else {}))
    mark_forecast(axes, film)


def _place(quantity: Quantity, place: tuple[int, ...]) -> str:
    at = [
        f"{axis.name} = {axis.values[i]:.3g}{with_space(axis.unit)}"
        for axis, i in zip(quantity.axes, place, strict=True)
    ]
    return ", ".join(at[::-1] if quantity.flip else at)


def _finish(fig: Any, grid: Any, film: Film, kinds: Set[str], **predicted: Any) -> None:
    """The time below the last row, and a legend; a simulation alone needs none."""
    label_lowest(grid, with_unit("time", film.time_unit))
    lines = [Line2D([], [], label=NAMES[kind], **look) for kind, look in looks(kinds, **predicted).items()]
    if 0 < film.forecast < film.ts.size:
        lines.append(Line2D([], [], color=BEYOND, ls="--", lw=1.0, label="the forecast begins"))
    if len(lines) > 1:
        fig.legend(handles=lines, loc="outside lower center", ncols=len(lines))
