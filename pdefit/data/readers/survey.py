"""Survey of a data file: its content, and the variables that a fit can use."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers._films import ANGLES as ANGLES
from pdefit.data.readers._films import AXES as AXES
from pdefit.data.readers._films import Film as Film
from pdefit.data.readers._films import measured as measured
from pdefit.data.readers._films import read_film
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.long_tables import recognised, widened
from pdefit.data.readers.open_source import opened_source
from pdefit.data.readers.recordings import entry_labels, recording_names
from pdefit.data.readers.source import DataSource, Wanted
from pdefit.data.readers.variable import DataFile

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
    """A variable of a file.

    **Arguments:**

    - `name`, `shape`, `dtype`: the name, shape and dtype of the variable; dtype in words.
    - `unit`: the stated unit; None without one.
    - `labels`: the names of its axes in lower case, empty for axes without a name.
    - `low`, `high`, `missing`: the range of its values, and the missing fraction; None if they were not read.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    unit: str | None
    labels: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    missing: float | None = None


@dataclasses.dataclass(frozen=True)
class Survey:
    """Content of a file, and remarks on suspicious values.

    **Arguments:**

    - `source`: the file, with the variable of the times, the named coordinates of points, and the first of several
      recordings; no variable to fit yet.
    - `entries`: all its variables by name.
    - `ts`, `time_unit`: the times (T,), maybe empty, and their unit.
    - `films`: the variables that can be fitted.
    - `remarks`: sentences, the remedy included.
    - `notes`: the sentences of `pdefit import` on its processing.
    - `axis`, `recordings`: the axis of several recordings, and their names; empty for one recording. `ts` and `films`
      then belong to the first one.
    - `file`: the file, while it is open.
    """

    source: DataSource
    entries: dict[str, Entry]
    ts: np.ndarray
    time_unit: str | None
    films: list[Film]
    remarks: list[str]
    notes: list[str]
    axis: str = ""
    recordings: tuple[str, ...] = ()
    file: DataFile | None = None

    def frames(self, names: Sequence[str], dims: tuple[str, ...] = AXES, **entries: Any) -> Frames:
        """Frames of some variables, in the units of the file; `entries` are further entries of the source."""
        return Frames(self.of(names, **entries), Wanted(dims=dims), file=self.file)

    def of(self, names: Sequence[str], **entries: Any) -> DataSource:
        """The source of some variables, with further entries."""
        return dataclasses.replace(self.source, **{"variables": {name: name for name in names}, "sigma": {}, **entries})


def survey(source: DataSource) -> Survey:
    """Survey of a data file.

    **Arguments:**

    - `source`: the file. By default its times are the variable `time`, or a similar one, and the coordinates of a list
      of points are the variables named like the axes.

    **Errors:** PdefitError if the file cannot be opened, or if a long table holds two values for one time.
    """
    # opened once, however many variables it has
    with opened_source(source) as file:
        return dataclasses.replace(_survey(file, source), file=None)


