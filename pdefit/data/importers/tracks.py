"""Tracks of particles, and their mean velocities on a grid."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from pdefit._util.errors import PdefitError, first_line
from pdefit._util.plugins import part, parts
from pdefit.data.importers.options import (
    SCALE_OPTIONS,
    choice,
    number,
    numbers,
    refuse_unknown,
    scale_of,
    whole_numbers,
)
from pdefit.data.importers.recording import Recording
from pdefit.data.units import conversion

_OPTIONS = ("bins", "box", "least", "as", "experiment", "y")
# names of TrackMate and trackpy
_NAMES = {"track_id": "track", "particle": "track"} | {f"position_{c}": c for c in "xyz"}
_NUMBERS = ("frame", "x", "y", "z", "position_t")
# larger numbers are those of a damaged file
_LARGEST = 1e30
# vectors that a proposed bin holds
_FULL = 5


def tracks(files: list[Path], options: dict[str, str]) -> Recording:
    """Velocities along tracks: differences of consecutive positions, at the midpoints of frame pairs.

    **Arguments:**

    - `files`: CSV files with columns `experiment, frame, track, x, y, z`, or of TrackMate.
    - `options`: `bins`, `box`, `least`, `experiment`, `y=up|down`, the scale's options, `as=positions` or `as=PLUGIN`
      for a curved surface, with the options of the plugin's file tracks.py.
    """
    kind = choice(options, "as", ("positions", *parts("tracks")), "leave it out for means on a raster")
    curved = part(kind, "tracks") if kind not in (None, "positions") else None
    own: dict[str, str] = curved.OPTIONS if curved else {}
    refuse_unknown("tracks", options, (*SCALE_OPTIONS, *_OPTIONS, *own))
    table, units = _one_experiment(files, options)
    length, step, length_unit, time_unit = _scale(table, units, options)
    if curved and length_unit == "m":
        length_unit, time_unit = curved.UNITS
        length, step = length * conversion("m", length_unit).factor, step / conversion(time_unit, "s").factor
    bins = whole_numbers("bins", options["bins"], "[20,20]", (2, 3)) if "bins" in options else []
    deep = "z" in table and table["z"].nunique() > 1
    dims = [*"xyz"] if curved else [*"xyz"][: len(bins) or 2 + deep]
    if not {*dims} <= {*table}:
        raise PdefitError(f"The files have no column z; add it, or leave as={kind} and a third number of bins out")
    notes = ["Values at several depths z are taken together."] if deep and dims == ["x", "y"] else []
    box = table[dims].agg(["min", "max"]).to_numpy(float).T
    if "box" in options:
        box = np.reshape(numbers("box", options["box"], "[x0,x1,y0,y1]", (2 * len(dims),)), (-1, 2))
    # an image with y down and z away from the eye is not mirrored
    default = "down" if "position_t" in table and not curved else "up"
    if (choice(options, "y", ("up", "down")) or default) == "down":
        table["y"] = box[1].sum() - table["y"]
        notes.append("y of the files runs down, so it is mirrored within its range.")
    elif not curved:
        notes.append("y of the files is taken to run up; y=down is for positions in an image.")
    table[dims] *= length
    source, speed = [file.name for file in files], f"{length_unit}/{time_unit}"
    title, scalars, axes = "Velocities of tracks", {}, {}
    if curved:
        given = {n: numbers(n, options.get(n, usual), usual, (usual.count(",") + 1,)) for n, usual in own.items()}
        cells = curved.surface(table[dims].to_numpy(float), length_unit, bins, **given)
        notes += cells.notes
        first, second = _pairs(table[cells.near], notes)
        moved = cells.displacements(*(ends[dims].to_numpy(float) for ends in (first, second)))
        vectors, axes, scalars = pandas.DataFrame(moved).assign(frame=first["frame"]), cells.axes, cells.scalars
        title = f"Tracks on a {kind}"
    else:
        first, second = _pairs(table, notes)
        vectors = ((first[dims] + second[dims]) / 2).assign(frame=first["frame"])
        vectors[[*"uvw"][: len(dims)]] = second[dims] - first[dims]
        if not kind:
            vectors, axes = _in_cells(vectors, box * length, dims, bins, length_unit, notes)
    components = [name for name in vectors if name[0] in "uvw"]
    vectors[components] /= step
    times = {"time": ((np.unique(vectors["frame"]) + 0.5) * step, time_unit)}
    units = dict.fromkeys(components, speed)
    if kind == "positions":
        axes = {"point": (np.arange(vectors["frame"].value_counts().max()), "1")}
        units |= dict.fromkeys(dims, length_unit)
        frames = _listed(vectors, [*units], axes["point"][0].size)
    else:
        least = number("least", options.get("least", "2"), 1)
        frames = _means(vectors, components, tuple(x.size for x, _ in axes.values()), least, speed, notes)
        units |= {f"{name}_sigma": speed for name in components} | {"count": "1"}
    return Recording(times | axes, units, frames, notes, source, title, scalars=scalars)


def _one_experiment(files: list[Path], options: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """Positions of the chosen experiment in all files, and the units of their columns."""
    read = [_table(file) for file in files]
    if any(units != read[0][1] for _, units in read):
        raise PdefitError("The files state different units; import them apart")
    table: Any = pandas.concat([table for table, _ in read])
    names = sorted({*table["experiment"]})
    if options.get("experiment", "") not in names and (len(names) > 1 or "experiment" in options):
        raise PdefitError(f"The files hold the experiments {', '.join(names[:20])}; choose one with experiment=NAME")
    return table[table["experiment"] == options.get("experiment", names[0])].copy(), read[0][1]


def _table(file: Path) -> tuple[Any, dict[str, str]]:
    """Positions in a CSV file, and the units of its columns."""
    try:
        with open(file, encoding="utf-8-sig") as lines:
            separator = next((s for s in ";\t," if s in lines.readline(1000)), ",")
        # pandas takes a name such as http:a.csv for an address
        table: Any = pandas.read_csv(
            file.absolute(), sep=separator, dtype=str, encoding="utf-8-sig", skipinitialspace=True
        )
    except (ValueError, OverflowError) as error:
        raise PdefitError(
            f"'{file.name}' cannot be read as a table of text ({first_line(error)}); correct it"
        ) from None
    names = [str(column).strip().lower() for column in table.columns]
    table = table.set_axis([_NAMES.get(name, name) for name in names], axis=1)
    if not {"frame", "track", "x", "y"} <= {*table.columns} or not table.columns.is_unique:
        raise PdefitError(
            f"'{file.name}' needs the columns frame, track, x and y, each once, but has {', '.join(table.columns[:20])}; "
            f"name them in its first line"
        )
    units = {"x": "pixel", "position_t": "sec"}
    if "position_t" in table:
        # three more rows of titles in a file of TrackMate, the last one with units
        titles = table[:3][~table["x"][:3].str.contains(r"\d", na=False)]
        for column in units:
            stated = [text for text in titles[column].astype(str).str.strip() if text.startswith("(")]
            units[column] = stated[-1].strip("() ").replace("micron", "um") if stated else units[column]
        table = table.drop(titles.index)
    if "experiment" not in table:
        table["experiment"] = file.stem
    table = table[[name for name in ("experiment", "track", *_NUMBERS) if name in table]].dropna(subset="track").copy()
    for column in table.columns.intersection([*_NUMBERS]):
        values: Any = pandas.to_numeric(table[column], errors="coerce")
        wrong, kind = ~(np.abs(values) < _LARGEST), "a"
        if column == "frame":
            wrong, kind = wrong | (values % 1 != 0), "a whole"
        if wrong.any():
            raise PdefitError(
                f"'{file.name}' holds '{str(table[column][wrong].iloc[0])[:30]}' in column {column}, where {kind} number is "
                f"expected; correct it"
            )
        table[column] = values
    if table.empty or table["experiment"].isna().any():
        raise PdefitError(f"'{file.name}' holds no tracks, or empty names of experiments; fill in its columns")
    return table, units


def _scale(table: Any, units: Mapping[str, str], options: Mapping[str, str]) -> tuple[float, float, str, str]:
    """Conversion factor of lengths, time between frames, and the units of both."""
    scale = scale_of(options)
    length, length_unit = scale.length(units["x"])
    if scale.frame or scale.unknown or "position_t" not in table:
        step, time_unit = scale.time("frame")
    else:
        unit, time_unit = scale.time(units["position_t"])
        ordered = table.sort_values("frame")[["frame", "position_t"]].to_numpy()
        frames, times = ordered[-1] - ordered[0]
        step = unit * times / frames if frames else math.nan
        if not (math.isfinite(step) and step > 0):
            raise PdefitError("POSITION_T does not grow with FRAME; add frame=TIME, such as frame=2ms")
    return length, step, length_unit, time_unit


def _pairs(table: Any, notes: list[str]) -> tuple[Any, Any]:
    """First and second positions of all pairs in consecutive frames."""
    twice = table.duplicated(["track", "frame"], keep=False)
    if twice.any():
        notes.append(f"{twice.sum()} positions are left out, since their track has several in that frame.")
    table = table[~twice].sort_values(["track", "frame"])
    pair = ((table["frame"].diff() == 1) & (table["track"] == table["track"].shift())).to_numpy()[1:]
    first, second = (part[pair].reset_index(drop=True) for part in (table[:-1], table[1:]))
    if not len(first):
        raise PdefitError("No track has positions in two consecutive frames; number frames by 0, 1, 2, ...")
    return first, second


def _listed(vectors: Any, names: list[str], most: int) -> Iterator[Mapping[str, np.ndarray]]:
    """Vectors and their positions in every frame; NaN means no vector."""
    for _, frame in vectors.groupby("frame"):
        yield {name: np.pad(frame[name], (0, most - len(frame)), constant_values=np.nan) for name in names}


def _in_cells(
    vectors: Any, box: np.ndarray, dims: list[str], bins: list[int], unit: str, notes: list[str]
) -> tuple[Any, dict[str, tuple[np.ndarray, str]]]:
    """Vectors in a box with the index of their `cell`, and the axes of the cells."""
    inside, width = ((vectors[dims] >= box[:, 0]) & (vectors[dims] <= box[:, 1])).all(axis=1), box[:, 1] - box[:, 0]
    count = vectors["frame"].nunique()
    vectors = vectors[inside]
    if not inside.all():
        notes.append(f"{np.mean(~inside):.1%} of the vectors lie outside of the box and are left out.")
    if vectors.empty or not (width > 0).all():
        raise PdefitError("The box of the vectors is empty; give another one with box=[x0,x1,y0,y1]")
    if not bins or 0 in bins or math.prod(bins) > len(vectors):
        each = (len(vectors) / count / _FULL / np.prod(width)) ** (1 / len(dims))
        fit = ",".join(str(max(2, round(w * each))) for w in width)
        raise PdefitError(
            f"bins expects numbers of cells along {', '.join(dims)}; a frame has about {len(vectors) / count:.0f} vectors, so "
            f"write bins=[{fit}] for about {_FULL} in a cell, or as=positions"
        )
    cells = np.clip((vectors[dims].to_numpy() - box[:, 0]) / width * bins, 0, np.array(bins) - 1).astype(int)
    axes = {
        name: (low + (np.arange(n) + 0.5) * w / n, unit)
        for name, low, w, n in zip(dims, box[:, 0], width, bins, strict=True)
    }
    return vectors.assign(cell=np.ravel_multi_index(tuple(cells.T), bins)), axes


def _means(
    vectors: Any, names: list[str], shape: tuple[int, ...], least: int, speed: str, notes: list[str]
) -> Iterator[Mapping[str, np.ndarray]]:
    """Means in the cells of every frame, with standard errors.

    **Arguments:**

    - `vectors`: columns frame, cell, and components.
    - `names`: the names of the components, in the unit `speed`.
    - `shape`: the numbers of cells along the axes.
    - `least`: cells with fewer vectors are missing.
    - `notes`: the list of notes to extend.
    """
    groups = vectors.groupby(["frame", "cell"])
    means, counts = groups[names].mean(), groups.size()
    free = len(vectors) - len(counts)
    spread = np.sqrt(((vectors[names] - groups[names].transform("mean")) ** 2).sum() / (free or math.nan))
    each = ", ".join(f"{spread[name]:.3g} for {name}" for name in names)
    notes.append(
        f"Standard errors are the spread within cells, pooled over all ({each} {speed}), over the root of the count. Cells "
        f"with fewer than {least} vectors are missing."
    )
    for time in np.unique(vectors["frame"]):
        # tables by cells leave out those without vectors
        frame = means.loc[time].reindex(range(math.prod(shape)))
        count = counts.loc[time].reindex(frame.index, fill_value=0)
        frame = frame.assign(**{f"{name}_sigma": spread[name] / np.sqrt(count.where(count > 0)) for name in names})
        frame = frame.where(count >= least).assign(count=count)
        yield {name: frame[name].to_numpy(float).reshape(shape) for name in frame}
