"""Positions and standard deviations stated in a file beside the values of a variable."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers.variable import DataFile, Variable
from pdefit.data.units import Conversion, conversion


class Coordinate(NamedTuple):
    """Positions of the points along an axis.

    **Arguments:**

    - `name`: the file's variable with the positions.
    - `values`: the positions, (n,).
    - `unit`: the unit that the file states, if any.
    - `precision`: the relative precision of the stored positions; 0 for integers.
    """

    name: str
    values: np.ndarray
    unit: str | None
    precision: float


def coordinate(
    file: DataFile, name: str, axis: int, dims: Sequence[str | None], named: Mapping[str, str | None]
) -> Coordinate | None:
    """Positions along an axis of a variable; None if the file states none.

    A file states positions in one of two ways: as a dimension scale with the name of the model's axis (or the CF
    attribute `axis` of that name), or as a variable of that name beside the variable that is read.

    **Arguments:**

    - `file`: an open file.
    - `name`: the variable.
    - `axis`: the index of its axis, where 0 is time.
    - `dims`: the model's names of all axes after time; None for a nameless axis.
    - `named`: for some axes the variable with their positions, or None for no comparison.
    """
    dim, count = dims[axis - 1], file[name].shape[axis]
    if dim is None or (dim in named and named[dim] is None):
        return None
    if (source := named.get(dim)) is not None:
        if file[source].shape != (count,):
            raise PdefitError(
                f"'{source}' in '{file.path.name}' has shape {file[source].shape}, but positions along {dim} of '{name}' are "
                f"{count} numbers; correct data.coordinates.{dim}"
            )
        return _read(file[source])
    names = [None if d is None else d.lower() for d in dims]
    for scale in file[name].scales[axis] if file[name].scales else ():
        if scale.label == dim.lower():
            return _read(file[scale.name]) if scale.has_positions and file[scale.name].shape == (count,) else None
        if scale.label in names:
            raise PdefitError(
                f"Axis {axis} of {file[name].where} is {scale.label}, where the model has {dim}; transpose its values to "
                f"(time, {', '.join(str(d) for d in dims)})"
            )
    beside = f"{name.rpartition('/')[0]}/{dim}".strip("/")
    is_there = beside in file and file[beside].shape == (count,) and file[beside].checked().stored.dtype.kind in "iuf"
    return _read(file[beside]) if is_there else None


def _read(variable: Variable) -> Coordinate:
    values, kind = variable.array(), variable.stored.dtype
    if values.dtype.kind != "f" or not np.all(np.isfinite(values)):
        raise PdefitError(f"The positions {variable.where} must be finite numbers; correct them")
    precision = float(np.finfo(kind).eps) if kind.kind == "f" else 0.0
    return Coordinate(variable.name, values, variable.unit, precision)


class Deviations(NamedTuple):
    """Standard deviations of a variable, in the model's unit.

    **Arguments:**

    - `source`: the number, or the file's variable.
    - `alike`: standard deviations common to all frames; None if `source` has them for each frame.
    - `conversion`: the conversion from the unit of `source` to the model's.
    """

    source: str | float
    alike: np.ndarray | None
    conversion: Conversion

    def frames(self, file: DataFile, frames: slice, count: int, values: np.ndarray) -> np.ndarray:
        """Standard deviations of some of the file's `count` frames; arbitrary for missing `values`."""
        if self.alike is not None:
            return self.alike
        assert isinstance(self.source, str)
        found = self.conversion.deviations(file[self.source].array(frames, count))
        return _checked(np.where(np.isnan(found) & np.isnan(values), 1.0, found), self.source, file)


def deviations(
    file: DataFile,
    source: str | float,
    *,
    values: tuple[int, ...],
    stated: str | None,
    expected: str | None,
) -> Deviations:
    """Standard deviations of a variable, checked for shape, unit and sign.

    **Arguments:**

    - `file`: an open file.
    - `source`: a number in the model's unit, or a variable of the file.
    - `values`: the shape of the variable's values, (T, ...).
    - `stated`: the file's unit of the values, which applies to sigma too if sigma has no unit.
    - `expected`: the unit of the model.
    """
    convert = Conversion()
    if isinstance(source, str):
        own, given = file[source].unit, file[source].shape
        by_frame = len(given) == len(values) and given[:1] == values[:1]
        raw = file[source].array(slice(0, 0) if by_frame else None)
        if raw.dtype.kind == "U":
            raise PdefitError(f"sigma in '{file.path.name}' ({source}) is text; numbers are expected")
        convert = convertible(file[source], expected, stated if own in (None, "1") else own)
        if by_frame and _fits(given[1:], values[1:]):
            return Deviations(source, None, convert)
        raw = convert.deviations(raw)
    else:
        try:
            raw = np.asarray(source, float)
        except (TypeError, ValueError, OverflowError):
            raise PdefitError(
                f"sigma expects a number, or a variable of '{file.path.name}', but got {source!r}"
            ) from None
        given = raw.shape
    if not (given == values[1:2] or _fits(given, (1, *values[1:]))):
        raise PdefitError(f"sigma ({source}) has shape {given}, which does not fit values of shape {values}")
    return Deviations(source, _checked(raw, source, file), convert)


def convertible(variable: Variable, expected: str | None, stated: str | None) -> Conversion:
    """Conversion from the stated unit to the model's, or an error that names the variable."""
    try:
        return conversion(stated, expected)
    except PdefitError as error:
        raise PdefitError(f"{variable.where} is in {stated}, but the model expects {expected}; {error}") from None


def _fits(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """True if an array of one shape broadcasts to another shape."""
    try:
        return np.broadcast_shapes(given, wanted) == wanted
    except ValueError:
        return False


def _checked(raw: np.ndarray, source: str | float, file: DataFile) -> np.ndarray:
    if not np.all(np.isfinite(raw)) or np.any(raw <= 0):
        raise PdefitError(f"sigma in '{file.path.name}' ({source}) must be positive and finite everywhere")
    return raw
