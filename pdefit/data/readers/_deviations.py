"""Standard deviations of a film's values: one number, one array for all frames, or one for each frame."""

from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers.datasets import array, shape, unit
from pdefit.data.units import Conversion, conversion


class Deviations(NamedTuple):
    """Standard deviations of a variable, in the model's unit.

    **Arguments:**

    - `source`: the number, or the file's variable, that they come from.
    - `alike`: the standard deviations of all frames alike; None where `source` has them for each frame.
    - `conversion`: from the unit of `source` to that of the model.
    """

    source: str | float
    alike: np.ndarray | None
    conversion: Conversion

    def frames(self, file: h5py.File, path: Path, frames: slice, count: int, values: np.ndarray) -> np.ndarray:
        """The standard deviations of some of the file's `count` frames; any where the `values` are missing."""
        if self.alike is not None:
            return self.alike
        assert isinstance(self.source, str)
        found = self.conversion.deviations(array(file, self.source, path, frames, count))
        return _checked(np.where(np.isnan(found) & np.isnan(values), 1.0, found), self.source, path)


def deviations(
    file: h5py.File,
    source: str | float,
    path: Path,
    *,
    values: tuple[int, ...],
    stated: str | None,
    expected: str | None,
) -> Deviations:
    """The standard deviations of a variable, checked for shape, unit and sign.

    **Arguments:**

    - `file`: an open file, and `path` its place, for errors.
    - `source`: a number in the model's unit, or a variable of the file.
    - `values`: the shape of the variable's values, (T, ...).
    - `stated`: the unit that the file states for the values. It is that of sigma too, where sigma has none.
    - `expected`: the unit of the model.
    """
    convert = Conversion()
    if isinstance(source, str):
        own = unit(file, source, path)
        given = shape(file, source, path)
        by_frame = len(given) == len(values) and given[:1] == values[:1]
        raw = array(file, source, path, slice(0, 0) if by_frame else None)
        if raw.dtype.kind == "U":
            raise PdefitError(f"sigma in '{path.name}' ({source}) is text; numbers are expected")
        convert = convertible(stated if own in (None, "1") else own, expected, source, path)
        if by_frame and _fits(given[1:], values[1:]):
            return Deviations(source, None, convert)
        raw = convert.deviations(raw)
    else:
        try:
            raw = np.asarray(source, float)
        except (TypeError, ValueError, OverflowError):
            raise PdefitError(f"sigma expects a number, or a variable of '{path.name}', but got {source!r}") from None
        given = raw.shape
    if not (given == values[1:2] or _fits(given, (1, *values[1:]))):
        raise PdefitError(f"sigma ({source}) has shape {given}, which does not fit values of shape {values}")
    return Deviations(source, _checked(raw, source, path), convert)


def convertible(stated: str | None, expected: str | None, name: str, path: Path) -> Conversion:
    """The conversion from the file's unit to the model's, or an error that names the variable."""
    try:
        return conversion(stated, expected)
    except PdefitError as error:
        raise PdefitError(
            f"'{name}' in '{path.name}' is in {stated}, but the model expects {expected}; {error}"
        ) from None


def _fits(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether an array of one shape broadcasts to another shape."""
    try:
        return np.broadcast_shapes(given, wanted) == wanted
    except ValueError:
        return False


def _checked(raw: np.ndarray, source: str | float, path: Path) -> np.ndarray:
    if not np.all(np.isfinite(raw)) or np.any(raw <= 0):
        raise PdefitError(f"sigma in '{path.name}' ({source}) must be positive and finite everywhere")
    return raw
