"""Tracks of particles, and their mean velocities on a raster."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from pdefit._util.errors import PdefitError, first_line
from pdefit.data.importers._sphere import fitted_sphere, tangent_vectors
from pdefit.data.importers.options import number, numbers
from pdefit.data.importers.recording import Recording
from pdefit.data.importers.scale import SCALE_OPTIONS, refuse_unknown, scale_of

_OPTIONS = ("bins", "box", "least", "as", "experiment", "y", "pole")
# names of TrackMate and trackpy
_NAMES = {"track_id": "track", "particle": "track"} | {f"position_{c}": c for c in "xyz"}
# vectors that a proposed bin holds
_FULL = 5


def tracks(files: list[Path], options: dict[str, str]) -> Recording:
    """Velocities of tracks: differences of consecutive positions, at the middle of both frames.

    **Arguments:**

    - `files`: CSV files with columns `experiment, frame, track, x, y, z`, or of TrackMate.
    - `options`: `bins`, `box`, `least`, `as=positions|sphere`, `pole`, `experiment`, `y=up|down` and those of the scale.
    """
    refuse_unknown("tracks", options, (*SCALE_OPTIONS, *_OPTIONS))
    read = [_table(file) for file in files]
    table: Any = pandas.concat([table for table, _ in read])
    units = read[0][1]
    if any(other != units for _, other in read):
        raise PdefitError("The files state different units; import them apart")
    names = sorted(set(table["experiment"]))
    if options.get("experiment", "") not in names and (len(names) > 1 or "experiment" in options):
        raise PdefitError(f"The files hold the experiments {', '.join(names[:20])}; choose one with experiment=NAME")
    table = table[table["experiment"] == options.get("experiment", names[0])]
    scale = scale_of(options)
    (length, length_unit), (step, time_unit) = (
        scale.length(units["x"]),
        scale.time("frame")
        if (scale.frame or scale.unknown or "position_t" not in table)
        else scale.time(units["position_t"]),
    )
    if "position_t" in table and not scale.frame and not scale.unknown:
        ends = table.loc[[table["frame"].idxmin(), table["frame"].idxmax()], ["frame", "position_t"]].to_numpy()
        frames, times = ends[1] - ends[0]
        step *= times / frames if frames else math.nan
        if not (math.isfinite(step) and step > 0):
            raise PdefitError("POSITION_T does not grow with FRAME; add frame=TIME, such as frame=2ms")
    bins = [int(n) for n in numbers("bins", options["bins"], "[20,20]", (2, 3))] if "bins" in options else []
    points, sphere = (options.get("as") == kind for kind in ("positions", "sphere"))
    if "as" in options and not (points or sphere):
        raise PdefitError(
            f"as expects positions or sphere, but got '{options['as']}'; leave it out for means on a raster"
        )
    if "pole" in options and not sphere:
        raise PdefitError("pole is the north of a sphere; add as=sphere, or leave it out")
    deep = "z" in table and table["z"].nunique() > 1
    dims = "xyz" if sphere else "xyz"[: len(bins) or 2 + deep]
    if not {*dims} <= {*table}:
        raise PdefitError("The files have no column z; add it, or leave as=sphere and a third number of bins out")
    notes = ["Values at several depths z are taken together."] if deep and dims == "xy" else []
    # an image with y down and z away from the eye is not mirrored
    down = options.get("y", "down" if "position_t" in table and not sphere else "up")
    if down not in ("up", "down"):
        raise PdefitError(f"y expects up or down, but got '{down}'; correct it")
    where = table[[*dims]].to_numpy(float)
    box = np.stack([where.min(0), where.max(0)], 1)
    if "box" in options:
        box = np.reshape(numbers("box", options["box"], "[x0,x1,y0,y1]", (2 * len(dims),), whole=False), (-1, 2))
    if down == "down":
        table["y"] = box[1].sum() - table["y"]
        notes.append("y of the files runs down, so it is mirrored within its range.")
    elif not sphere:
        notes.append("y of the files is taken to run up; y=down is for positions in an image.")
    if sphere:
        if length_unit == "m":
            length, step, length_unit, time_unit = length * 1e6, step / 60, "um", "min"
        table[[*dims]] *= length
        recording = Recording(
            np.zeros(0), time_unit, {}, length_unit, {}, [], notes, [f.name for f in files], "Tracks on a sphere"
        )
        return _on_sphere(table, recording, step, bins, options)
    vectors = _vectors(table, dims, length, step, notes)
    box, speed, times = box * length, f"{length_unit}/{time_unit}", np.unique(vectors["time"])
    recording = Recording(
        times, time_unit, {}, length_unit, {}, [], notes, [f.name for f in files], "Velocities of tracks"
    )
    components = "uvw"[: len(dims)]
    if points:
        most = int(vectors["time"].value_counts().max())
        recording.axes, recording.length_unit = {"point": np.arange(most)}, "1"
        recording.units = dict.fromkeys(components, speed) | dict.fromkeys(dims, length_unit)
        recording.frames = _listed(vectors, recording)
        return recording
    inside = np.all((vectors[[*dims]] >= box[:, 0]) & (vectors[[*dims]] <= box[:, 1]), axis=1)
    vectors, recording.ts = vectors[inside], np.unique(vectors["time"][inside])
    if not inside.all():
        notes.append(f"{np.mean(~inside):.1%} of the vectors lie outside of the box and are left out.")
    width = box[:, 1] - box[:, 0]
    if not len(vectors) or not (width > 0).all():
        raise PdefitError("The box of the vectors is empty; give another one with box=[x0,x1,y0,y1]")
    if not bins or 0 in bins or math.prod(bins) > len(vectors):
        each = (len(vectors) / times.size / _FULL / np.prod(width)) ** (1 / len(dims))
        fit = ",".join(str(max(2, round(w * each))) for w in width)
        raise PdefitError(
            f"bins expects numbers of cells along {', '.join(dims)}; a frame has about {len(vectors) / times.size:.0f} "
            f"vectors, so write bins=[{fit}] for about {_FULL} in a cell, or as=positions"
        )
    cells = np.clip((vectors[[*dims]].to_numpy() - box[:, 0]) / width * bins, 0, np.array(bins) - 1).astype(int)
    vectors["cell"] = np.ravel_multi_index(tuple(cells.T), bins)
    recording.axes = {
        d: low + (np.arange(n) + 0.5) * w / n for d, low, w, n in zip(dims, box[:, 0], width, bins, strict=True)
    }
    recording.units = dict.fromkeys([*components, *(f"{c}_sigma" for c in components)], speed) | {"count": "1"}
    recording.frames = _means(vectors, recording, number("least", options.get("least", "2"), 1))
    return recording


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
    table.columns = [_NAMES.get(str(c).strip().lower(), str(c).strip().lower()) for c in table.columns]
    missing = {"frame", "track", "x", "y"} - {*table.columns}
    if missing or len({*table.columns}) < len(table.columns):
        raise PdefitError(
            f"'{file.name}' needs the columns frame, track, x and y, each once, but has {', '.join(table.columns[:20])}; "
            f"name them in its first line"
        )
    units = {"x": "pixel", "position_t": "sec"}
    if "position_t" in table:
        # three more rows of titles in a file of TrackMate, the last one with units
        numeric: Any = pandas.to_numeric(table["x"][:3], errors="coerce")
        titles = table[:3][numeric.isna()]
        for column in units:
            stated = [str(text).strip() for text in titles[column] if str(text).strip().startswith("(")]
            units[column] = stated[-1].strip("() ").replace("micron", "um") if stated else units[column]
        table = table.drop(titles.index)
    if "experiment" not in table:
        table["experiment"] = file.stem
    table = (
        table[[c for c in ("experiment", "frame", "track", *"xyz", "position_t") if c in table]]
        .dropna(subset="track")
        .copy()
    )
    for column in table.columns.intersection(["frame", *"xyz", "position_t"]):
        values: Any = pandas.to_numeric(table[column], errors="coerce")
        wrong = ~np.isfinite(values) | ((values % 1 != 0) if column == "frame" else False)
        if wrong.any():
            raise PdefitError(
                f"'{file.name}' holds '{str(table[column][wrong].iloc[0])[:30]}' in column {column}, where "
                f"{'a whole' if column == 'frame' else 'a'} number is expected; correct it"
            )
        table[column] = values
    if table.empty or table["experiment"].isna().any():
        raise PdefitError(f"'{file.name}' holds no tracks, or empty names of experiments; fill in its columns")
    return table, units


def _on_sphere(table: Any, recording: Recording, step: float, bins: list[int], options: dict[str, str]) -> Recording:
    """Mean tangent velocities at colatitudes and longitudes of the sphere that fits the positions.

    **Arguments:**

    - `table`: positions in the length unit of the recording.
    - `recording`: with units and notes, to be filled.
    - `step`: the time between frames.
    - `bins`: the numbers of cells along theta and phi.
    - `options`: of the import.
    """
    notes, unit = recording.notes, recording.length_unit
    sphere = fitted_sphere(table[[*"xyz"]].to_numpy(float))
    pole = np.array(numbers("pole", options.get("pole", "[0,0,1]"), "[0,0,1]", (3,), whole=False))
    if len(bins) != 2 or 0 in bins or not pole.any():
        raise PdefitError("as=sphere expects cells along theta and phi, and a pole other than 0; write bins=[18,36]")
    at = ", ".join(f"{c:.5g}" for c in sphere.centre)
    notes.append(
        f"The sphere has the centre ({at}) {unit} and the radius {sphere.radius:.5g} +- {sphere.error:.2g} {unit}; positions "
        f"are {sphere.rms:.3g} {unit} (rms) away from it, {sphere.rms / sphere.radius:.1%} of the radius."
    )
    notes.append("x, y and z of the files are taken to be right-handed; y=down mirrors y.")
    if not sphere.kept.all():
        notes.append(f"{np.sum(~sphere.kept)} positions are left out, since they are too far from the sphere.")
    first, second = _pairs(table[sphere.kept], notes)
    start, end = (part[[*"xyz"]].to_numpy(float) for part in (first, second))
    vectors = pandas.DataFrame(tangent_vectors(start, end, sphere, pole, bins)).assign(
        time=(first["frame"] + 0.5) * step
    )
    vectors[["u_theta", "u_phi"]] /= step
    recording.ts, speed = np.unique(vectors["time"]), f"{unit}/{recording.time_unit}"
    recording.axes = {
        d: (np.arange(n) + 0.5) * w / n for d, n, w in zip(("theta", "phi"), bins, (np.pi, 2 * np.pi), strict=True)
    }
    recording.scalars = {"radius": (sphere.radius, unit), "centre": (sphere.centre, unit), "pole": (pole, "1")}
    recording.units = dict.fromkeys(("u_theta", "u_phi", "u_theta_sigma", "u_phi_sigma"), speed) | {"count": "1"}
    recording.frames = _means(vectors, recording, number("least", options.get("least", "2"), 1))
    recording.length_unit = "rad"
    return recording


def _vectors(table: Any, dims: str, length: float, step: float, notes: list[str]) -> Any:
    """Time, place and velocity of all pairs of consecutive positions."""
    first, second = _pairs(table, notes)
    found = {"time": (first["frame"] + 0.5) * step}
    for component, dim in zip("uvw", dims, strict=False):
        found[dim] = length * (first[dim] + second[dim]) / 2
        found[component] = length * (second[dim] - first[dim]) / step
    return pandas.DataFrame(found)


def _pairs(table: Any, notes: list[str]) -> tuple[Any, Any]:
    """The first and the second positions of all pairs in consecutive frames."""
    twice = table.duplicated(["track", "frame"], keep=False)
    if twice.any():
        notes.append(f"{twice.sum()} positions are left out, since their track has several in that frame.")
    table = table[~twice].sort_values(["track", "frame"])
    pair = ((table["frame"].diff() == 1) & (table["track"] == table["track"].shift())).to_numpy()[1:]
    first, second = (part[pair].reset_index(drop=True) for part in (table[:-1], table[1:]))
    if not len(first):
        raise PdefitError("No track has positions in two consecutive frames; number frames by 0, 1, 2, ...")
    return first, second


def _means(vectors: Any, recording: Recording, least: int) -> Iterator[Mapping[str, np.ndarray]]:
    """Means in the cells of every frame, with standard errors."""
    shape, components = tuple(a.size for a in recording.axes.values()), [c for c in recording.units if c in vectors]
    groups = vectors.groupby(["time", "cell"])
    means, counts = groups[components].mean(), groups.size()
    free = len(vectors) - len(counts)
    spread = np.sqrt(((vectors[components] - groups[components].transform("mean")) ** 2).sum() / (free or math.nan))
    told = ", ".join(f"{spread[c]:.3g} for {c}" for c in components)
    recording.notes.append(
        f"Standard errors are the spread within cells, pooled over all ({told} {recording.units[components[0]]}), over the "
        f"root of the count. Cells with fewer than {least} vectors are missing."
    )
    for time in recording.ts:
        count, frame = np.zeros(math.prod(shape)), {}
        of_cells = counts.loc[time]
        count[of_cells.index] = of_cells
        known = count >= least
        for c in components:
            frame[c] = np.full(count.size, np.nan)
            frame[c][of_cells.index] = means.loc[time, c]
            frame[c][~known] = np.nan
            frame[f"{c}_sigma"] = np.where(known, spread[c] / np.sqrt(np.maximum(count, 1)), np.nan)
        yield {name: values.reshape(shape) for name, values in (frame | {"count": count}).items()}


def _listed(vectors: Any, recording: Recording) -> Iterator[Mapping[str, np.ndarray]]:
    """Vectors and their places in every frame. NaN means no vector."""
    most = recording.axes["point"].size
    for _, frame in vectors.groupby("time"):
        yield {name: np.pad(frame[name], (0, most - len(frame)), constant_values=np.nan) for name in recording.units}
