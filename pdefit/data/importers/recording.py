"""A recording of an instrument, and its HDF5 file, written frame by frame."""

import contextlib
import dataclasses
import fcntl
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np

from pdefit._util import atomic
from pdefit._util.errors import PdefitError

# names of files that a recording keeps: an attribute holds 64 kB
_NAMED = 100


@dataclasses.dataclass
class Recording:
    """Frames of an instrument on one raster, with units.

    **Arguments:**

    - `ts`: times of the frames (T,), in `time_unit`.
    - `time_unit`: "s", or "frame" where the scale is unknown.
    - `axes`: positions by dimension, x first, each (n,) and ascending, in `length_unit`.
    - `length_unit`: "m", or "pixel" where the scale is unknown.
    - `units`: unit of each variable, in the order they are written.
    - `frames`: one mapping a frame, arrays of the shape of the axes; NaN means missing.
    - `notes`: sentences about what was done; may grow while the frames are read.
    - `source`: names of the files.
    - `title`: one line about the content.
    - `dtype`: type of the values in the file.
    - `scalars`: numbers beside the frames, such as a radius, each with its unit.
    """

    ts: np.ndarray
    time_unit: str
    axes: dict[str, np.ndarray]
    length_unit: str
    units: dict[str, str]
    frames: Iterable[Mapping[str, np.ndarray]]
    notes: list[str]
    source: list[str]
    title: str = "Measured frames"
    dtype: str = "f4"
    scalars: Mapping[str, tuple[float | np.ndarray, str]] = dataclasses.field(default_factory=dict)


def frame_numbers(files: Sequence[Path]) -> tuple[np.ndarray, str | None]:
    """Numbers of frames by the numbers in the names of their files, and a sentence where those are not consecutive.

    The first frame is 0, and the largest step that all numbers share is one frame. Names that differ in more than one
    number have frames in their order.

    **Arguments:** `files`: one for each frame, in their order.
    """
    names = [re.split(r"(\d+)", file.name) for file in files]
    alike = len({len(words) for words in names}) == 1
    places = [i for i, words in enumerate(zip(*names, strict=True)) if len({*words}) > 1] if alike else []
    stated = [int(words[places[0]]) for words in names] if len(places) == 1 and places[0] % 2 else [*range(len(files))]
    steps = [b - a for a, b in zip(stated, stated[1:], strict=False)]
    one = math.gcd(*steps)
    if min(steps, default=0) <= 0:
        return np.arange(len(files)), None
    numbers = np.array([(number - stated[0]) // one for number in stated])
    if numbers[-1] >= len(files):
        after = files[next(i for i, step in enumerate(steps) if step > one)].name
        return numbers, (
            f"{numbers[-1] + 1 - len(files)} files are missing by the numbers in their names, the first after '{after}'; times "
            f"follow the numbers, so number the files one by one if they are equally far apart."
        )
    return numbers, f"The numbers of the files grow by {one}; frame= is the time between files." if one > 1 else None


def write_recording(path: Path, recording: Recording) -> float:
    """Write a recording frame by frame, and return the missing fraction of its values.

    The file takes its name only when it is whole. Where reading or writing fails, nothing is left. Parts of files that
    killed imports left in its folder are removed.

    **Arguments:**

    - `path`: the HDF5 file.
    - `recording`: with as many frames as times.

    **Errors:** PdefitError where a frame has another shape, or there are more or fewer frames than times.
    """
    shape, count = tuple(a.size for a in recording.axes.values()), recording.ts.size
    missing = total = written = 0
    # what killed imports left: nobody holds its lock
    for left in path.parent.glob(".*.partial.h5"):
        with contextlib.suppress(OSError), open(left, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
    with atomic.beside(path) as neighbour, h5py.File(neighbour, "w") as file:
        scales = {"time": (recording.ts, recording.time_unit)}
        scales |= {dim: (where, recording.length_unit) for dim, where in recording.axes.items()}
        for name, (values, unit) in scales.items():
            scale = file.create_dataset(name, data=np.asarray(values, float))
            scale.attrs["units"] = unit
            scale.make_scale(name)
        for name, (value, unit) in recording.scalars.items():
            file.create_dataset(name, data=value).attrs["units"] = unit
        stored: dict[str, h5py.Dataset] = {}
        for name, unit in recording.units.items():
            stored[name] = kept = file.create_dataset(name, (count, *shape), recording.dtype, chunks=(1, *shape))
            kept.attrs["units"] = unit
            for axis, dim in enumerate(scales):
                kept.dims[axis].attach_scale(file[dim])
        for written, frame in enumerate(recording.frames, start=1):
            if written > count or any(np.shape(frame[name]) != shape for name in recording.units):
                break
            for name in recording.units:
                stored[name][written - 1] = frame[name]
                missing += int(np.isnan(frame[name]).sum())
                total += frame[name].size
        if total != count * int(np.prod(shape)) * len(recording.units) or written != count:
            raise PdefitError(
                f"{count} frames of shape {shape} are expected, but frame {written} differs or is the last; remove the files "
                f"that do not belong to this recording"
            )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        file.attrs["title"], file.attrs["history"] = recording.title, f"{now} pdefit import"
        more = [f"and {len(recording.source) - _NAMED} more"] if len(recording.source) > _NAMED else []
        file.attrs["source"] = "\n".join(recording.source[:_NAMED] + more)
        file.attrs["import_notes"] = "\n".join(recording.notes)
    return missing / max(total, 1)
