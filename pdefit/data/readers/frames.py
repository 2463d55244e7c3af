"""Frames of a measured film, read a few at a time, and points measured at their own positions."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pdefit._util.errors import PdefitError, unknown, with_space
from pdefit.data.readers._beside_values import Coordinate, Deviations, convertible, coordinate, deviations
from pdefit.data.readers._packing import is_scaled
from pdefit.data.readers.layout import arranged, misplaced, with_times
from pdefit.data.readers.open_source import opened_source
from pdefit.data.readers.recordings import check_entries, part_of
from pdefit.data.readers.source import DataSource, Wanted
from pdefit.data.readers.variable import DataFile, in_memory
from pdefit.data.units import Conversion

# units, times and axes as the file has them
_AS_STORED = Wanted()


class Frames:
    """An open data file whose variables have time as their first axis, or are rearranged so.

    Variables of MATLAB, NumPy and text tables have nameless axes. Their axes are matched to times and positions by
    length, and ordered as (time, axes of the model, others). `remarks` are sentences on that. For a list of points that
    was grouped by times, `points` are the variables with coordinates. `notes` are the notes of `pdefit import`.

    Values and times are in the model's units. NaN means missing, and so do values masked by the file's CF attributes
    (`_FillValue`, `valid_range`, ...); `scale_factor` and `add_offset` are applied. Infinite values are refused.

    A record begins at `start`, even if the first frame comes later, and a single frame's record extends to `stop`.
    These times without observations are `unseen`. A single frame lies after `start` or before `stop`.

    Opening the file checks all times, and that the variables are numbers, have every frame and can be converted. Values
    are read when needed. `ts` are the selected times, and frames are counted from the first of them. `shapes` are the
    shapes of one frame of each field. `unitless` maps variables without a unit in the file to the model's unit, and
    `unused` variables with a unit for which the model has none, to their unit.

    **Arguments:**

    - `source`: the file, its variables, and their times and positions.
    - `wanted`: units, times and axes of the model.
    - `file`: the open file of the source, if it is to stay open.
    - `optional`: whether a variable may be missing, as in one of many recordings; its values are then all NaN.
    """

    def __init__(
        self, source: DataSource, wanted: Wanted = _AS_STORED, *, file: DataFile | None = None, optional: bool = False
    ):
        self.optional, self._crop = optional, tuple(slice(*ends) for ends in source.crop)
        self.variables = variables = source.variables
        units, sigma, time = wanted.units, source.deviations, source.times
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(opened_source(source)) if file is None else file
            errors = [s for s in sigma.values() if isinstance(s, str)]
            check_entries(variables, file.path)
            file = part_of(file, source.select, variables.values(), errors, time if source.every is None else "")
            if source.every is not None:
                file = with_times(file, source, source.every, wanted.time_unit)
            lacking = variables.items() if optional and time in file else ()
            absent = {n: units.get(f) for f, n in lacking if n not in (*file, *file.links)}
            like = np.full(file[time].shape, np.nan) if absent else np.zeros(0)
            file = file.replaced({n: in_memory(n, file.path, like, unit) for n, unit in absent.items()})
            found = arranged(file, source, wanted.dims)
            self.file, self.remarks, self.points = found
            self.notes = file.notes
            self.unitless, self.unused = dict[str, str](), dict[str, str]()
            times = self._times(time, wanted.time_unit)
            # a time that was typed is the nearest number to a frame's, but for round-off
            digits = np.finfo(kind if (kind := self.file[time].stored.dtype).kind == "f" else float).eps
            slack = max(1e-9 * np.ptp(times), digits * np.max(np.abs(times)))
            start, stop = wanted.start, wanted.stop
            inside = np.flatnonzero((times >= start - slack) & (times <= stop + slack))
            late = inside.size > 0 and start < times[inside[0]] - slack
            alone = late and inside.size == 1 and times[inside[0]] + slack < stop
            self.unseen = [t for t, needed in ((start, late), (stop, alone)) if needed and np.isfinite(t)]
            if inside.size + len(self.unseen) < 2:
                raise PdefitError(
                    f"'{self.name}' has {inside.size} frames between {start:g} and {stop:g}; its times run from "
                    f"{times[0]:g} to {times[-1]:g}{self._read_as(time, wanted.time_unit)}; set times.start and times.stop, "
                    f"on both sides of a frame that is meant alone"
                )
            self.ts, self._skipped, self._count = times[inside], int(inside[0]), times.size
            sources = {**dict.fromkeys(variables, 1.0), **sigma}
            sources |= {f: 1.0 for f, n in variables.items() if n in absent}
            self._variables = {
                field: self._variable(name, sources[field], units.get(field)) for field, name in variables.items()
            }
            self._check_crop()
            # no check failed, so the file stays open
            self._open = stack.pop_all()

    def arrays(self, first: int, last: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Values (NaN if missing) and standard deviations of frames first..last-1."""
        if not 0 <= first < last <= self.ts.size:
            raise IndexError(f"Frames below {self.ts.size} are expected, but got {first} to {last}")
        frames = slice(self._skipped + first, self._skipped + last)
        values, sigma = {}, {}
        for field, v in self._variables.items():
            whole = v.conversion.values(self.file[v.name].array(frames, self._count))
            values[field] = whole[(slice(None), *self._crop)]
            self._check_finite(v.name, values[field], first)
            sigma[field] = v.sigma.frames(self.file, frames, self._count, whole)
            if self._crop and sigma[field].ndim == 1:
                # along the first axis after time
                sigma[field] = sigma[field][self._crop[0]]
            elif self._crop and sigma[field].ndim:
                sigma[field] = np.broadcast_to(sigma[field], whole.shape)[(slice(None), *self._crop)]
        return values, sigma

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.file.path.name

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of a frame of each field."""
        whole = {field: self.file[v.name].shape[1:] for field, v in self._variables.items()}
        ends = (*self._crop, *[slice(None)] * max(map(len, whole.values()), default=0))
        return {f: tuple(len(range(n)[e]) for n, e in zip(s, ends, strict=False)) for f, s in whole.items()}

    def _check_crop(self) -> None:
        for v in self._variables.values():
            inside = self.file[v.name].shape[1:]
            fits = len(self._crop) <= len(inside) and all(
                0 <= part.start < part.stop <= n for part, n in zip(self._crop, inside, strict=False)
            )
            if not fits:
                raise PdefitError(
                    f"data.crop expects a first index and one after the last for each axis of '{v.name}' {inside}, e.g. "
                    f"[[1, {inside[0] - 1 if inside else 2}]]"
                )

    def step(self, field: str) -> float | None:
        """Size of one integer step in the model's unit; None for scaled or non-integer variables."""
        variable = self.file[self._variables[field].name]
        if variable.stored.dtype.kind not in "iu" or is_scaled(variable.attributes):
            return None
        return float(self._variables[field].conversion.deviations(np.ones(())))

    def coordinate(
        self, field: str, axis: int, dims: Sequence[str | None], named: Mapping[str, str | None], expected: str | None
    ) -> Coordinate | None:
        """Positions of the points along an axis of a field, in the model's unit.

        **Arguments:**

        - `field`: the field.
        - `axis`, `dims`, `named`: as in `pdefit.data.readers._beside_values.coordinate`.
        - `expected`: the model's unit of length.
        """
        found = coordinate(self.file, self._variables[field].name, axis, dims, named)
        if found is None:
            return None
        self._note_unit(found.name, found.unit, expected)
        convert = convertible(self.file[found.name], expected, found.unit)
        wanted = self._crop[axis - 1] if axis <= len(self._crop) else slice(None)
        return found._replace(values=convert.values(found.values)[wanted])

    def positions(
        self, dims: Sequence[str], named: Mapping[str, str | None], expected: Mapping[str, str]
    ) -> dict[str, np.ndarray]:
        """Coordinates of the points of every field, (n, d) or (time, n, d), in the model's unit; NaN for missing points.

        **Arguments:**

        - `dims`: the names of the d coordinates.
        - `named`: for some coordinates the variable that holds them; by default the variable of the same name.
        - `expected`: for each coordinate the model's unit.
        """
        found = {}
        for field, inside in self.shapes.items():
            if len(inside) != 1:
                raise PdefitError(
                    f"'{self.variables[field]}' in '{self.name}' has frames of shape {inside}; values at points are expected, "
                    f"one axis after time"
                )
            columns = [self._column(field, named.get(d) or d, inside[0], expected.get(d, "1")) for d in dims]
            found[field] = np.stack(np.broadcast_arrays(*columns), axis=-1)
        return found

    def _column(self, field: str, name: str, count: int, expected: str) -> np.ndarray:
        """One coordinate of the points of a field, (n,) or (time, n)."""
        stored = self.file[name]
        given = stored.shape
        if given not in ((count,), (self._count, count)):
            raise PdefitError(
                f"{stored.where} has shape {given}, but {field} was measured at {count} points; positions of "
                f"shape {(count,)} or {(self._count, count)} are expected"
            )
        values = stored.array()
        if values.dtype.kind == "U":
            raise PdefitError(f"The positions {stored.where} are text; numbers are expected")
        self._note_unit(name, stored.unit, expected)
        values = convertible(stored, expected, stored.unit).values(values)
        return values if len(given) == 1 else values[self._skipped : self._skipped + self.ts.size]

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> "Frames":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _times(self, name: str, expected: str | None) -> np.ndarray:
        """All times, in the model's unit."""
        if name not in self.file:
            told = unknown(f"variable with times (data.time) in '{self.name}'", name, self.file)
            raise PdefitError(f"{told} If there are no times, state the time between frames: data.time=0.1.")
        stored, where = self.file[name], f"'{self.name}' ({name})"
        ts = stored.array()
        if ts.dtype.kind == "U":
            raise PdefitError(f"Times in {where} are text; numbers in the model's time unit are expected")
        if ts.ndim != 1 or ts.size == 0 or not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0):
            raise PdefitError(f"Times in {where} must be finite and increase; {misplaced(ts, name, self.file)}")
        self._note_unit(name, stored.unit, expected)
        return convertible(stored, expected, stored.unit).values(ts)

    def _note_unit(self, name: str, stated: str | None, expected: str | None) -> None:
        if stated in (None, "", "1") and expected not in (None, "", "1"):
            self.unitless[name] = expected
        elif expected == "1" and stated not in (None, "", "1", "%", "percent"):
            self.unused[name] = stated

    def _check_finite(self, name: str, values: np.ndarray, first: int) -> None:
        infinite = np.isinf(values).reshape(len(values), -1).any(axis=1)
        if infinite.any():
            frame = first + int(np.argmax(infinite))
            raise PdefitError(
                f"'{name}' in '{self.name}' is infinite in frame {self._skipped + frame} (the first is 0), at time "
                f"{self.ts[frame]:g}; write NaN where a value is missing"
            )

    def _read_as(self, name: str, expected: str | None) -> str:
        """The unit of the times: the model's, or the file's if the model has none."""
        return with_space(expected or "1") or with_space(self.file[name].unit or "1")

    def _variable(self, name: str, sigma: str | float, expected: str | None) -> "_Variable":
        """A variable and its standard deviations, whose values are not read yet."""
        stored = self.file[name]
        if stored.array(slice(0, 0), self._count).dtype.kind == "U":
            raise PdefitError(f"{stored.where} is text; numbers are expected")
        self._note_unit(name, stored.unit, expected)
        of = deviations(self.file, sigma, values=stored.shape, stated=stored.unit, expected=expected)
        return _Variable(name, convertible(stored, expected, stored.unit), of)


class _Variable(NamedTuple):
    name: str
    conversion: Conversion
    sigma: Deviations
