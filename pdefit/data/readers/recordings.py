"""One of the recordings that a file holds along an axis, and entries of variables, such as a component of a vector."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import too_large
from pdefit.data.readers._coordinates import is_empty, scales
from pdefit.data.readers._deviations import convertible
from pdefit.data.readers._packing import unpacked
from pdefit.data.readers.datasets import (
    OF_SCALES,
    array,
    in_memory,
    is_foreign,
    opened,
    own,
    raw_variable,
    shape,
    sound,
    variable,
)  # fmt: skip

# values of a variable that is left out, unless it is needed
_LARGE = 4_000_000
# in memory, and in the file in memory
_COPIES = 2
# of each recording: the time between frames, the time of frame 0, and the number of frames
_STEP, _OFFSET, _COUNT = "frame_time", "time_offset", "n_frames"
_ENTRY = re.compile(r"(.+)\[([^\[\]]+)\]")


def split_recordings(path: Path, axis: str = "experiment") -> list[str]:
    """The names of the recordings along an axis of a file: its labels, or else numbers from 0.

    **Arguments:**

    - `path`: the file.
    - `axis`: the name of the axis.

    **Errors:** PdefitError where no variable has that axis, or a name repeats or is that of no folder.
    """
    with opened(path) as file:
        return _names(file, path, axis)


def named_part(path: Path, select: Mapping[str, str | int] | None) -> Path:
    """The path of a file with the name of a recording, for errors."""
    chosen = ", ".join(f"{axis} = {which}" for axis, which in (select or {}).items())
    return path.with_name(f"{path.name} ({chosen.replace('/', ' ')})") if chosen else path


def part_of(
    file: h5py.File,
    path: Path,
    select: Mapping[str, str | int],
    values: Iterable[str] = (),
    others: Iterable[str] = (),
    time: str = "",
) -> h5py.File:
    """One recording as a file in memory, with times of its own; the file itself where nothing has to be changed.

    Its last frame is the last one with a time and a value, before `n_frames`. Where the file has no times, or has frame
    numbers for all recordings, `frame_time` is the time between frames. `time_offset` is added to the times.

    **Arguments:**

    - `file`, `path`: an open file, and its place for errors.
    - `select`: for an axis the name of a recording along it, or its number from 0.
    - `values`: names of variables with frames. NAME[ENTRY] is an entry of the last axis, by its label or number from 0.
    - `others`: names of variables without frames, such as a radius.
    - `time`: the variable with the times.
    """
    inside = own(file, path)
    entries = {n: m.groups() for n in (*values, *others) if n not in inside and (m := _ENTRY.fullmatch(n))}
    if not (select or entries or (time and time not in inside and _STEP in inside)):
        return file
    chosen = {axis.lower(): _index(which, _names(file, path, axis), axis) for axis, which in select.items()}
    needed = {time, *values, *others, *(base for base, _ in entries.values())}
    new, held = in_memory(named=not is_foreign(file)), dict[str, _Held]()
    for name in inside:
        axes = axis_labels(file, name, path)
        if name.lower() in chosen or is_empty(raw_variable(file, name, path)):
            continue
        with sound(name, path):
            if raw_variable(file, name, path).dtype.kind not in "iuf":
                if not {*chosen} & {*axes}:
                    file.copy(name, new, name)
                continue
            stored = variable(file, name, path)
            kept = [n for n, dim in zip(stored.shape, axes, strict=True) if dim not in chosen]
            if name not in needed and math.prod(kept) > _LARGE:
                continue
            if size := too_large((*kept, _COPIES)):
                raise PdefitError(f"'{name}' in '{path.name}' takes {size} of memory; write a file for each recording")
            found = np.asarray(stored[tuple(chosen.get(dim, slice(None)) for dim in axes)])
            attributes = {key: value for key, value in stored.attrs.items() if key not in OF_SCALES}
            held[name] = _Held(found, [dim for dim in axes if dim not in chosen], attributes)
    for name, (base, entry) in entries.items():
        if base not in held or not held[base].dims:
            raise unknown(f"variable with entries in '{path.name}'", base, [n for n, h in held.items() if h.dims])
        of = held[base]
        labels = entry_labels(file, base, path) or [str(i) for i in range(of.values.shape[-1])]
        place = _index(entry, labels, f"entry of '{base}'")
        held[name] = of._replace(values=of.values[..., place], dims=of.dims[:-1])
    frames = {n: held[n] for n in values if n in held and held[n].dims}
    if time and frames:
        count = next(iter(frames.values())).values.shape[0]
        shared = time in inside and not {*chosen} & {*axis_labels(file, time, path)}
        _set_times(held, time, count, shared, path)
        if chosen and time in held and held[time].values.shape == (count,):
            last = _last(held, time, frames, path)
            along = {of.dims[0] for of in frames.values()} - {""}
            for name, of in held.items():
                if name in (time, *frames) or along & {*of.dims[:1]}:
                    held[name] = of._replace(values=of.values[:last])
    for name, of in held.items():
        new[name] = of.values
        new[name].attrs.update(of.attributes)
    return new


def check_entries(variables: Mapping[str, str], path: Path) -> None:
    """Refuse an entry for one field whose label is that of another field, as velocity[phi] is for u_theta.

    **Arguments:**

    - `variables`: for each field the variable of the file.
    - `path`: of the file, for errors.
    """
    labels = {field: found[2] for field, name in variables.items() if (found := _ENTRY.fullmatch(name))}
    for field, label in labels.items():
        others = [other for other in labels if other.endswith(label)]
        if others and not field.endswith(label) and not label.isdecimal():
            raise PdefitError(
                f"'{variables[field]}' in '{path.name}' is named for {field}, but seems to be {others[0]}; exchange the names "
                f"in data.variables, or take entries by their number"
            )


class _Held(NamedTuple):
    """A variable of one recording as the file holds it: values, names of its axes, and attributes."""

    values: np.ndarray
    dims: list[str]
    attributes: dict[str, Any]

    @property
    def unit(self) -> str | None:
        return str(self.attributes["units"]) if "units" in self.attributes else None


def _set_times(held: dict[str, _Held], time: str, count: int, shared: bool, path: Path) -> None:
    """Make times from those between frames, where there are no others, and add the time at which a recording begins."""
    step, start = held.get(_STEP), held.get(_OFFSET)
    if step is not None and not step.dims and (time not in held or (shared and held[time].unit in (None, "1"))):
        if not 0 < step.values < np.inf:
            raise PdefitError(
                f"'{_STEP}' in '{path.name}' is {step.values}; write the time between frames of each recording"
            )
        numbers = held[time].values if time in held else np.arange(count)
        held[time] = step._replace(values=step.values * numbers, dims=[time])
    if start is not None and not start.dims and time in held:
        if not np.isfinite(start.values):
            raise PdefitError(f"'{_OFFSET}' in '{path.name}' is {start.values}; write 0 for recordings without one")
        added = convertible(start.unit, held[time].unit, _OFFSET, path).values(np.asarray(start.values, float))
        held[time] = held[time]._replace(values=held[time].values + added)


def _last(held: Mapping[str, _Held], time: str, frames: Mapping[str, _Held], path: Path) -> int:
    """The number of frames up to the last one with a time and a value."""
    known = np.isfinite(held[time].values)
    seen = np.zeros(known.shape, bool)
    for name, of in frames.items():
        found = np.isfinite(unpacked(of.values, of.attributes, f"'{name}' in '{path.name}'"))
        seen |= found.reshape(known.size, -1).any(axis=1)
    most = int(held[_COUNT].values) if _COUNT in held and not held[_COUNT].dims else known.size
    numbers = np.flatnonzero((known & seen)[:most])
    if not numbers.size:
        raise PdefitError(
            f"'{path.name}' has no frame with a time and a value of {', '.join(frames)}; leave that recording out"
        )
    return int(numbers[-1]) + 1


def axis_labels(file: h5py.File, name: str, path: Path) -> list[str]:
    """Names of the axes of a variable in small letters, empty where the file states none."""
    if raw_variable(file, name, path).is_scale and len(shape(file, name, path)) == 1:
        return [name.rpartition("/")[2].lower()]
    labels = [scales(file, name, axis, path)[:1] for axis in range(len(shape(file, name, path)))]
    return [found[0][1] if found else "" for found in labels]


def entry_labels(file: h5py.File, name: str, path: Path) -> list[str]:
    """Texts that a file has for the entries of the last axis of a variable."""
    found = [array(file, where, path) for where, _, _ in scales(file, name, len(shape(file, name, path)) - 1, path)]
    return [*map(str, found[0])] if found and found[0].dtype.kind == "U" else []


def _names(file: h5py.File, path: Path, axis: str) -> list[str]:
    along = {n: axis_labels(file, n, path) for n in own(file, path)}
    lengths = [shape(file, n, path)[dims.index(axis.lower())] for n, dims in along.items() if axis.lower() in dims]
    if not lengths:
        known = {dim for dims in along.values() for dim in dims if dim}
        raise unknown(f"axis of the variables in '{path.name}' (xarray writes the names of axes)", axis, sorted(known))
    labels = next((n for n in along if n.lower() == axis.lower() and not is_empty(raw_variable(file, n, path))), None)
    names = [str(i) for i in range(lengths[0])]
    if labels is not None:
        names = [x if isinstance(x, str) else f"{x:g}" for x in array(file, labels, path)]
    if len({*names}) < len(names) or any(not n.strip(". ") or {"/", "\\", "\0"} & {*n} for n in names):
        raise PdefitError(
            f"'{axis}' in '{path.name}' holds {', '.join(names[:20])}; give each recording a name for a folder"
        )
    return names


def _index(which: str | int, labels: Sequence[str], kind: str) -> int:
    """The place of a label, or of a number from 0."""
    if which in labels:
        return labels.index(str(which))
    if str(which).isdecimal() and int(which) < len(labels):
        return int(which)
    raise unknown(kind, str(which), labels)
