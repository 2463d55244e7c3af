"""Figures of many fits: histograms of their scalars, records of the worst and of typical members, and starts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pdefit.data.readers.fields import open_film
from pdefit.output.pictures.style import (
    BAD,
    COLORS,
    GOOD,
    OBSERVED,
    PALE,
    figure,
    kind_of_axis,
    panel_grid,
    panels_of,
    readable_times,
    with_unit,
)
from pdefit.output.store.members import read_members
from pdefit.output.store.tables import number, number_in, rows_of

if TYPE_CHECKING:
    import xarray

# panels of numbers and of members at most, and how many of these are the worst
_MOST_NUMBERS, _MOST_MEMBERS, _WORST = 12, 12, 5
# numbers over more decades than this have a logarithmic axis
_DECADES = 1.0
# estimates beyond these quantiles lie outside the axis of a histogram
_TAILS = 0.01, 0.99


class Record(NamedTuple):
    """One record with its fit.

    **Arguments:**

    - `name`, `chi2`: its name, and chi2 per value.
    - `ts`, `unit`: the times and their unit.
    - `lines`: the observed and predicted values of each variable at these times.
    """

    name: str
    chi2: float
    ts: np.ndarray
    unit: str
    lines: dict[str, tuple[np.ndarray, ...]]


def draw_histograms(path: Path, file: Path) -> None:
    """Draw histograms of the scalars over all members, with their median, and the median half width of their intervals."""
    found = read_members(file)
    names = [str(n) for n in found.data_vars if f"{n}_low" in found][:_MOST_NUMBERS]
    down, across = panels_of(len(names), 4)
    with panel_grid(path, (1.9 * across + 0.4, 1.8 * down + 0.3), (down, across)) as (fig, grid):
        for axes, name in zip(grid.flat, names, strict=False):
            values, low, high = (found[n].values for n in (name, f"{name}_low", f"{name}_high"))
            good = np.isfinite(values)
            if not good.any():
                continue
            begin, end = np.quantile(values[good], _TAILS)
            wide = begin > 0 and np.log10(end / begin) > _DECADES
            count = int(np.clip(1.5 * np.sqrt(good.sum()), 6, 30)) + 1
            bins = (
                np.geomspace(begin, end, count)
                if wide
                else np.linspace(begin, max(end, np.nextafter(begin, np.inf)), count)
            )
            axes.hist(np.clip(values[good], begin, end), bins=bins, color=PALE, ec=GOOD, lw=0.6)
            if f"{name}_true" in found:
                true = found[f"{name}_true"].values
                axes.hist(np.clip(true[good], begin, end), bins=bins, histtype="step", color="k", lw=0.9)
            half = np.nanmedian((high - low)[good] / 2) if np.isfinite(high[good]).any() else np.nan
            axes.set_title(
                f"{np.median(values[good]):.3g}" + (f", ±{half:.2g} each" if np.isfinite(half) else ""), fontsize=8
            )
            axes.set(
                xscale="log" if wide else "linear", xlabel=with_unit(name, str(found[name].attrs.get("units", "")))
            )
        fig.supylabel("members", fontsize=9)


def draw_members(path: Path, file: Path) -> None:
    """Draw records of members with their fits, the worst first, then typical ones; nothing if the file has no records."""
    found = read_members(file)
    variables = [str(n).removesuffix("_predicted") for n in found.data_vars if str(n).endswith("_predicted")][:3]
    if not variables:
        return
    shown = [int(e) for e in _worst_and_typical({str(e): float(x) for e, x in enumerate(found.chi2_per_value.values)})]
    unit, records = str(found.time.attrs.get("unit", "")), []
    for e in shown:
        lines = {n: tuple(_series(found[f"{n}_{k}"], e) for k in ("observed", "predicted")) for n in variables}
        chi2 = float(found.chi2_per_value.values[e])
        records.append(Record(str(found.member.values[e]), chi2, found.time.values, unit, lines))
    _draw_records(path, records)


def draw_recordings(path: Path, films: Mapping[str, Path], chi2: Mapping[str, float]) -> None:
    """Draw records of non-spatial recordings with their fits, the worst first, then typical ones; nothing without any.

    **Arguments:**

    - `path`: the path of the figure.
    - `films`: the path of each recording's fields.h5.
    - `chi2`: chi2 per value of each recording.
    """
    records = []
    for name in _worst_and_typical({n: chi2.get(n, np.nan) for n in films}):
        with open_film(films[name]) as film:
            fields = [f.name for f in film.fields.values() if not f.dims and {"observed", "predicted"} <= {*f.kinds}]
            fitted, (ts, unit) = range(film.forecast), readable_times(film.ts, film.time_unit)
            both = {n: tuple(np.stack([*film.frames(n, k, fitted)]) for k in ("observed", "predicted")) for n in fields}
            records.append(Record(name, chi2.get(name, np.nan), ts[: film.forecast], unit, both))
    if any(record.lines for record in records):
        _draw_records(path, records)


def _worst_and_typical(chi2: Mapping[str, float]) -> list[str]:
    """Names with the largest chi2 first, then a sample from the next largest to the smallest."""
    order = sorted(chi2, key=lambda name: -chi2[name] if np.isfinite(chi2[name]) else -np.inf)
    rest = order[_WORST:]
    return [*order[:_WORST], *rest[:: max(1, len(rest) // (_MOST_MEMBERS - _WORST))]][:_MOST_MEMBERS]


def _draw_records(path: Path, records: Sequence[Record]) -> None:
    """Draw a panel for each record; the first ones are the worst."""
    shape = panels_of(len(records), 4)
    with panel_grid(path, (7.4, 1.55 * shape[0] + 0.5), shape, sharex=True) as (fig, grid):
        for k, (axes, record) in enumerate(zip(grid.flat, records, strict=False)):
            for color, (name, (observed, predicted)) in zip(COLORS, record.lines.items(), strict=False):
                axes.plot(record.ts, observed, ".", ms=2, color=OBSERVED)
                axes.plot(record.ts, predicted, color=color, lw=1.0, label=name)
            text = f"{record.name}: chi2 per value {record.chi2:.3g}"
            axes.set_title(text, fontsize=7, color=BAD if k < _WORST else "k")
            axes.tick_params(labelsize=6)
        grid.flat[0].legend(fontsize=6, loc="upper right")
        fig.supxlabel(with_unit("time", records[0].unit), fontsize=9)


def draw_starts(path: Path, file: Path) -> None:
    """Draw J of all starts from the best to the worst, and the scalars of each optimum."""
    known = {"start", "loss", "optimum", "converged", "dropped", "evaluations"}
    with rows_of(file) as table:
        names = [n for n in (table or [{}])[0] if n not in known and not n.endswith(" start")][:6]
        wanted = ("loss", "optimum", *names)
        rows = [{n: number(number_in(row, n)) if row[n] else None for n in wanted} for row in table]
    ended = sorted((r for r in rows if r["loss"] is not None), key=lambda r: r["loss"] or 0.0)
    with figure(path, 7.0, 2.8) as fig:
        left, right = fig.subplots(1, 2, width_ratios=(2, 3))
        for place, row in enumerate(ended):
            best = row["optimum"] == 1
            left.plot(place + 1, row["loss"], "o", ms=4.5, color=GOOD if best else PALE, mec=GOOD, mew=0.8)
        losses = [r["loss"] or 0.0 for r in ended]
        left.set(yscale=kind_of_axis(losses), xlabel="start, the best first", ylabel="J where it ended")
        for column, name in enumerate(names if ended else ()):
            middle = ended[0][name] or 1.0
            for row in ended[::-1]:
                best, x = row["optimum"] == 1, row[name]
                if x is not None:
                    right.plot(column, x / middle, "o", ms=4.5, color=GOOD if best else PALE, mec=GOOD, mew=0.8)
        right.set_xticks(range(len(names)), names)
        spread = [(r[n] or 0.0) / (ended[0][n] or 1.0) for r in ended for n in names]
        right.set(yscale=kind_of_axis(spread), ylabel="estimate over that of the best")


def _series(record: "xarray.DataArray", e: int) -> np.ndarray:
    """One member's record against time, averaged over space if it has any."""
    one = record.isel(member=int(e))
    return one.mean([d for d in one.dims if d != "time"]).values if one.ndim > 1 else one.values
