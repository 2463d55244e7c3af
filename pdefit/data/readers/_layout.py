"""Order of the axes of variables whose file names none, and lists of points grouped by their times."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import too_large
from pdefit.data.readers.datasets import array, in_memory, is_foreign, own, shape, sound, unit, variable

# copies in memory: as it was read, and with its axes in order
_COPIES = 2
_TIME = "time"


class Arranged(NamedTuple):
    """A file in which time is the first axis of every variable.

    **Arguments:**

    - `file`: the file itself where nothing had to be changed, else one in memory.
    - `remarks`: sentences on what was changed.
    - `points`: the coordinates of a list that was grouped, each with its variable.
    """

    file: h5py.File
    remarks: tuple[str, ...] = ()
    points: Mapping[str, str] = {}


def arranged(
    file: h5py.File,
    path: Path,
    variables: Mapping[str, str],
    sigma: Sequence[str],
    time: str,
    dims: Sequence[str],
    coordinates: Mapping[str, str | None],
    axes: Mapping[str, Sequence[str]],
) -> Arranged:
    """A file with the axes of some variables in the order of the model.

    **Arguments:**

    - `file`, `path`: an open file, and its place for errors.
    - `variables`: names in the file, by field; `sigma` those of standard deviations.
    - `time`: the variable with the times.
    - `dims`: names of the model's axes after time, in their order.
    - `coordinates`: by axis, the variable with its positions; by default the one called as the axis.
    - `axes`: by field, the names of the axes of its variable in the order of the file.
    """
    for field in axes:
        if field not in variables:
            raise unknown("variable (data.axes)", field, variables)
    inside = own(file, path)
    named = {dim: coordinates.get(dim, dim) for dim in (*dims, *coordinates)}
    places = {dim: name for dim, name in named.items() if name is not None and name in inside}
    used = [n for n in dict.fromkeys((*variables.values(), *sigma)) if n in inside]
    listed = _listed(file, path, used, time, places, coordinates)
    if listed:
        return _grouped(file, path, used, sigma, time, listed)
    lengths = {_TIME: shape(file, time, path)} if time in inside else {}
    lengths |= {dim: shape(file, name, path) for dim, name in places.items()}
    known = {dim: of[0] for dim, of in lengths.items() if len(of) == 1}
    orders = {}
    for field, name in variables.items():
        if name in inside and (field in axes or (is_foreign(file) and _TIME in known)):
            found = shape(file, name, path)
            order = (
                _stated(found, axes[field], [*named], field) if field in axes else _matched(found, known, named, field)
            )
            orders |= {name: order} if order is not None else {}
    changed = {n: order for n, order in orders.items() if order != (*range(len(shape(file, n, path))),)}
    if not changed:
        return Arranged(file)
    # standard deviations with the axes of the values, and whatever tells times and positions, go along
    for name, order in [*changed.items()]:
        changed |= {n: order for n in sigma if n in inside and shape(file, n, path) == shape(file, name, path)}
    lines = [n for n in inside if n not in changed and (n == time or n.rpartition("/")[2] in named)]
    remarks = [
        f"The axes of '{n}' were {shape(file, n, path)} in '{path.name}'; they were put into the order "
        f"{tuple(shape(file, n, path)[i] for i in order)}, times first"
        for n, order in changed.items()
    ]
    return Arranged(_copied(file, path, changed, [*used, *places.values(), *lines]), tuple(remarks))


def _stated(found: tuple[int, ...], names: Sequence[str], dims: Sequence[str], field: str) -> tuple[int, ...]:
    """The order of axes from their names."""
    kept = [i for i, n in enumerate(found) if len(names) == len(found) or n != 1]
    if len(kept) != len(names) or len(set(names)) != len(names) or _TIME not in names:
        raise PdefitError(
            f"data.axes.{field} expects a name for each axis of shape {found}, with time among them, e.g. [x, time], but "
            f"got [{', '.join(names)}]"
        )
    first = [_TIME, *(d for d in dims if d in names)]
    return tuple(kept[names.index(n)] for n in (*first, *(n for n in names if n not in first)))


def _matched(
    found: tuple[int, ...], known: Mapping[str, int], dims: Iterable[str], field: str
) -> tuple[int, ...] | None:
    """The order of axes from their lengths; None where none of them has the length of the times."""
    dims = [*dims]
    if known[_TIME] not in found:
        return None
    # axes of length 1 that the model does not have are dropped
    kept = [i for i, n in enumerate(found) if n != 1 or len(found) <= len(dims) + 1]
    wanted = [_TIME, *(d for d in dims if known.get(d) in found)]

    def assignments(names: Sequence[str]) -> list[tuple[int, ...]]:
        ways = itertools.permutations(kept, len(names))
        return [way for way in ways if all(found[i] == known[d] for i, d in zip(way, names, strict=True))]

    ways = assignments(wanted)
    if not ways:
        wanted = [_TIME]
        ways = assignments(wanted)
    if len(ways) != 1:
        lengths = ", ".join(f"{d} has {known[d]}" for d in wanted)
        example = ", ".join([*(d for d in wanted if d != _TIME), _TIME])
        raise PdefitError(
            f"The axes of {field} have the lengths {found}, where {lengths}, so their order is open; state it in the order of "
            f"the file, e.g. +data.axes={{{field}: [{example}]}}"
        )
    # axes of unknown length stand in the order of the file at the places that are left
    place = dict(zip(wanted, ways[0], strict=True))
    rest = iter([i for i in kept if i not in ways[0]])
    order = [i for d in (_TIME, *dims) if (i := place[d] if d in place else next(rest, None)) is not None]
    return (*order, *rest)


def _copied(file: h5py.File, path: Path, orders: Mapping[str, tuple[int, ...]], names: Iterable[str]) -> h5py.File:
    """A file in memory with some variables, those of `orders` with their axes in that order."""
    new = in_memory()
    for name in dict.fromkeys(names):
        with sound(name, path):
            if size := too_large((*shape(file, name, path), _COPIES)):
                raise PdefitError(
                    f"'{name}' in '{path.name}' takes {size} of memory; write it with times as its first axis"
                )
            if name not in orders:
                file.copy(name, new, name)
                continue
            stored, order = variable(file, name, path), orders[name]
            values = np.asarray(stored[()])
            rest = [i for i in range(values.ndim) if i not in order]
            new[name] = values.transpose(*order, *rest).reshape([values.shape[i] for i in order])
            for key in set(stored.attrs) & _KEPT:
                new[name].attrs[key] = stored.attrs[key]
    return new


# attributes of values; those of dimension scales refer to the other file
_KEPT = {
    "units", "unit", "scale_factor", "add_offset", "_FillValue", "missing_value", "valid_min", "valid_max", "valid_range",
    "_Unsigned",
}  # fmt: skip


def _listed(
    file: h5py.File,
    path: Path,
    used: Sequence[str],
    time: str,
    places: Mapping[str, str],
    coordinates: Mapping[str, str | None],
) -> dict[str, str]:
    """The coordinates of a list of points, one row a value; empty for a film or a series."""
    if time not in own(file, path):
        return {}
    rows = shape(file, time, path)
    columns = {d: n for d, n in places.items() if shape(file, n, path) == rows}
    if len(rows) != 1 or not columns or not used or any(shape(file, n, path) != rows for n in used):
        return {}
    ts = array(file, time, path)
    in_order = ts.dtype.kind == "f" and bool(np.all(np.diff(ts) > 0))
    # one value at each time is a series, unless its points were named
    return columns if not in_order or any(coordinates.get(d) for d in columns) else {}


def _grouped(
    file: h5py.File, path: Path, used: Sequence[str], sigma: Sequence[str], time: str, columns: Mapping[str, str]
) -> Arranged:
    """A list as values (times, points) and coordinates, (points,) where those of all times agree; padded with NaN."""
    read = {n: array(file, n, path) for n in dict.fromkeys((time, *used, *columns.values()))}
    wrong = [n for n in (time, *columns.values()) if read[n].dtype.kind != "f" or not np.all(np.isfinite(read[n]))]
    if wrong or any(values.dtype.kind != "f" for values in read.values()):
        raise PdefitError(
            f"Columns of '{path.name}' must be numbers, and finite in {', '.join(wrong) or time}; correct them"
        )
    order = np.lexsort([*(read[n] for n in reversed([*columns.values()])), read[time]])
    ts, starts, counts = np.unique(read[time][order], return_index=True, return_counts=True)
    if size := too_large((ts.size, int(counts.max()), _COPIES * len(read))):
        raise PdefitError(f"The list in '{path.name}' takes {size} of memory by times; cut it into parts")
    row = np.repeat(np.arange(ts.size), counts)
    column = np.arange(row.size) - np.repeat(starts, counts)
    new = in_memory()
    for name, values in read.items():
        # a standard deviation must be positive where nothing was measured, too
        grouped = np.full((ts.size, int(counts.max())), 1.0 if name in sigma else np.nan)
        grouped[row, column] = values[order]
        alike = name in columns.values() and np.all(grouped == grouped[:1])
        new[name] = ts if name == time else grouped[0] if alike else grouped
        if (stated := unit(file, name, path)) is not None:
            new[name].attrs["units"] = stated
    remark = f"'{path.name}' is a list of {row.size} points; they were grouped into {ts.size} times of {counts.max()} at most"
    return Arranged(new, (remark,), columns)