def _survey(file: DataFile, source: DataSource) -> Survey:
    remarks: list[str] = []
    attempted = {name: _attempt(remarks, lambda name=name: _entry(file, name)) for name in file}
    entries = {name: entry for name, entry in attempted.items() if entry is not None}
    remarks += [
        f"'{name}' is a link, and is not followed; name the variable it leads to, or copy it" for name in file.links
    ]
    notes = _attempt(remarks, lambda: file.notes) or []
    if not source.long:
        likely = _likely_time(file, entries) if source.time is None else source.time
        source = dataclasses.replace(source, time=None if likely == "time" else likely)
        if long := recognised(file, source):
            found = _survey(widened(file, long), long)
            unused = [name for name in file if file[name].is_text and repr(name) not in str(long.long)]
            found.remarks.extend(
                f"'{n}' is not used; if it tells recordings apart, add it to data.long.recording" for n in unused
            )
            return found
    time = source.times
    rows = entries[time].shape if time in entries else (0,)
    parts = {e.name: _parts(file, e) for e in entries.values() if _has_recordings(e, time, rows)}
    axis = next((entries[name].labels[0] for name in parts), "")
    names = (_attempt(remarks, lambda: recording_names(file, axis)) or []) if axis else []
    source = dataclasses.replace(source, select={axis: names[0]} if names else {})
    found = Survey(source, entries, np.zeros(0), None, [], remarks, notes, axis, tuple(names), file)
    # the times of a list are known once one of its columns is
    columns = [n for n, e in entries.items() if e.shape == rows and e.low is not None]
    columns = [n for n in columns if n not in (*AXES, time, *source.coordinates.values())]
    columns = [part for name in parts for part in parts[name]] if names else columns
    ts = _attempt(remarks, lambda: _times(found, columns[: len(columns) if source.long else 1]))
    if ts is not None:
        remarks += _about_times(ts, time)
        stated = (entries[n].unit for n in ((time, "frame_time") if names else (time,)) if n in entries)
        unit = next((unit for unit in stated if unit is not None), None)
        found = dataclasses.replace(found, ts=ts, time_unit=unit)
        _add_films(found, file, parts, rows)
        remarks += dict.fromkeys(remark for film in measured(found.films) for remark in film.remarks)
        remarks += _refused_recordings(found) + _without_units(found, file)
    return found


def _add_films(found: Survey, file: DataFile, recorded: Mapping[str, list[str]], rows: tuple[int, ...]) -> None:
    """Read every variable with times as a fit would, and add it to the survey.

    **Arguments:**

    - `found`, `file`: the survey, and the open file.
    - `recorded`: variables with several recordings, with the parts that a fit can use.
    - `rows`: the shape of the times.
    """
    named = found.source.times, *found.source.coordinates.values(), *found.source.deviations.values()
    no_values = {*named, *(s.name for n in found.entries for x in file[n].scales for s in x)}
    # the phase of a film that pdefit wrote is that of a frame
    no_values |= {"n_done", "phase"} if {"n_done", "phase"} <= {*file} else set()
    for name, entry in [*found.entries.items()]:
        if name in no_values or entry.dtype == "text":
            continue
        has_times = {*rows} <= {*entry.shape} if file.is_foreign else entry.shape[:1] == rows
        single = not found.recordings
        if name in recorded or (has_times and single and name.rpartition("/")[2] not in AXES):
            dims = ANGLES if {*ANGLES} <= {*entry.labels} else AXES
            for part in recorded.get(name) or _parts(file, entry):
                film = _attempt(found.remarks, lambda p=part, d=dims: _film(found, file, p, d))
                if film is not None and single and part == name:
                    seen = {"low": film.low, "high": film.high, "missing": film.missing}
                    found.entries[name] = dataclasses.replace(entry, **seen)
        elif len(entry.shape) > 1 and found.ts.size in entry.shape[1:] and single:
            found.remarks.append(
                f"{file[name].where} has shape {entry.shape}; its first axis must be the {found.ts.size} times, so name its "
                f"axes in the order of the file (data.axes)"
            )


def _film(found: Survey, file: DataFile, name: str, dims: tuple[str, ...]) -> Film:
    """A variable, or a part of it, as a fit would read it, added to the survey."""
    film = read_film(file, found.of([name]), dims)
    found.films.append(dataclasses.replace(film, sigma=_sigma_of(found, name)))
    return found.films[-1]


def _sigma_of(found: Survey, name: str) -> str | None:
    """Variable whose name marks it as another one's standard deviation, and that a fit would accept."""
    if name in found.source.given:
        return str(found.source.given[name])
    folder, _, last = name.rpartition("/")
    for word in ("sigma", "noise", "std", "error", "uncertainty"):
        for called in (word, f"{last}_{word}", f"{word}_{last}"):
            where = f"{folder}/{called}".strip("/")
            if where not in found.entries:
                continue
            with contextlib.suppress(PdefitError), found.frames([name], sigma={name: where}):
                return where
    return None


def _attempt(remarks: list[str], read: Callable[[], T]) -> T | None:
    """Result of a reader; None if it fails, with the reason among the remarks."""
    try:
        return read()
    except PdefitError as error:
        if str(error) not in remarks:
            remarks.append(str(error))
        return None


