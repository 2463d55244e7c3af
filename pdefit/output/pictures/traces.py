"""Values over time, at a few places of a field, or of a system without space."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdefit.data.readers.fields import Film
from pdefit.output.pictures.quantities import Quantity, with_unit
from pdefit.output.pictures.scales import margin, scale_of
from pdefit.output.pictures.spacetime import mark_forecast
from pdefit.output.pictures.style import BAD, COLORS, OBSERVED, PREDICTED, TRUE, figure

# a film that does not fit into memory is drawn through so many of its frames
_MOST_FRAMES = 400
_LOOKED_AT = 24
_PLACES, _EDGE = 4, 0.1
_MOST_ROWS = 5
# places whose values differ by no more than this part of the largest are the same
_ALIKE = 1e-6
# what does not fit on a page
_MOST_LINES = 12


def draw_traces(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Observed (dots), true (thin) and predicted at places where the field changes most, far from each other. One quantity
    fills a page of four places; of several, each has a row of three, or one panel where all places are alike."""
    shown = shown[:_MOST_ROWS]
    found = [probes(film, q, _PLACES if len(shown) == 1 else 3) for q in shown]
    is_alike = all(len(places) == 1 for places in found)
    across = min(2, len(shown)) if is_alike else 2 if len(shown) == 1 else max(map(len, found))
    down = -(-len(shown) // across) if is_alike else 2 if len(shown) == 1 else len(shown)
    height = 0.95 + 1.6 * down
    with figure(path, 7.0, height, layout=None) as fig:
        grid: Any = fig.subplots(down, across, sharex=True, sharey="none" if is_alike else "row", squeeze=False)
        between = {"wspace": 0.3 if is_alike else 0.08, "hspace": 0.15 if is_alike else 0.3}
        fig.subplots_adjust(0.8 / 7, 0.75 / height, 1 - 0.12 / 7, 1 - 0.25 / height, **between)
        rows = grid.reshape(-1, 1) if is_alike else [grid.ravel()] if len(shown) == 1 else list(grid)
        for axes in grid.ravel()[len(shown) :] if is_alike else ():
            axes.set_visible(False)
        for quantity, row, places in zip(shown, rows, found, strict=False):
            series, numbers = _series(film, quantity, places)
            for k, axes in enumerate(row):
                axes.set_visible(k < len(places))
                if k >= len(places):
                    continue
                _draw(axes, film, film.ts[numbers], {kind: x[:, k] for kind, x in series.items()})
                if not is_alike:
                    axes.set_title(_place(quantity, places[k]), fontsize=8)
            limits = margin(scale_of(np.concatenate([x.ravel() for x in series.values()])))
            for k, axes in enumerate(row):
                axes.set_ylim(*limits)
                if is_alike or k % across == 0:
                    axes.set_ylabel(quantity.label)
        for axes in grid[-1]:
            axes.set_xlabel(with_unit("time", film.time_unit))
        _legend(fig, {kind for q in shown for kind in q.field.kinds}, film)


def draw_components(path: Path, film: Film, shown: Sequence[Quantity]) -> None:
    """Systems without space: every quantity over time, and beside it the error of its prediction."""
    shown = shown[:_MOST_LINES]
    with_error = any(q.field.reference for q in shown)
    with figure(path, 7.0, 0.9 + 1.35 * len(shown)) as fig:
        grid: Any = fig.subplots(len(shown), 1 + with_error, sharex=True, squeeze=False)
        for quantity, row in zip(shown, grid, strict=True):
            series, numbers = _series(film, quantity, [()])
            values = {kind: x[:, 0] for kind, x in series.items()}
            ts, reference = film.ts[numbers], quantity.field.reference
            _draw(row[0], film, ts, values)
            scale = scale_of(np.concatenate(list(values.values())))
            row[0].set(ylabel=quantity.label, yscale="log" if scale.is_log else "linear", ylim=margin(scale))
            if reference is not None:
                row[1].plot(ts, values["predicted"] - values[reference], color=BAD, lw=1.0)
                row[1].axhline(0.0, color="black", lw=0.6)
                row[1].set_ylabel(with_unit("error", quantity.field.unit))
                mark_forecast(row[1], film)
            elif with_error:
                row[1].set_visible(False)
        for axes in grid[-1]:
            axes.set_xlabel(with_unit("time", film.time_unit))
        _legend(fig, {kind for q in shown for kind in q.field.kinds}, film)


def probes(film: Film, quantity: Quantity, count: int = _PLACES) -> list[tuple[int, ...]]:
    """Places where the standard deviation in time is large, each as far as possible from those before; one where the field
    is the same everywhere."""
    look = np.stack(list(quantity.frames(film, "predicted", film.chosen(_LOOKED_AT))))
    look = np.where(np.isfinite(look), look, 0.0)
    size = np.abs(look).max() or 1.0
    if np.ptp(look.reshape(len(look), -1), axis=1).max() <= _ALIKE * size:
        count = 1
    change = (look / size).std(axis=0)
    change = change / (change.max() or 1.0) + 1e-3
    # measured in the units of the picture, whose sides count alike
    where = np.stack(np.meshgrid(*(np.linspace(0, 1, n) for n in change.shape), indexing="ij"))
    # edges are far from everything, but seldom typical
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


def _draw(axes: Any, film: Film, ts: np.ndarray, values: dict[str, np.ndarray]) -> None:
    if "observed" in values:
        axes.plot(ts, values["observed"], ".", ms=3.5, color=OBSERVED)
    if "true" in values:
        axes.plot(ts, values["true"], color=TRUE, lw=0.9)
    # one frame alone makes no line
    dot = "o" if ts.size == 1 else None
    axes.plot(ts, values["predicted"], color=PREDICTED, lw=1.4, ls="--" if "true" in values else "-", marker=dot, ms=4)
    mark_forecast(axes, film)


def _place(quantity: Quantity, place: tuple[int, ...]) -> str:
    at = [f"{axis.name} = {axis.values[i]:.3g} {axis.unit}" for axis, i in zip(quantity.axes, place, strict=True)]
    return ", ".join(at[::-1] if quantity.flip else at)


def _legend(fig: Any, kinds: set[str], film: Film) -> None:
    lines: list[Any] = []
    axes = fig.axes[0]
    if "observed" in kinds:
        lines += axes.plot([], [], ".", ms=5, color=OBSERVED, label="observed")
    if "true" in kinds:
        lines += axes.plot([], [], color=TRUE, lw=0.9, label="truth")
    lines += axes.plot([], [], color=PREDICTED, ls="--" if "true" in kinds else "-", label="prediction")
    if 0 < film.forecast < film.ts.size:
        lines += axes.plot([], [], color=COLORS[1], ls="--", lw=1.0, label="the forecast begins")
    # a simulation alone needs no name
    if len(lines) == 1:
        lines[0].remove()
        return
    # inside the room that is left below, or where a layout makes it
    where = "lower center" if fig.get_layout_engine() is None else "outside lower center"
    fig.legend(handles=lines, loc=where, ncols=len(lines))
