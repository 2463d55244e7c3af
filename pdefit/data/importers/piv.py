"""Velocity fields from files of particle image velocimetry (PIV)."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import tifffile
import xarray

from pdefit._util.errors import PdefitError
from pdefit.data.importers.options import PIXELS, SCALE_OPTIONS, Scale, choice, refuse_unknown, scale_of
from pdefit.data.importers.piv_files import components, doubts, stated, velocity_fields
from pdefit.data.importers.recording import Recording, frame_numbers
from pdefit.data.readers.variable import sound

_OPTIONS = (*SCALE_OPTIONS, "length", "velocity", "flip", "outliers", "interpolated")
# larger numbers mark missing vectors, and fit into no file
_LARGEST = 1e30
# noise of a vector in pixels (Westerweel & Scarano 2005), and the ratio of divergences that casts doubt on the sign of v
_NOISE, _DOUBT = 0.1, 1.5
# neighbours that a median needs, and the limit of the normalised deviation from it
_NEIGHBOURS, _LIMIT = 5, 2.0
# vectors of a hole that may be an obstacle
_HOLE = 9


def read_piv(files: list[Path], options: Mapping[str, str]) -> Recording:
    """Velocity fields in files of one format, which is recognised by the content, not the suffix.

    **Arguments:**

    - `files`: the files in any order; they are sorted by the numbers in their names.
    - `options`: `pixel`, `frame`, `delay`, `scale` as for every import; `length` and `velocity`, the units if the files
      state none or wrong ones; `flip=v` to negate v; `outliers`, a limit or false; `interpolated=true` to keep vectors
      that are marked as interpolated.
    """
    refuse_unknown("piv", options, _OPTIONS)
    flip, keep = choice(options, "flip", ("v",)), choice(options, "interpolated", ("true", "false")) == "true"
    files = [Path(name) for name in tifffile.natural_sorted({*map(str, files)})]
    first = velocity_fields(files[0])
    known, names, notes = stated(first), components(first), [*first.attrs.get("notes", [])]
    limit = _limit(options.get("outliers", "false" if "import_notes" in first.attrs else str(_LIMIT)))
    scale = scale_of(options).completed(pixel=known["pixel"], delay=known["delay"])
    metre, length_unit, factor, velocity_unit = _units(scale, known, options, notes)
    ts, time_unit = _times(files, first, scale, notes)
    if velocity_unit != f"{length_unit}/{time_unit}":
        raise PdefitError(
            f"Velocities are in {velocity_unit}, but positions in {length_unit} and times in {time_unit}; add pixel=LENGTH "
            f"and frame=TIME in place of scale=unknown"
        )
    pair = scale.delay or scale.frame
    noise = _NOISE if velocity_unit == "pixel/frame" else _NOISE * scale.pixel / pair if scale.pixel and pair else None
    axes = {name: (first[name].values * metre, length_unit) for name in "xy"}
    spacing, count, squares = [values for values, _ in axes.values()], Counter[str](), np.zeros(2)
    never = np.ones([values.size for values in spacing], bool)

    def frames() -> Iterator[dict[str, np.ndarray]]:
        for file in files:
            fields = first if file == files[0] else _alike(file, first, files[0])
            for number in range(fields.sizes.get("t", 1)):
                with sound("u", file):
                    frame = fields.isel(t=number, missing_dims="ignore").load().transpose("x", "y")
                    (rejected, interpolated), field = doubts(frame), frame[names].astype(float)
                field = field.where(np.abs(field) < _LARGEST) * factor
                if flip:
                    field["v"] = -field["v"]
                missing = (field["u"].isnull() | field["v"].isnull()) & ~rejected & ~interpolated
                wrong = {"rejected by flags": rejected, "interpolated": interpolated, "missing in the files": missing}
                field = field.where(~(rejected | interpolated & (not keep)))
                far = missing.copy(data=outliers(field["u"].values, field["v"].values, noise, limit))
                wrong["rejected as outliers"], field = far, field.where(~far)
                left = (field["u"].notnull() & field["v"].notnull()).values
                count.update(
                    {reason: int(where.sum()) for reason, where in wrong.items()}, all=left.size, left=int(left.sum())
                )
                squares[:] += _divergences(field["u"].values, field["v"].values, spacing)
                never[...] &= ~left
                yield {name: field[name].values for name in names}
        notes.extend(_remarks(count, squares, never, flip))

    units, source = dict.fromkeys(names, velocity_unit), [file.name for file in files]
    title = "Velocity fields measured by PIV"
    return Recording({"time": (ts, time_unit), **axes}, units, frames(), notes, source, title)


def _units(
    scale: Scale, known: Mapping[str, Any], options: Mapping[str, str], notes: list[str]
) -> tuple[float, str, float, str]:
    """Factors and units of lengths and velocities."""
    length = options.get("length") or known["length_unit"] or "pixel"
    velocity = options.get("velocity") or known["velocity_unit"] or "pixel/frame"
    silent = None in (known["length_unit"], known["velocity_unit"])
    if silent and not {"length", "velocity"} <= {*options}:
        notes.append(
            f"The files state no units: {length} and {velocity} are taken; length=mm velocity=mm/s would name others."
        )
    try:
        metre, length_unit = scale.length(length)
    except PdefitError as error:
        if known["length_unit"] or "length" in options:
            raise
        raise PdefitError(f"{error}; where they were calibrated, length=mm velocity=mm/s names their units") from None
    # pivpy states the unit of displacements
    return metre, length_unit, *scale.velocity(f"{velocity}/frame" if velocity.lower() in PIXELS else velocity)


def _times(files: list[Path], first: xarray.Dataset, scale: Scale, notes: list[str]) -> tuple[np.ndarray, str]:
    """Times of all frames with their unit, from the files or else from the numbers in their names."""
    own = stated(first)["time_unit"]
    if "t" in first.coords:
        parts = [first, *(_alike(file, first, files[0]) for file in files[1:])]
        ts = np.concatenate([part["t"].values for part in parts])
    else:
        ts, remarks = frame_numbers(files)
        notes += remarks
    if not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0):
        raise PdefitError(
            "Times must increase from frame to frame and from file to file; correct them or the files' names"
        )
    if own == "frame" and scale.frame is None and not scale.unknown:
        pulses = f" (the images of a pair are {scale.delay:g} s apart)" if scale.delay else ""
        raise PdefitError(
            f"The files state no time between frames{pulses}; add frame=TIME (such as 2ms), and pixel=LENGTH where lengths are "
            f"pixels, or scale=unknown"
        )
    factor, unit = scale.time(own)
    return ts * factor, unit


def _alike(file: Path, first: xarray.Dataset, known: Path) -> xarray.Dataset:
    """Fields of a file, checked against the grid, units and variables of the first file."""
    fields = velocity_fields(file)
    for name in "xy":
        a, b = fields[name].values, first[name].values
        if a.shape != b.shape or np.any(np.abs(a - b) > 0.01 * (b[1] - b[0])):
            raise PdefitError(
                f"'{file.name}' has another raster than '{known.name}'; import files of one raster at a time"
            )
    for (name, have), want in zip(stated(fields).items(), stated(first).values(), strict=True):
        if have != want:
            raise PdefitError(f"'{file.name}' has {name} {have}, but '{known.name}' has {want}; import them apart")
    if ("t" in fields.coords) != ("t" in first.coords):
        raise PdefitError(f"Only one of '{known.name}' and '{file.name}' states times; import them apart")
    return fields


def _limit(text: str) -> float:
    """The limit of outliers; infinite for `false`."""
    try:
        limit = math.inf if text == "false" else float(text)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise PdefitError(f"outliers expects a number above zero (default {_LIMIT:g}) or false, but got '{text}'")
    return limit


def outliers(u: np.ndarray, v: np.ndarray, noise: float | None, limit: float = _LIMIT) -> np.ndarray:
    """Vectors whose deviation from the median of their 3 x 3 neighbours is large relative to the neighbours' scatter.

    Missing neighbours are ignored, and a vector with fewer than five is kept. Beyond the rim the field is extrapolated
    linearly, since neighbours on one side differ from a vector by the gradient.

    Source: Westerweel & Scarano (2005), doi:10.1007/s00348-005-0016-6.

    **Arguments:**

    - `u`, `v`: components (nx, ny); NaN means missing.
    - `noise`: the noise level of the velocity, such as 0.1 pixel/frame; by default a tenth of the median speed.
    - `limit`: the limit of the normalised deviation.
    """
    noise = 0.1 * float(np.nanmedian(np.hypot(u, v))) if noise is None and np.any(np.isfinite(u + v)) else noise
    deviation = np.zeros(u.shape)
    if limit == math.inf:
        return deviation > limit
    for part in (u, v):
        padded = np.pad(part, 1, mode="reflect", reflect_type="odd")
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).reshape(*part.shape, 9)
        near = np.delete(windows, 4, axis=-1)
        enough = np.isfinite(near).sum(axis=-1) >= _NEIGHBOURS
        near = np.where(enough[..., None], near, 0.0)
        middle = np.nanmedian(near, axis=-1)
        spread = np.nanmedian(np.abs(near - middle[..., None]), axis=-1) + (noise or 0.0)
        off = np.where(enough, np.abs(part - middle), 0.0)
        deviation = np.hypot(deviation, off / np.where(spread > 0, spread, np.inf))
    return deviation > limit


def _divergences(u: np.ndarray, v: np.ndarray, axes: list[np.ndarray]) -> np.ndarray:
    """Sums of squares of the divergence of (u, v), and of (u, -v)."""
    # positions of a damaged file may be almost the same
    with np.errstate(all="ignore"):
        along, across = np.gradient(u, axes[0], axis=0), np.gradient(v, axes[1], axis=1)
        return np.array([np.nansum((along + sign * across) ** 2) for sign in (1, -1)])


def _remarks(count: Counter[str], squares: np.ndarray, never: np.ndarray, flip: str | None) -> list[str]:
    """Remarks on rejected vectors, on the sign of v, and on regions without any vector, as behind obstacles.

    **Arguments:**

    - `count`: the number of vectors by fault, of `all`, and of those `left`.
    - `squares`: sums of squares of the divergence, as given and with v negated.
    - `never`: true for points at which no frame has a vector, (nx, ny).
    - `flip`: the negated component.
    """
    if not count["left"]:
        raise PdefitError(
            f"No vector of {count['all']} is left: all are missing, or rejected by flags; import what the instrument wrote"
        )
    parts = [
        f"{count[why] / count['all']:.1%} were {why}" for why in count if why not in ("all", "left") and count[why]
    ]
    notes = [f"Of {count['all']} vectors {', '.join(parts)}.".replace("%", " %")] if parts else []
    if squares[0] > _DOUBT**2 * squares[1]:
        ratio = np.sqrt(squares[0] / max(squares[1], 1e-30 * squares[0]))
        notes.append(
            f"The divergence is {ratio:.2g} times smaller with v negated; if the flow is incompressible, import it with "
            f"{'no ' if flip else ''}flip=v."
        )
    labelled: Any = scipy.ndimage.label(never)
    sizes = np.bincount(labelled[0].ravel())
    sizes[[0, *(edge for side in (labelled[0], labelled[0].T) for edge in (*side[0], *side[-1]))]] = 0
    if sizes.max() >= _HOLE:
        notes.append(
            f"A region of {sizes.max()} vectors inside is missing at all times; if it is an obstacle, crop a part beside it "
            f"(data.crop), since the equations of flow know none."
        )
    return notes
