"""Recording of velocity fields from files of particle image velocimetry."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy import ndimage

from pdefit._util.errors import PdefitError
from pdefit.data.importers.piv import columns, netcdf, openpiv, pivlab, tsi
from pdefit.data.importers.piv.fields import INTERPOLATED, MEASURED, REJECTED, Fields
from pdefit.data.importers.piv.outliers import LIMIT, outliers
from pdefit.data.importers.recording import Recording, frame_numbers
from pdefit.data.importers.scale import SCALE_OPTIONS, Scale, refuse_unknown, scale_of

# the first that recognises a file reads it
FORMATS = (netcdf, pivlab, tsi, openpiv, columns)
_OPTIONS = (*SCALE_OPTIONS, "length", "velocity", "flip", "outliers", "interpolated")
_HEAD = 8192
# larger numbers mark missing vectors, and fit into no file
_LARGEST = 1e30
_DEFAULT = {"length": "pixel", "velocity": "pixel/frame"}
# noise of a vector in pixels (Westerweel & Scarano 2005), and the ratio of divergences that casts doubt on the sign of v
_NOISE, _DOUBT = 0.1, 1.5
# vectors of a hole that may be an obstacle
_HOLE = 9


def read_piv(files: list[Path], options: Mapping[str, str]) -> Recording:
    """Velocity fields in files of one format, which their content decides, not their suffix.

    **Arguments:**

    - `files`: in any order; they are taken in that of the numbers in their names.
    - `options`: `pixel`, `frame`, `delay`, `scale` as for every import; `length` and `velocity`, the units where the files
      state none or wrong ones; `flip=v` to negate v; `outliers`, a limit or false; `interpolated=true` to keep such vectors.
    """
    refuse_unknown("piv", options, _OPTIONS)
    for name, valid in {"flip": ("v",), "interpolated": ("true", "false")}.items():
        if options.get(name, valid[0]) not in valid:
            raise PdefitError(f"{name} expects {' or '.join(valid)}, but got '{options[name]}'; correct it")
    files = sorted({*files}, key=lambda file: _natural(str(file)))
    first = _opened(files[0])
    notes = [*first.notes]
    limit = _limit(options.get("outliers", "false" if first.imported else str(LIMIT)))
    scale = scale_of(options)
    if not scale.unknown:
        scale = dataclasses.replace(scale, pixel=scale.pixel or first.pixel, delay=scale.delay or first.delay)
    stated = {"length": first.length_unit, "velocity": first.velocity_unit}
    chosen = {name: options.get(name) or stated[name] or unit for name, unit in _DEFAULT.items()}
    if None in stated.values() and not {*_DEFAULT} <= {*options}:
        taken = " and ".join(chosen.values())
        notes.append(f"The files state no units: {taken} are taken; length=mm velocity=mm/s would name others.")
    try:
        metre, length_unit = scale.length(chosen["length"])
    except PdefitError as error:
        if stated["length"] or "length" in options:
            raise
        raise PdefitError(f"{error}; where they were calibrated, length=mm velocity=mm/s names their units") from None
    # pivpy states the unit of displacements
    per = "/frame" if chosen["velocity"].lower() in ("px", "pix", "pixel", "pixels") else ""
    factor, velocity_unit = scale.velocity(f"{chosen['velocity']}{per}")
    ts, time_unit = _times(files, first, scale, notes)
    if velocity_unit != f"{length_unit}/{time_unit}":
        raise PdefitError(
            f"Velocities are in {velocity_unit}, but positions in {length_unit} and times in {time_unit}; add pixel=LENGTH "
            f"and frame=TIME in place of scale=unknown"
        )
    pair = scale.delay or scale.frame
    noise = _NOISE if velocity_unit == "pixel/frame" else _NOISE * scale.pixel / pair if scale.pixel and pair else None
    axes = dict(zip("xy", (axis * metre for axis in first.axes), strict=True))
    signs = {name: -factor if name == "v" and "flip" in options else factor for name in first.names}

    def frames() -> Iterator[dict[str, np.ndarray]]:
        count, squares, never = Counter[str](), np.zeros(2), np.ones([axis.size for axis in axes.values()], bool)
        for file in files:
            fields = first if file == files[0] else _alike(_opened(file), file, first, files[0])
            for number in range(1 if fields.times is None else fields.times.size):
                field = dict(fields.at(number))
                flag = field.pop("flag", np.full(field["u"].shape, MEASURED))
                field = {name: np.where(np.abs(a) < _LARGEST, a, np.nan) * signs[name] for name, a in field.items()}
                wrong = {"rejected by flags": flag == REJECTED, "interpolated": flag == INTERPOLATED}
                wrong["missing in the files"] = (flag == MEASURED) & np.isnan(field["u"] + field["v"])
                dropped = (flag == REJECTED) | (flag == INTERPOLATED) & (options.get("interpolated") != "true")
                field = {name: np.where(dropped, np.nan, a) for name, a in field.items()}
                if limit is not None:
                    wrong["rejected as outliers"] = outliers(field["u"], field["v"], noise, limit)
                    field = {name: np.where(wrong["rejected as outliers"], np.nan, a) for name, a in field.items()}
                count += Counter({reason: int(np.sum(where)) for reason, where in wrong.items()})
                count += Counter({"all": flag.size, "left": int(np.isfinite(field["u"] + field["v"]).sum())})
                squares += _divergences(field["u"], field["v"], axes)
                never &= np.isnan(field["u"] + field["v"])
                yield field
        notes.extend([*_about(count, squares, options), *_about_holes(never)])

    source = [file.name for file in files]
    units = dict.fromkeys(first.names, velocity_unit)
    return Recording(
        ts, time_unit, axes, length_unit, units, frames(), notes, source, "Velocity fields measured by PIV"
    )


def _natural(text: str) -> list[str | int]:
    """A key that sorts frame2 before frame10."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", text))]


