"""A recording of an instrument, written to an HDF5 file frame by frame."""

import contextlib
import dataclasses
import fcntl
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np

from pdefit._util import atomic
from pdefit._util.errors import PdefitError

# names of files that a recording lists: an attribute holds 64 kB
_NAMED = 100


@dataclasses.dataclass
class Recording:
    """Frames of an instrument on one grid, with units.

    **Arguments:**

    - `axes`: ascending positions along every axis of the arrays in the file, and their unit. The first axis is "time"
      in "s", or in "frame" if the scale is unknown. Lengths are in "m", or in "pixel".
    - `units`: the unit of each variable, in the order of writing.
    - `frames`: one mapping for each time, with arrays of the shape of the other axes; NaN means missing.
    - `notes`: sentences about the processing; the list may grow while the frames are read.
    - `source`: the names of the files.
    - `title`: one line about the content.
    - `dtype`: the type of the values in the file.
    - `packing`: attributes of packed variables, such as `scale_factor`.
    - `scalars`: further numbers, such as a radius, each with its unit.
    """

    axes: dict[str, tuple[np.ndarray, str]]
    units: dict[str, str]
    frames: Iterable[Mapping[str, np.ndarray]]
    notes: list[str]
    source: list[str]
    title: str
    dtype: str = "f4"
    packing: Mapping[str, float] = dataclasses.field(default_factory=dict)
    scalars: Mapping[str, tuple[float | np.ndarray, str]] = dataclasses.field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of frames, and of positions along the other axes."""
        return tuple(values.size for values, _ in self.axes.values())


def frame_numbers(files: Sequence[Path]) -> tuple[np.ndarray, list[str]]:
    """Frame numbers from the numbers in file names, with remarks on missing numbers.

    The first frame is 0, and the greatest common step of all numbers is one frame. If names differ in more than one
    number, frames are counted in their order.

    **Arguments:** `files`: one for each frame, in order.
    """
    names = [re.split(r"(\d+)", file.name) for file in files]
    alike = len({len(words) for words in names}) == 1
    places = [i for i, words in enumerate(zip(*names, strict=True)) if len({*words}) > 1] if alike else []
    if len(places) != 1 or places[0] % 2 == 0:
        return np.arange(len(files)), []
    # Python's numbers, since names may hold more digits than those of arrays
    stated = [int(words[places[0]]) for words in names]
    steps = [b - a for a, b in itertools.pairwise(stated)]
    if min(steps) <= 0:
        return np.arange(len(files)), []
    one = math.gcd(*steps)
    numbers = np.array([(number - stated[0]) // one for number in stated], float)
    if numbers[-1] >= len(files):
        after = files[next(i for i, step in enumerate(steps) if step > one)].name
        lost = numbers[-1] + 1 - len(files)
        return numbers, [
            f"{'1 file is' if lost == 1 else f'{lost:.0f} files are'} missing by the numbers in their names, the first after "
            f"'{after}'; times follow the numbers, so number the files one by one if they are equally far apart."
        ]
    return numbers, [f"The numbers of the files grow by {one}; frame= is the time between files."] if one > 1 else []


def write_recording(path: Path, recording: Recording) -> float:
    """Write a recording frame by frame; returns the largest missing fraction of any variable.

    The file gets its name only when it is complete. If reading or writing fails, nothing is left. Temporary files of
    killed imports in its folder are removed.

    **Arguments:**

    - `path`: the HDF5 file.
    - `recording`: with as many frames as times.

    **Errors:** PdefitError if a frame has another shape, or if the numbers of frames and times differ.
    """
    count, *shape = recording.shape
    missing, written, fits = dict.fromkeys(recording.units, 0), 0, True
    # what killed imports left: nobody holds its lock
    for left in path.parent.glob(f".*.partial{path.suffix}"):
        with contextlib.suppress(OSError), open(left, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
    with atomic.beside(path) as neighbour, h5py.File(neighbour, "w") as file:
        for name, (values, unit) in {**recording.axes, **recording.scalars}.items():
            number = file.create_dataset(name, data=np.asarray(values, float))
            number.attrs["units"] = unit
            if name in recording.axes:
                number.make_scale(name)
        stored: dict[str, h5py.Dataset] = {}
        for name, unit in recording.units.items():
            stored[name] = file.create_dataset(name, recording.shape, recording.dtype, chunks=(1, *shape))
            stored[name].attrs.update({"units": unit, **recording.packing})
            for axis, dim in enumerate(recording.axes):
                stored[name].dims[axis].attach_scale(file[dim])
        for written, frame in enumerate(recording.frames, start=1):
            fits = written <= count and all(np.shape(frame[name]) == (*shape,) for name in recording.units)
            if not fits:
                break
            for name, variable in stored.items():
                variable[written - 1] = frame[name]
                missing[name] += int(np.count_nonzero(np.isnan(frame[name])))
        if not fits or written != count:
            raise PdefitError(
                f"{count} frames of shape {(*shape,)} are expected, but frame {written} differs or is the last; remove the "
                f"files that do not belong to this recording"
            )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        more = [f"and {len(recording.source) - _NAMED} more"] if len(recording.source) > _NAMED else []
        file.attrs["title"], file.attrs["history"] = recording.title, f"{now} pdefit import"
        file.attrs["source"] = "\n".join(recording.source[:_NAMED] + more)
        file.attrs["import_notes"] = "\n".join(recording.notes)
    return max(missing.values()) / max(count * math.prod(shape), 1)
