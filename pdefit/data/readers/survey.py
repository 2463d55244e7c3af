"""Survey of a data file: what it holds, and what a fit would find in it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import h5py
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers._coordinates import scales
from pdefit.data.readers._films import ANGLES as ANGLES
from pdefit.data.readers._films import AXES as AXES
from pdefit.data.readers._films import Film as Film
from pdefit.data.readers._films import read_film
from pdefit.data.readers.datasets import array, import_notes, is_foreign, is_text, opened, own, shape, unit, variable
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.recordings import axis_labels, entry_labels, split_recordings

# most values of a variable without times that are read
_SMALL = 4_000_000
# spacings that differ by less than this fraction count as even; a larger gap than this many spacings lacks frames
_EVEN, _GAP = 1e-3, 1.9
T = TypeVar("T")
_TIMES = ("t", "times", "date", "timestamp", "year")
# names of an axis of recordings; others are taken for one where more than times follow
_RECORDINGS = ("experiment", "recording")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A variable as the file holds it.

    **Arguments:**

    - `name`, `shape`, `dtype`: of the variable; dtype in words.
    - `unit`: as the file states it; None without one.
    - `low`, `high`, `missing`: range of its values, and the fraction that is missing; None where they were not read.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    unit: str | None
    low: float | None = None
    high: float | None = None
    missing: float | None = None


@dataclasses.dataclass(frozen=True)
class Survey:
    """Content of a file, and remarks on what looks odd.

    **Arguments:**

    - `path`: of the file.
    - `entries`: all its variables.
    - `time`, `ts`, `time_unit`: name of the variable with the times, its values (T,), empty where there are none, and
      its unit.
    - `films`: what can be fitted.
    - `remarks`: sentences, the remedy included.
    - `notes`: sentences of `pdefit import` on what it did.
    - `axis`, `recordings`: the axis along which the file has recordings, and their names; empty for one recording. `ts` and
      `films` are then those of the first.
    - `named`: variables that were named as the coordinates of points, by axis.
    """

    path: Path
    entries: list[Entry]
    time: str
    ts: np.ndarray
    time_unit: str | None
    films: list[Film]
    remarks: list[str]
    notes: list[str]
    axis: str = ""
    recordings: tuple[str, ...] = ()
    named: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def frames(
        self, names: Sequence[str], dims: tuple[str, ...] = AXES, sigma: Mapping[str, str] | None = None
    ) -> Frames:
        """The frames of some variables, in the units of the file."""
        variables, select = {name: name for name in names}, self.select(0)
        return Frames(
            self.path, variables, sigma=sigma, time=self.time, dims=dims, select=select, coordinates=self.named
        )

    def select(self, number: int) -> dict[str, str | int]:
        """The choice of a recording by its number; empty where there is one."""
        return {self.axis: self.recordings[number]} if self.recordings else {}


def survey(path: Path, time: str | None = None, named: Mapping[str, str] | None = None) -> Survey:
    """Survey of a data file.

    **Arguments:**

    - `path`: the file.
    - `time`: the variable with the times; by default the one called `time`, or one that looks like it.
    - `named`: variables with the coordinates of a list of points, by axis; by default those called as the axis.

    **Errors:** PdefitError where the file cannot be opened.
    """
    remarks: list[str] = []
    entries: dict[str, Entry] = {}
    with opened(path) as file:
        for name in own(file, path):
            _attempt(remarks, lambda name=name: entries.update({name: _entry(file, name, path)}))
        remarks += _links(file)
        foreign, notes = is_foreign(file), _attempt(remarks, lambda: import_notes(file, path)) or []
        time = time or _likely_time(file, entries, path)
        scaled = _attempt(remarks, lambda: {n for e in entries for n in _labels(file, e, path)}) or set()
        axes = _attempt(remarks, lambda: {n: axis_labels(file, n, path) for n in entries}) or {}
        vectors = _attempt(remarks, lambda: {n: entry_labels(file, n, path) for n in entries if entries[n].shape}) or {}
    rows = entries[time].shape if time in entries else (0,)
    axis = next((dims[0] for n, dims in axes.items() if _has_recordings(entries[n], dims, time, rows)), "")
    names = (_attempt(remarks, lambda: split_recordings(path, axis)) or []) if axis else []
    named = named or {}
    found = Survey(path, [], time, np.zeros(0), None, [], remarks, notes, axis, tuple(names), named)
    # the phase of a film that pdefit wrote is that of a frame
    scaled |= {*named.values(), *({"n_done", "phase"} if {"n_done", "phase"} <= {*entries} else ())}
    filmed = {
        n: _parts(n, axes[n], vectors.get(n, [])) for n in axes if _has_recordings(entries[n], axes[n], time, rows)
    }
    # the times of a list are known once one of its columns is
    columns = [
        e.name
        for e in entries.values()
        if e.shape == rows and e.low is not None and e.name not in (*AXES, time, *named.values())
    ]
    columns = [part for n in filmed for part in filmed[n]] if names else columns
    times = _attempt(remarks, lambda: _times(found, columns[:1]))
    ts = np.zeros(0) if times is None else times
    stated = (time, "frame_time") if names else (time,)
    time_unit = next((entries[n].unit for n in stated if n in entries and entries[n].unit is not None), None)
    remarks += [] if times is None else _about_times(ts, time)
    found = dataclasses.replace(found, ts=ts, time_unit=time_unit)
    for name, entry in entries.items():
        if ts.size and name != time and name not in scaled and entry.dtype != "text":
            has_times = {*rows} <= {*entry.shape} if foreign else entry.shape[:1] == rows
            if name in filmed or (has_times and not names and name.rpartition("/")[2] not in AXES):
                parts = filmed.get(name) or _parts(name, axes.get(name, []), vectors.get(name, []))
                dims = ANGLES if {*ANGLES} <= {*axes.get(name, [])} else AXES
                looked = [_attempt(remarks, lambda p=p, e=entry, d=dims: _look(found, e, p, d, entries)) for p in parts]
                entries[name] = entry if names or looked[0] is None or len(looked) > 1 else looked[0]
            elif len(entry.shape) > 1 and ts.size in entry.shape[1:] and not names:
                remarks.append(
                    f"'{name}' in '{path.name}' has shape {entry.shape}; its first axis must be the {ts.size} times, so "
                    f"name its axes, e.g. +data.axes={{u: [x, time]}}"
                )
    remarks += _refused_recordings(found)
    filmed_names = dict.fromkeys(f.name if f.name in entries else f.name.rpartition("[")[0] for f in found.films)
    unitless = [name for name in filmed_names if entries[name].unit is None]
    unitless += [time] if ts.size and time_unit is None else []
    if unitless:
        remarks.append(
            f"No unit is stated for {', '.join(unitless)}: the model's are taken; an attribute `units` tells others"
        )
    return dataclasses.replace(found, entries=[*entries.values()])


def _attempt(remarks: list[str], read: Callable[[], T]) -> T | None:
    """Result of a reader; None where it fails, with the reason among the remarks."""
    try:
        return read()
    except PdefitError as error:
        if str(error) not in remarks:
            remarks.append(str(error))
        return None


def _entry(file: h5py.File, name: str, path: Path) -> Entry:
    """A variable, with its range where it is small; refused where a fit could not read it."""
    stored = variable(file, name, path)
    dims, stated = shape(file, name, path), unit(file, name, path)
    if is_text(stored):
        return Entry(name, dims, "text", stated)
    values = array(file, name, path) if 0 < (stored.size or 0) <= _SMALL else np.zeros(0)
    return Entry(name, dims, str(stored.dtype), stated, *_range(values))


def _range(values: np.ndarray) -> tuple[float | None, float | None, float | None]:
    """Smallest and largest finite number, and the fraction of missing ones."""
    if not values.size:
        return None, None, None
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (None, None)
    return low, high, float(np.mean(np.isnan(values)))


def _links(file: h5py.File) -> list[str]:
    """Remarks on links, which no fit follows."""
    try:
        linked = [n for n in file if not isinstance(file.get(n, getlink=True), h5py.HardLink)]
    # damaged bytes may raise any exception
    except Exception:
        return []
    return [f"'{name}' is a link, and is not followed; name the variable it leads to, or copy it" for name in linked]


def _labels(file: h5py.File, name: str, path: Path) -> list[str]:
    """Dimension scales of a variable: they are positions, and no values."""
    return [where for axis in range(len(shape(file, name, path))) for where, *_ in scales(file, name, axis, path)]


def _likely_time(file: h5py.File, entries: Mapping[str, Entry], path: Path) -> str:
    """The variable that a fit takes for the times: `time`, or one of another name that looks like it."""
    if "time" in entries:
        return "time"
    lengths = {n for e in entries.values() if len(e.shape) > 1 for n in (e.shape if is_foreign(file) else e.shape[:1])}

    def rank(entry: Entry) -> int:
        last = entry.name.rpartition("/")[2].lower()
        return 2 * (last in _TIMES or last.startswith("time")) + (entry.shape[0] in lengths and last not in AXES)

    lines = [e for e in entries.values() if len(e.shape) == 1 and e.shape[0] > 1 and e.low is not None]
    lines = [e for e in lines if rank(e)]
    rising = [e for e in lines if np.all(np.diff(array(file, e.name, path)) > 0)]
    # times of a list of points repeat
    listed = [e for e in lines if rank(e) > 1]
    return max(rising or listed, key=rank).name if rising or listed else "time"


def _times(found: Survey, columns: list[str]) -> np.ndarray:
    with found.frames(columns) as frames:
        return frames.ts


def _has_recordings(entry: Entry, dims: list[str], time: str, rows: tuple[int, ...]) -> bool:
    """Test for frames of several recordings: their axis, then that of times.

    **Arguments:**

    - `entry`, `dims`: a variable, and the names of its axes.
    - `time`, `rows`: the name and the shape of the times.
    """
    if len(dims) < 2 or not dims[0] or dims[0] in (*AXES, *ANGLES, time.lower()) or entry.name == time:
        return False
    timed = dims[1] in (time.lower(), "frame") or (rows != (0,) and entry.shape[1:2] == rows[-1:])
    return timed and (len(dims) > 2 or dims[0] in _RECORDINGS)


def _parts(name: str, dims: list[str], labels: list[str]) -> list[str]:
    """What a fit takes of a variable: its components, where it lies on a sphere and names them, or all of it."""
    return [f"{name}[{label}]" for label in labels] if labels and {*ANGLES} <= {*dims} else [name]


def _refused_recordings(found: Survey) -> list[str]:
    """Remarks on the recordings that a fit would refuse, with the reason."""
    remarks: list[str] = []
    variables = {film.name: film.name for film in found.films}
    for number in range(1, len(found.recordings) if variables else 0):
        select = found.select(number)
        _attempt(remarks, lambda s=select: Frames(found.path, variables, time=found.time, select=s).close())
    return remarks


def _about_times(ts: np.ndarray, time: str) -> list[str]:
    """Remarks on frames that seem to be missing."""
    steps = np.diff(ts)
    typical = np.median(steps)
    wide = steps > _GAP * typical
    if not wide.any() or not np.all(wide | (np.abs(steps - typical) <= _EVEN * typical)):
        return []
    first = int(np.argmax(wide))
    return [
        f"Times in '{time}' are even but for gaps: {wide.sum()}, the first between {ts[first]:g} and {ts[first + 1]:g}; if "
        f"frames were lost that is right, and a fit takes the times as they are"
    ]


def is_even(points: np.ndarray) -> bool:
    """Test for even spacing of points (n,)."""
    steps = np.diff(points)
    return bool(steps.size == 0 or np.all(np.abs(steps - steps.mean()) <= _EVEN * np.abs(steps.mean())))


def _look(found: Survey, entry: Entry, name: str, dims: tuple[str, ...], entries: Mapping[str, Entry]) -> Entry:
    """Read a variable, or the part of it of this name, as a fit would, and add it to the survey."""
    film = read_film(found.path, name, found.time, found.select(0), dims, found.named)
    found.remarks.extend(film.remarks)
    sigma = next((n for n in entries if _holds_sigma(found, entries[n], name)), None)
    found.films.append(dataclasses.replace(film, sigma=sigma))
    return dataclasses.replace(entry, low=film.low, high=film.high, missing=film.missing)


def _holds_sigma(found: Survey, entry: Entry, name: str) -> bool:
    """Test for a variable that is named as the standard deviation of another one, and that a fit would take."""
    words = ("sigma", "noise", "std", "error", "uncertainty")
    folder, _, last = name.rpartition("/")
    named = {f"{folder}/{x}".strip("/") for w in words for x in (w, f"{last}_{w}", f"{w}_{last}")}
    if entry.name not in named:
        return False
    try:
        with found.frames([name], sigma={name: entry.name}):
            return True
    except PdefitError:
        return False
