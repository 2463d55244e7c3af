"""One of several recordings along an axis of a file, and entries of variables, such as components of a vector."""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit.data.readers._beside_values import convertible
from pdefit.data.readers.open_source import opened_source
from pdefit.data.readers.source import DataSource
from pdefit.data.readers.variable import DataFile, Variable, in_memory, is_empty_scale

# values in which the last frame is looked for at a time
_BLOCK = 4_000_000
# of each recording: the time between frames, the time of frame 0, and the number of frames
_STEP, _OFFSET, _COUNT = "frame_time", "time_offset", "n_frames"
_ENTRY = re.compile(r"(.+)\[([^\[\]]+)\]")


def split_recordings(source: Path | DataSource, axis: str = "experiment") -> list[str]:
    """Names of the recordings along an axis of a file: its labels, or else numbers from 0.

    **Arguments:**

    - `source`: the file, or the source of a long table.
    - `axis`: the name of the axis.

    **Errors:** PdefitError if no variable has that axis, or a name repeats or cannot name a folder.
    """
    with opened_source(source) as file:
        return recording_names(file, axis)


def recording_names(file: DataFile, axis: str) -> list[str]:
    """Names of the recordings along an axis of an open file."""
    along = {n: v.labels for n, v in file.items()}
    lengths = [file[n].shape[dims.index(axis.lower())] for n, dims in along.items() if axis.lower() in dims]
    if not lengths:
        known = {dim for dims in along.values() for dim in dims if dim}
        raise unknown(
            f"axis of the variables in '{file.path.name}' (xarray writes the names of axes)", axis, sorted(known)
        )
    labels = next((n for n in along if n.lower() == axis.lower() and not is_empty_scale(file[n].attributes)), None)
    names = [str(i) for i in range(lengths[0])]
    if labels is not None:
        names = [str(x) if isinstance(x, str) else f"{x:g}" for x in file[labels].array()]
    if len({*names}) < len(names) or any(not n.strip(". ") or {"/", "\\", "\0"} & {*n} for n in names):
        raise PdefitError(
            f"'{axis}' in '{file.path.name}' holds {', '.join(names[:20])}; give each recording a name for a folder"
        )
    return names


def part_of(
    file: DataFile,
    select: Mapping[str, str | int] | None,
    values: Iterable[str] = (),
    others: Iterable[str] = (),
    time: str = "",
) -> DataFile:
    """One recording of a file, with its own times; the file itself if nothing changes.

    Its last frame is the last one with a time and a value, before `n_frames`. If the file has no times, or has common
    frame numbers for all recordings, `frame_time` is the time between frames. `time_offset` is added to the times.

    **Arguments:**

    - `file`: an open file.
    - `select`: for an axis the name of a recording along it, or its index from 0.
    - `values`: names of variables with frames. NAME[ENTRY] is an entry of the last axis, by its label or index from 0.
    - `others`: names of variables without frames, such as a radius.
    - `time`: the variable with the times.
    """
    entries = {n: m.groups() for n in (*values, *others) if n not in file and (m := _ENTRY.fullmatch(n))}
    if not (select or entries or (time and time not in file and _STEP in file)):
        return file
    chosen = {axis.lower(): _index(which, recording_names(file, axis), axis) for axis, which in (select or {}).items()}
    told = ", ".join(f"{axis} = {which}" for axis, which in (select or {}).items()).replace("/", " ")
    path = file.path.with_name(f"{file.path.name} ({told})") if told else file.path
    records = {
        n: _chosen(v, chosen, path)
        for n, v in file.items()
        if n.lower() not in chosen and not is_empty_scale(v.attributes)
    }
    for name, (base, entry) in entries.items():
        known = [n for n, v in records.items() if v.shape and not v.is_text]
        if base in records:
            records[base].checked()
        if base not in known:
            raise unknown(f"variable with entries in '{path.name}'", base, known)
        of = records[base]
        place = _index(entry, entry_labels(file, base), f"entry of '{base}'", of.shape[-1])
        records[name] = dataclasses.replace(of.entry(-1, place), name=name)
    frames = [records[n] for n in values if n in records and records[n].shape and not records[n].is_text]
    if time and frames and not (time in records and records[time].is_text):
        shared = time in file and not {*chosen} & {*file[time].labels}
        _set_times(records, time, frames[0].shape[0], shared)
        if chosen and time in records and records[time].shape == frames[0].shape[:1]:
            last = _last(records, time, frames)
            along = {of.labels[0] for of in frames} - {""}
            for name, of in records.items():
                if name in (time, *values) or (of.shape and of.labels[0] in along):
                    records[name] = of.until(last)
    return DataFile(path, records, records.__getitem__, file.links, file.attributes, file.is_foreign)