def _entry(file: DataFile, name: str) -> Entry:
    """A variable, with its range if it is small; refused if a fit could not read it."""
    one = file[name].checked()
    about = name, one.shape, "text" if one.is_text else str(one.stored.dtype), one.unit, tuple(one.labels)
    values = one.array() if not one.is_text and 0 < math.prod(one.shape) <= _SMALL else np.zeros(0)
    if not values.size:
        return Entry(*about)
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (None, None)
    return Entry(*about, low, high, float(np.mean(np.isnan(values))))


def _likely_time(file: DataFile, entries: Mapping[str, Entry]) -> str:
    """The variable that a fit takes as times: `time`, or a similar one."""
    if "time" in entries:
        return "time"
    lengths = {n for e in entries.values() if len(e.shape) > 1 for n in (e.shape if file.is_foreign else e.shape[:1])}
    lines = [e for e in entries.values() if len(e.shape) == 1 and e.shape[0] > 1 and e.low is not None]
    rising = {e.name for e in lines if np.all(np.diff(file[e.name].array()) > 0)}
    words = {e.name: e.name.rpartition("/")[2] for e in lines}
    # small letters come first; beside a t, or anything else that rises, T is a temperature
    other = {name: word.lower() for name, word in words.items() if word != "T" or rising == {name}}
    called = ({n for n, word in of.items() if word in _TIMES or word.startswith("time")} for of in (words, other))
    likely = next(filter(None, called), set[str]())

    def rank(entry: Entry) -> int:
        return 2 * (entry.name in likely) + (entry.shape[0] in lengths and words[entry.name].lower() not in AXES)

    # times of a list of points repeat
    found = [e for e in lines if rank(e) > (e.name not in rising)]
    return max(found, key=lambda e: (e.name in rising, rank(e))).name if found else "time"


def _times(found: Survey, columns: list[str]) -> np.ndarray:
    with found.frames(columns) as frames:
        return frames.ts


def _has_recordings(entry: Entry, time: str, rows: tuple[int, ...]) -> bool:
    """True if the first axis of a variable numbers recordings and the second one is time.

    **Arguments:**

    - `entry`: a variable.
    - `time`, `rows`: the name and the shape of the times.
    """
    dims = entry.labels
    if len(dims) < 2 or not dims[0] or dims[0] in (*AXES, *ANGLES, time.lower()) or entry.name == time:
        return False
    timed = dims[1] in (time.lower(), "frame") or (rows != (0,) and entry.shape[1:2] == rows[-1:])
    return timed and (len(dims) > 2 or dims[0] in _RECORDINGS)


def _parts(file: DataFile, entry: Entry) -> list[str]:
    """Parts of a variable that a fit can use: its components, if they have names and there are as many axes, or all of it."""
    labels = entry_labels(file, entry.name)
    is_vector = {*ANGLES} <= {*entry.labels} or 2 <= len(labels) == len(entry.shape) - 2
    return [f"{entry.name}[{label}]" for label in labels if is_vector] or [entry.name]


def _refused_recordings(found: Survey) -> list[str]:
    """Remarks on the recordings that a fit would refuse, with the reason."""
    remarks, names = list[str](), [film.name for film in found.films]
    for name in found.recordings[1:] if names else ():
        _attempt(remarks, lambda s={found.axis: name}: found.frames(names, (), select=s).close())
    return remarks


def _without_units(found: Survey, file: DataFile) -> list[str]:
    """Remark on variables without a unit, in a file that could state one."""
    names = dict.fromkeys(f.name if f.name in found.entries else f.name.rpartition("[")[0] for f in found.films)
    unitless = [name for name in names if found.entries[name].unit is None]
    unitless += [found.source.times] if found.time_unit is None else []
    told = f"No unit is stated for {', '.join(unitless)}: the model's are taken; {file.unit_remedy}"
    return [told] if unitless and file.unit_remedy else []


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
    """True if points (n,) are evenly spaced."""
    steps = np.diff(points)
    return bool(steps.size == 0 or np.all(np.abs(steps - steps.mean()) <= _EVEN * np.abs(steps.mean())))
