"""The frames of a laboratory's film, some at a time."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdefit.errors import PdefitError, unknown, with_space
from pdefit.files.datasets import array, opened, shape, unit
from pdefit.files.deviations import Deviations, convertible, deviations
from pdefit.files.units import Conversion


class Frames:
    """An open HDF5 (or NetCDF-4) file whose variables have time as their first axis; NaN means missing.

    Opening it checks all times, and that the variables are numbers, have every frame and can be converted. Values are read
    when they are asked for. `ts` are the times wanted; frames are counted from the first of them.

    **Arguments:** `variables` from field names to the file's variables; `sigma` for a field, a number or a variable: (n,)
    matching the first axis after time, broadcastable to a frame, or with a time axis of its own; `units` the model's for
    each field and `time_unit` for the time; `start`, `stop` the times wanted. Values and times come out in the model's
    units, and so does a sigma from the file (in its own unit, or its variable's); numbers given here are in the model's
    units already.
    """

    def __init__(
        self,
        path: Path,
        variables: Mapping[str, str],
        *,
        sigma: Mapping[str, str | float] | None = None,
        units: Mapping[str, str] | None = None,
        time_unit: str | None = None,
        time: str = "time",
        start: float = -np.inf,
        stop: float = np.inf,
    ):
        self._path = path
        for field in sigma or {}:
            if field not in variables:
                raise unknown("variable (sigma)", field, variables)
        with contextlib.ExitStack() as stack:
            self._file = stack.enter_context(opened(path))
            times = self._times(time, time_unit)
            wanted = np.flatnonzero((times >= start) & (times <= stop))
            if wanted.size < 2:
                raise PdefitError(
                    f"'{path.name}' has {wanted.size} frames between {start:g} and {stop:g}; its times run from "
                    f"{times[0]:g} to {times[-1]:g}{self._read_as(time, time_unit)}; set times.start and times.stop"
                )
            self.ts, self._skipped, self._count = times[wanted], int(wanted[0]), times.size
            sources = {**dict.fromkeys(variables, 1.0), **(sigma or {})}
            self._variables = {
                field: self._variable(name, sources[field], (units or {}).get(field))
                for field, name in variables.items()
            }
            # everything is as it should be: the file stays open
            self._open = stack.pop_all()

    def arrays(self, first: int, last: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Values, NaN where missing, and standard deviations of frames first..last-1."""
        if not 0 <= first < last <= self.ts.size:
            raise IndexError(f"Frames below {self.ts.size} are expected, but got {first} to {last}")
        frames = slice(self._skipped + first, self._skipped + last)
        values, sigma = {}, {}
        for field, v in self._variables.items():
            values[field] = v.conversion.values(array(self._file, v.name, self._path, frames, self._count))
            sigma[field] = v.sigma.frames(self._file, self._path, frames, self._count)
        return values, sigma

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> "Frames":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _times(self, name: str, expected: str | None) -> np.ndarray:
        """All times, in the model's unit."""
        ts, where = array(self._file, name, self._path), f"'{self._path.name}' ({name})"
        if ts.dtype.kind == "U":
            raise PdefitError(f"Times in {where} are text; numbers in the model's time unit are expected")
        if ts.ndim != 1 or ts.size == 0 or not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0):
            raise PdefitError(f"Times in {where} must be finite and increase; sort the file's frames")
        return convertible(unit(self._file, name, self._path), expected, name, self._path).values(ts)

    def _read_as(self, name: str, expected: str | None) -> str:
        """In what the times are counted: the model's unit, and where it has none, that of the file."""
        return with_space(expected or "1") or with_space(unit(self._file, name, self._path) or "1")

    def _variable(self, name: str, sigma: str | float, expected: str | None) -> "_Variable":
        """A variable and its deviations, whose values are not read yet."""
        if array(self._file, name, self._path, slice(0, 0), self._count).dtype.kind == "U":
            raise PdefitError(f"'{name}' in '{self._path.name}' is text; numbers are expected")
        stated, values = unit(self._file, name, self._path), shape(self._file, name, self._path)
        return _Variable(
            name,
            convertible(stated, expected, name, self._path),
            deviations(self._file, sigma, self._path, values=values, stated=stated, expected=expected),
        )


class _Variable(NamedTuple):
    name: str
    conversion: Conversion
    sigma: Deviations