def format_of(file: Path) -> tuple[ModuleType | None, bytes]:
    """The module that reads a file, None for none, and the first bytes of the file."""
    with open(file, "rb") as raw:
        start = raw.read(_HEAD)
    return next((form for form in FORMATS if form.recognises(start)), None), start


def _opened(file: Path) -> Fields:
    """The fields of a file, whose axes must increase."""
    found, start = format_of(file)
    if found is None:
        raise PdefitError(
            f"'{file.name}' is of no format that is known ({'; '.join(form.NAME for form in FORMATS)}); export it as one"
        )
    fields = found.read(file, start)
    for name, axis in zip("xy", fields.axes, strict=True):
        if axis.size < 2 or not np.all(np.abs(axis) < _LARGEST) or not np.all(np.diff(axis) > 0):
            raise PdefitError(f"Positions {name} in '{file.name}' are not two or more different numbers; correct them")
    return fields


def _alike(fields: Fields, file: Path, first: Fields, known: Path) -> Fields:
    """Fields with the raster, units and variables of those in the first file."""
    raster = all(
        a.shape == b.shape and np.all(np.abs(a - b) <= 0.01 * (b[1] - b[0]))
        for a, b in zip(fields.axes, first.axes, strict=True)
    )
    if not raster:
        raise PdefitError(f"'{file.name}' has another raster than '{known.name}'; import files of one raster at a time")
    for name in ("length_unit", "velocity_unit", "time_unit", "names", "pixel", "delay"):
        if (have := getattr(fields, name)) != (want := getattr(first, name)):
            raise PdefitError(f"'{file.name}' has {name} {have}, but '{known.name}' has {want}; import them apart")
    if (fields.times is None) != (first.times is None):
        raise PdefitError(f"Only one of '{known.name}' and '{file.name}' states times; import them apart")
    return fields


def _limit(text: str) -> float | None:
    """The limit of outliers; None for `false`."""
    try:
        limit = None if text == "false" else float(text)
    except ValueError:
        limit = 0.0
    if limit is not None and not limit > 0:
        raise PdefitError(f"outliers expects a number above zero (default {LIMIT:g}) or false, but got '{text}'")
    return limit


def _times(files: list[Path], first: Fields, scale: Scale, notes: list[str]) -> tuple[np.ndarray, str]:
    """Times of all frames with their unit: those of the files, else the numbers of the files."""
    if first.times is None:
        ts, note = frame_numbers(files)
        notes += [] if note is None else [note]
    else:
        others = [_alike(_opened(file), file, first, files[0]).times for file in files[1:]]
        ts = np.concatenate([first.times, *(times for times in others if times is not None)])
    if not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0):
        raise PdefitError(
            "Times must increase from frame to frame and from file to file; correct them or the files' names"
        )
    if first.time_unit == "frame" and scale.frame is None and not scale.unknown:
        pulses = f" (the images of a pair are {scale.delay:g} s apart)" if scale.delay else ""
        raise PdefitError(
            f"The files state no time between frames{pulses}; add frame=TIME (such as 2ms), and pixel=LENGTH where lengths are "
            f"pixels, or scale=unknown"
        )
    factor, unit = scale.time(first.time_unit)
    return ts * factor, unit


def _divergences(u: np.ndarray, v: np.ndarray, axes: Mapping[str, np.ndarray]) -> np.ndarray:
    """Sums of squares of the divergence of (u, v), and of (u, -v)."""
    # positions of a damaged file may be almost the same
    with np.errstate(all="ignore"):
        along, across = np.gradient(u, axes["x"], axis=0), np.gradient(v, axes["y"], axis=1)
        return np.array([np.nansum((along + sign * across) ** 2) for sign in (1, -1)])


def _about(count: Counter[str], squares: np.ndarray, options: Mapping[str, str]) -> list[str]:
    """Sentences on vectors that do not count, and on the sign of v."""
    if not count["left"]:
        raise PdefitError(
            f"No vector of {count['all']} is left: all are missing, or rejected by flags; import what the instrument wrote"
        )
    parts = [f"{count[why] / count['all']:.1%} were {why}" for why in count if why not in ("all", "left")]
    notes = [f"Of {count['all']} vectors {', '.join(parts)}.".replace("%", " %")] if parts else []
    if squares[0] > _DOUBT**2 * squares[1]:
        ratio = np.sqrt(squares[0] / max(squares[1], 1e-30 * squares[0]))
        notes.append(
            f"The divergence is {ratio:.2g} times smaller with v negated; if the flow is incompressible, import it with "
            f"{'no ' if 'flip' in options else ''}flip=v."
        )
    return notes


def _about_holes(never: np.ndarray) -> list[str]:
    """A sentence on regions inside the raster without any vector, as an obstacle leaves them.

    **Arguments:** `never`: where no frame has a vector, (nx, ny).
    """
    labelled: Any = ndimage.label(never)
    sizes = np.bincount(labelled[0].ravel())
    sizes[[0, *(edge for side in (labelled[0], labelled[0].T) for edge in (*side[0], *side[-1]))]] = 0
    if sizes.max() < _HOLE:
        return []
    return [
        f"A region of {sizes.max()} vectors inside is missing at all times; if it is an obstacle, crop a part beside it "
        f"(data.crop), since the equations of flow know none."
    ]