def _chosen(variable: Variable, chosen: Mapping[str, int], path: Path) -> Variable:
    """The part of a variable that belongs to a recording."""
    for dim, number in chosen.items():
        if dim in variable.labels:
            variable = variable.entry(variable.labels.index(dim), number)
    return dataclasses.replace(variable, path=path)


def check_entries(variables: Mapping[str, str], path: Path) -> None:
    """Refuse an entry for one field whose label names another field, such as velocity[phi] for u_theta.

    **Arguments:**

    - `variables`: for each field the variable of the file.
    - `path`: the file, for errors.
    """
    labels = {field: found[2] for field, name in variables.items() if (found := _ENTRY.fullmatch(name))}
    for field, label in labels.items():
        others = [other for other in labels if other.endswith(label)]
        if others and not field.endswith(label) and not label.isdecimal():
            raise PdefitError(
                f"'{variables[field]}' in '{path.name}' is named for {field}, but seems to be {others[0]}; exchange the names "
                f"in data.variables, or take entries by their number"
            )


def _set_times(records: dict[str, Variable], time: str, count: int, shared: bool) -> None:
    """Make missing times from the time between frames, and add the start time of a recording."""
    step, start = (_single(records, name) for name in (_STEP, _OFFSET))
    if step is not None and (time not in records or (shared and records[time].unit in (None, "1"))):
        between = step.array()
        if not 0 < between < np.inf:
            raise PdefitError(f"{step.where} is {between}; write the time between frames of each recording")
        numbers = records[time].array() if time in records else np.arange(count)
        records[time] = in_memory(time, step.path, between * numbers, step.unit)
    if start is not None and time in records:
        begin, ts = start.array(), records[time]
        if not np.isfinite(begin):
            raise PdefitError(f"{start.where} is {begin}; write 0 for recordings without one")
        added = convertible(start, ts.unit, start.unit).values(begin)
        records[time] = in_memory(time, start.path, ts.array() + added, ts.unit)


def _single(records: Mapping[str, Variable], name: str) -> Variable | None:
    """A variable with one number; None for other variables."""
    found = records.get(name)
    return None if found is None or found.shape or found.is_text else found


def _last(records: Mapping[str, Variable], time: str, frames: Sequence[Variable]) -> int:
    """Number of frames up to the last one with a time and a value."""
    known = np.isfinite(records[time].array())
    stated = _single(records, _COUNT)
    most = known.size if stated is None else int(stated.array())
    block = max(1, _BLOCK // max(math.prod(frames[0].shape[1:]), 1))
    for stop in range(min(most, known.size), 0, -block):
        part = slice(max(stop - block, 0), stop)
        seen = [
            np.isfinite(of.array(part, known.size)).reshape(part.stop - part.start, -1).any(axis=1) for of in frames
        ]
        numbers = np.flatnonzero(known[part] & np.any(seen, axis=0))
        if numbers.size:
            return part.start + int(numbers[-1]) + 1
    raise PdefitError(
        f"'{frames[0].path.name}' has no frame with a time and a value of {', '.join(of.name for of in frames)}; leave that "
        f"recording out"
    )


def entry_labels(file: DataFile, name: str) -> list[str]:
    """Labels of the entries of the last axis of a variable."""
    scales = file[name].scales[-1] if file[name].scales else ()
    found = [file[scale.name].array() for scale in scales if file[scale.name].is_text][:1]
    return [*map(str, found[0])] if found else []


def _index(which: str | int, labels: Sequence[str], kind: str, count: int | None = None) -> int:
    """Index of a label, or of a number from 0 below the `count` of entries, which may have no labels."""
    if str(which) in labels:
        return labels.index(str(which))
    if str(which).isdecimal() and int(which) < (count or len(labels)):
        return int(which)
    raise unknown(kind, str(which), labels or ([f"0 to {count - 1}"] if count else []))
