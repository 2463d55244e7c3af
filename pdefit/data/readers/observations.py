"""Observations from a measured file: all of them, or a few frames at a time."""

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.odd_values import about_first_frame
from pdefit.data.readers.open_source import opened_source
from pdefit.data.readers.recordings import part_of
from pdefit.data.readers.source import DataSource, source_of

log = logging.getLogger("pdefit")
_Arrays = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def read_observations(
    source: DataSource | str | Path,
    variables: Mapping[str, str] | None = None,
    *,
    points: bool = False,
    length_unit: str | None = None,
    **named: Any,
) -> Observations:
    """A whole film from a file as `Observations`, in memory: HDF5, NetCDF-4, .mat, .npz or .csv.

    In HDF5, time is the first axis of every variable. Axes of other files are matched by their lengths. A table with
    one row per value, whose times repeat, is grouped by them. NaN means missing, and so do values masked by the file's
    CF attributes (`_FillValue`, `valid_range`). `scale_factor` and `add_offset` are applied. Suspicious values are
    logged as a warning. Positions are not compared with a model's; the command line does that.

    **Arguments:**

    - `source`: a `DataSource`, or its file: from the working directory, from $PDEFIT_DATA, or among the data shipped
      with pdefit.
    - `variables`: for each field of the model the variable of the file.
    - `points`: whether the coordinates belong to points, one for each value of a frame; default False, for a grid.
    - `length_unit`: the model's unit of length, to which coordinates of points are converted.
    - `named`: further entries of the `DataSource` and of `Wanted`:
        - `sigma`: for a field its standard deviation (default 1): a number in the model's unit, or the name of a variable.
        - `time`: the variable with the times; default "time". If the file has no times, the time between its frames.
        - `coordinates`: for each axis of the model, in order, the variable with its positions. It settles the order of
          axes in files without axis names; by default they follow time in the given order.
        - `axes`: for a field the names of its axes in the order of the file, e.g. `{"u": ["x", "time"]}`, if their
          lengths leave the order open.
        - `crop`: for each axis after time the first index taken, and the one after the last.
        - `select`: for an axis of recordings, the name or the index of the recording to read.
        - `units`: the model's unit of each field, to which values are converted; by default there is no conversion.
        - `time_unit`: the model's unit of time, to which times are converted.
        - `start`, `stop`: the first and the last time wanted, in the model's unit; by default the times of the first
          and the last frame. The record begins at `start` even if the first frame comes later: nothing is observed
          before it.
    """
    source, wanted = source_of(source, variables, **named)
    if points and not source.coordinates:
        raise PdefitError("points expects coordinates, e.g. coordinates={'x': 'x'}")
    axes = [*source.coordinates]
    with Frames(source, wanted) as frames:
        where = frames.positions(axes, source.coordinates, dict.fromkeys(axes, length_unit or "1")) if points else None
        found, remarks = read_all(frames, where)
    for remark in remarks:
        log.warning(remark)
    return found


def read_all(frames: Frames, positions: Mapping[str, np.ndarray] | None = None) -> tuple[Observations, list[str]]:
    """All frames, and remarks on suspicious values.

    Remarks are the notes of `pdefit import`, and sentences about rearranged axes, missing and unused units, and
    integers with a sigma below 1.

    **Arguments:**

    - `frames`: the file.
    - `positions`: for fields measured at points, their coordinates, (n, d) or (T, n, d); NaN excludes a value.
    """
    values, errors = frames.arrays(0, frames.ts.size)
    for field, where in (positions or {}).items():
        values[field] = np.where(np.all(np.isfinite(where), axis=-1), values[field], np.nan)
    remarks = [*frames.notes, *frames.remarks]
    empty = [field for field, value in values.items() if not np.any(np.isfinite(value))]
    if frames.optional and 0 < len(empty) < len(values):
        remarks.append(f"'{frames.name}' has no value of {', '.join(empty)}, so the fit compares none there")
    elif empty:
        raise PdefitError(
            f"All values of '{frames.variables[empty[0]]}' in '{frames.name}' are missing (NaN), or fill values, or outside "
            f"of the valid range; name another variable, or correct its attributes"
        )
    for field, value in [(field, x) for field, x in values.items() if field not in empty]:
        if not positions and value.ndim > 1:
            remarks += about_first_frame(frames.variables[field], value)
        step, largest = frames.step(field), float(np.nanmax(np.abs(value)))
        if step is not None and np.max(errors[field]) < step < largest:
            remarks.append(
                f"'{frames.variables[field]}' in '{frames.name}' holds whole numbers up to {largest / step:g} without a scale "
                f"(scale_factor), but sigma of {field} is {np.max(errors[field]):g}, less than one of them; give the file a "
                f"scale, or sigma and the model in counts"
            )
    remarks += about_units(frames)
    found = Observations.build(frames.ts, values, errors, positions)
    for t in frames.unseen:
        found = found.with_nothing_at(t)
    return found, remarks


