"""Axis order of variables without named axes, and lists of points grouped by their times."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit.data.observations import by_times
from pdefit.data.readers.source import DataSource
from pdefit.data.readers.variable import DataFile, Variable, in_memory

_TIME = "time"


class Arranged(NamedTuple):
    """A file in which time is the first axis of every variable.

    **Arguments:**

    - `file`: the file.
    - `remarks`: sentences on the changes.
    - `points`: the coordinates of a grouped list, each with its variable.
    """

    file: DataFile
    remarks: tuple[str, ...] = ()
    points: Mapping[str, str] = {}


def misplaced(ts: np.ndarray, name: str, file: DataFile) -> str:
    """The first wrong time, in words, and the remedy: repeated times may have several causes.

    **Arguments:** `ts`, `name`, `file`: the times, their variable, and its file.
    """
    if ts.ndim != 1 or ts.size == 0:
        axis = file[name].labels[0] if ts.ndim > 1 else ""
        told = f"; name one of the recordings along '{axis}' (data.select={{{axis}: NAME}})"
        return f"their shape is {ts.shape}{told if axis else ''}"
    known = np.isfinite(ts)
    at = int(np.argmin(known)) if not known.all() else int(np.argmax(np.diff(ts) <= 0)) + 1
    before = f", after {ts[at - 1]:g}" if at else ""
    told = f"time {at}, counted from 0, is {ts[at]:g}{before}"
    if known.all() and (key := _restarting(file, ts)):
        return f"{told}; if {key} tells recordings apart, set data.long={{time: {name}, recording: {key}}}"
    points = "; if it lists points, name their coordinates (data.coordinates={x: NAME})" if known.all() else ""
    text = next((column for column, v in file.items() if v.refusal and file.is_foreign), None)
    if points and text:
        points += f"; if '{text}' says what a row measured, or in which recording, name its columns: "
        points += f"data.long={{value: NAME, time: {name}, observable: {text}}}, or recording: {text}"
    return f"sort the file's frames ({told}){points}"


def _restarting(file: DataFile, ts: np.ndarray) -> str:
    """Column that numbers the records in a table whose times restart; empty without one."""
    starts = np.flatnonzero(np.diff(ts) <= 0) + 1
    for name, column in file.items():
        if file.is_foreign and column.refusal is None and column.checked().shape == ts.shape:
            each = np.split(column.array(), starts)
            numbers = {float(x[0]) for x in each if np.all(x == x[0]) and x[0] == np.round(x[0])}
            if len(numbers) == len(each):
                return name
    return ""


def with_times(file: DataFile, source: DataSource, every: float, unit: str | None) -> DataFile:
    """A file without times, with times from 0 added.

    **Arguments:**

    - `file`, `source`: as in `arranged`. Time is the first axis of HDF5; other files need `axes`.
    - `every`, `unit`: the time between frames, and its unit.
    """
    field, name = next(iter(source.variables.items()))
    shape, axes = file[name].checked().shape, source.axes
    at = _stated(shape, axes.get(field, [_TIME]), (), field)[0] if file.is_foreign or field in axes else 0
    return file.replaced({_TIME: in_memory(_TIME, file.path, every * np.arange((*shape, 0)[at]), unit)})


def arranged(file: DataFile, source: DataSource, dims: Sequence[str]) -> Arranged:
    """A file with the axes of some variables in the order of the model.

    **Arguments:**

    - `file`: an open file.
    - `source`: the names of its variables, standard deviations, times and positions.
    - `dims`: the names of the model's axes after time, in their order.
    """
    variables, coordinates, axes, time = source.variables, source.coordinates, source.axes, source.times
    sigma = [name for name in source.deviations.values() if isinstance(name, str)]
    for field in axes:
        if field not in variables and field not in source.system:
            raise unknown("variable (data.axes)", field, variables)
    if time not in file:
        return Arranged(file)
    named = {dim: coordinates.get(dim, dim) for dim in (*dims, *coordinates)}
    places = {dim: name for dim, name in named.items() if name is not None and name in file}
    used = [n for n in dict.fromkeys((*variables.values(), *sigma)) if n in file]
    shapes = {n: file[n].checked().shape for n in (time, *used, *places.values())}
    columns = {dim: n for dim, n in places.items() if shapes[n] == shapes[time]}
    if columns and used and len(shapes[time]) == 1 and all(shapes[n] == shapes[time] for n in used):
        ts = file[time].array()
        # one value at each time is a series, unless its points were named
        if any(coordinates.get(dim) for dim in columns) or ts.dtype.kind != "f" or np.any(np.diff(ts) <= 0):
            return _grouped(file, used, sigma, time, columns)
    lengths = {dim: shapes[n][0] for dim, n in {_TIME: time, **places}.items() if len(shapes[n]) == 1}
    changed = {}
    for field, name in variables.items():
        if name in file and field in axes:
            changed[name] = _stated(shapes[name], axes[field], [*named], field)
        elif name in file and file.is_foreign and lengths.get(_TIME) in shapes[name]:
            changed[name] = _matched(shapes[name], lengths, [*named], field)
    changed = {n: order for n, order in changed.items() if order != (*range(len(shapes[n])),)}
    # standard deviations with the axes of the values go along
    for name, order in [*changed.items()]:
        changed |= {n: order for n in sigma if shapes.get(n) == shapes[name]}
    remarks = [
        f"The axes of '{n}' were {shapes[n]} in '{file.path.name}'; they were put into the order "
        f"{tuple(shapes[n][i] for i in order)}, times first"
        for n, order in changed.items()
    ]
    return Arranged(file.replaced({n: file[n].ordered(order) for n, order in changed.items()}), tuple(remarks))


def _stated(found: tuple[int, ...], names: Sequence[str], dims: Sequence[str], field: str) -> tuple[int, ...]:
    """Axis order from the names of the axes."""
    kept = [i for i, n in enumerate(found) if len(names) == len(found) or n != 1]
    if len(kept) != len(names) or len(set(names)) != len(names) or _TIME not in names:
        raise PdefitError(
            f"data.axes.{field} expects a name for each axis of shape {found}, with time among them, e.g. [x, time], but "
            f"got [{', '.join(names)}]"
        )
    first = [_TIME, *(d for d in dims if d in names)]
    return tuple(kept[names.index(n)] for n in (*first, *(n for n in names if n not in first)))


def _matched(found: tuple[int, ...], lengths: Mapping[str, int], dims: Sequence[str], field: str) -> tuple[int, ...]:
    """Axis order from the lengths of the axes, one of which is the number of times."""
    # axes of length 1 that the model does not have are dropped
    kept = [i for i, n in enumerate(found) if n != 1 or len(found) <= len(dims) + 1]
    known = [_TIME, *(d for d in dims if lengths.get(d) in found)][: len(kept)]
    wanted = [lengths[d] for d in known]
    ways = [way for way in itertools.permutations(kept, len(known)) if [found[i] for i in way] == wanted]
    if len(ways) != 1:
        raise PdefitError(
            f"The axes of {field} have the lengths {found}, where {', '.join(f'{d} has {lengths[d]}' for d in known)}, so "
            f"their order is open; state that of the file, {orders(field, kept, ways, known)}"
        )
    # axes of unknown length stand in the order of the file at the places that are left
    place = dict(zip(known, ways[0], strict=True))
    rest = [i for i in kept if i not in ways[0]]
    order = [place[d] if d in place else rest.pop(0) for d in (_TIME, *dims) if d in place or rest]
    return (*order, *rest)


def orders(key: str, axes: Sequence[int], ways: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """Axis orders in words, in the form of `data.axes`; at most two of them.

    **Arguments:**

    - `key`, `axes`: the field or argument, and the indices of its axes in the order of the file.
    - `ways`: for each order the axes with the `names`.
    """
    named = [dict(zip(way, names, strict=True)) for way in ways[:2]]
    told = [f"+data.axes={{{key}: [{', '.join(of.get(i, f'axis{i}') for i in axes)}]}}" for of in named]
    return " or ".join(told) or "data.axes"


def _grouped(
    file: DataFile, used: Sequence[str], sigma: Sequence[str], time: str, columns: Mapping[str, str]
) -> Arranged:
    """A list as values (times, points) and coordinates, (points,) if constant in time; padded with NaN."""
    read = {n: file[n].array() for n in dict.fromkeys((time, *used, *columns.values()))}
    fixed = [time, *columns.values()]
    if any(v.dtype.kind != "f" for v in read.values()) or not all(np.all(np.isfinite(read[n])) for n in fixed):
        odd = (
            f" ({n}, row {np.argmin(np.isfinite(read[n])) + 1})"
            for n in fixed
            if read[n].dtype.kind == "f" and not np.all(np.isfinite(read[n]))
        )
        raise PdefitError(
            f"Columns of '{file.path.name}' must be numbers, and finite in {', '.join(fixed)}; correct them{next(odd, '')}"
        )
    # points of one time in the order of their coordinates: those of a grid are then the same at all times
    order = np.lexsort([read[n] for n in reversed([*columns.values()])])
    ts, grouped = by_times(read[time][order])
    records = dict[str, Variable]()
    for name, values in read.items():
        # a standard deviation must be positive where nothing was measured, too
        found = ts if name == time else grouped(values[order], 1.0 if name in sigma else np.nan)
        alike = name in columns.values() and np.all(found == found[:1])
        records[name] = in_memory(name, file.path, found[0] if alike else found, file[name].unit)
    frames, most = records[used[0]].shape
    remark = (
        f"'{file.path.name}' is a list of {order.size} points; they were grouped into {frames} times of {most} at most"
    )
    return Arranged(file.replaced(records), (remark,), columns)