def read_arrays(
    source: Path | DataSource, names: Mapping[str, str], select: Mapping[str, str | int] | None = None
) -> dict[str, np.ndarray]:
    """Arrays that belong to the system and not to the film, such as a radius, reference parameters and labels.

    Numbers are in the unit of the file, and axes in its order; the command line converts both to the system's.

    **Arguments:**

    - `source`: the file, or the source of a long table.
    - `names`: for each key of the result the variable of the file. NAME[ENTRY] is one of its entries.
    - `select`: for an axis of recordings, the name of one of them, or its index from 0.
    """
    if not names:
        return {}
    with opened_source(source) as file:
        part = part_of(file, select, others=names.values())
        found = {key: part[name].array() for key, name in names.items()}
    for key, value in found.items():
        if select and value.dtype.kind == "f" and not np.all(np.isfinite(value)):
            raise PdefitError(f"{part[names[key]].where} is missing (NaN); write it for every recording")
    return found


def about_units(frames: Frames) -> list[str]:
    """Remarks on variables without a unit, and on variables with a unit that the model lacks."""
    remarks = []
    if frames.unitless and (remedy := frames.file.unit_remedy):
        names, units = (", ".join(x) for x in (frames.unitless, frames.unitless.values()))
        remarks.append(f"'{frames.name}' states no unit for {names}; the model's are taken: {units} ({remedy})")
    if frames.unused:
        stated = ", ".join(f"{name} ({unit})" for name, unit in frames.unused.items())
        remarks.append(
            f"'{frames.name}' states units of {stated}, but the model has none there; the numbers are taken as they are, so "
            f"parameters are in these units (give the model units, or the file numbers without)"
        )
    return remarks


class TargetFile:
    """Frames of an open file as `Observations`, for films that do not fit into memory.

    Besides the frames that the caller holds, a thread reads one slice ahead. Values are checked when they are read;
    times were checked when the frames were opened. A frame, or a whole slice, without any finite value is masked.
    Records that begin before the first frame are not supported. Closing this object closes the frames.
    """

    def __init__(self, frames: Frames):
        self._frames = frames
        self._ahead: tuple[tuple[int, int], Future[_Arrays]] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="targets")

    @property
    def ts(self) -> np.ndarray:
        """Times of all frames."""
        return self._frames.ts

    def read(self, first: int, last: int) -> Observations:
        """Observations in frames first..last-1."""
        self.prefetch(first, last)
        assert self._ahead is not None
        (_, arrays), self._ahead = self._ahead, None
        # built by the caller: where arrays go is a setting of its thread
        return Observations.build(self.ts[first:last], *arrays.result())

    def prefetch(self, first: int, last: int) -> None:
        """Start to read frames first..last-1. Frames read ahead earlier and not taken are dropped."""
        if self._ahead is not None and self._ahead[0] == (first, last):
            return
        if self._ahead is not None:
            self._ahead[1].cancel()
        self._ahead = (first, last), self._worker.submit(self._frames.arrays, first, last)

    def close(self) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._ahead = None
        self._frames.close()

    def __enter__(self) -> "TargetFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
