"""Long tables: one row for each value, beside which columns name the observable and the recording."""

import dataclasses
import itertools
import re

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import too_large
from pdefit.data.readers.source import RECORDING, DataSource
from pdefit.data.readers.variable import DataFile, Scale, Variable, in_memory

# times that differ by less than this part of the largest one count as one
_SAME_TIME = 1e-12
# beginnings of the names of columns with observables, with values, and with standard deviations
_OBSERVABLES = ("observable", "variable", "species", "analyte", "quantity", "signal", "dvid", "measured", "what")
_VALUES = ("value", "measurement", "conc", "dv")
_SIGMAS = ("sigma", "noise", "std", "sd", "sem", "error", "uncertainty")
# candidates for columns of recordings, and columns that name a recording together, at most
_SEARCHED, _TOGETHER = 6, 3


def widened(file: DataFile, source: DataSource) -> DataFile:
    """The variables of a long table that a source names, of shape (recordings, times), or (times,) without recordings.

    Rows may be in any order. A time of a recording without a value of a variable is a gap, NaN. A column that
    `data.system` names has shape (recordings,), or ().

    **Arguments:** `file`, `source`: the open table, and the names of its columns.
    """
    rows, kind, value = _Rows(file, source), source.long.get("observable"), source.long.get("value", "")
    kinds = np.asarray(rows.texts(kind) if kind else [], object)
    if not kind and value not in ("", *source.variables.values()):
        raise unknown("variable (data.long.value)", value, source.variables.values())
    series = {*source.variables.values(), *map(str, source.deviations.values())}
    names = [*rows.axes, *series, *{*source.system.values()}]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PdefitError(f"'{twice[0]}' in '{file.path.name}' has two roles: axis, variable, data.system; rename one")
    records = {**rows.axes, **{name: rows.one_each(name) for name in source.system.values()}}
    for field, name in source.variables.items():
        column, which = (value, np.flatnonzero(kinds == name)) if kind else (name, np.arange(rows.ts.size))
        if not which.size:
            raise unknown(f"observable ({kind}) in '{file.path.name}'", name, sorted({*kinds}))
        records[name] = rows.series(name, column, which)
        if isinstance(sigma := source.deviations.get(field), str):
            records[sigma] = rows.series(sigma, source.stated[field], which)
    return DataFile(file.path, records, records.__getitem__, file.links, file.attributes, file.is_foreign)


class _Rows:
    """Rows of a long table.

    `ts` (N,) are their times. `axes` are two variables: the times of each recording, and the names of the recordings,
    if a column tells them apart.
    """

    def __init__(self, file: DataFile, source: DataSource):
        self._file, self._time, self._shape = file, source.times, file[source.times].checked().shape
        self.ts = self._numbers(self._time)
        if (wrong := np.flatnonzero(~np.isfinite(self.ts))).size:
            raise PdefitError(f"{file[self._time].where} is no number in row {wrong[0] + 1}; write a time there")
        given, numbers = source.long.get(RECORDING, ()), dict[tuple[str, ...], int]()
        keys = [*zip(*map(self.texts, [given] if isinstance(given, str) else given), strict=True)]
        self._owner = np.asarray([numbers.setdefault(k, len(numbers)) for k in keys] or np.zeros(self.ts.size), int)
        # rows of a recording in the order of their times, of which the first, and each later one, begin a frame
        order = np.lexsort((self.ts, self._owner))
        owner, ts = self._owner[order], self.ts[order]
        first = np.diff(owner, prepend=-1) != 0
        begins = first | (np.diff(ts, prepend=-np.inf) > _SAME_TIME * np.max(np.abs(ts)))
        count = np.cumsum(begins)
        self._frame = np.empty_like(count)
        self._frame[order] = count - count[first][owner]
        self._sizes, self._has_names = (int(owner[-1]) + 1, int(self._frame.max()) + 1), bool(numbers)
        if size := too_large((2 * len(source.variables) + 1, *self._sizes)):
            raise PdefitError(f"Recordings in '{file.path.name}' take {size} of memory; correct data.long.recording")
        self.axes = {self._time: self._placed(self._time, self._time, order[begins])}
        if numbers:
            # they name folders
            names = [re.sub(r"[^\w.-]+", "-", "-".join(key)).strip("-.") for key in numbers]
            self.axes[RECORDING] = self._along(RECORDING, np.asarray(names))

    def texts(self, name: str) -> list[str]:
        """Cells of a column; an empty cell is refused."""
        found = cells(self._file[name])
        if (filled := [*found, ""].index("")) != self.ts.size:
            raise PdefitError(
                f"{self._file[name].where} is empty in row {filled + 1}; write there to what the value belongs"
            )
        return found

    def series(self, name: str, column: str, which: np.ndarray) -> Variable:
        """A variable whose values are the numbers of a column in some rows."""
        rows = which[~np.isnan(self._numbers(column)[which])]
        order = np.lexsort((self._frame[rows], self._owner[rows]))
        place = np.stack([self._owner, self._frame])[:, rows[order]]
        if (twice := np.flatnonzero(np.all(place[:, 1:] == place[:, :-1], axis=0))).size:
            one, other = rows[order[twice[0] : twice[0] + 2]] + 1
            raise PdefitError(
                f"Rows {one} and {other} of '{self._file.path.name}' both hold '{name}' at {self._time} = "
                f"{self.ts[one - 1]:g}; name the column that tells them apart, in data.long.observable or, as for "
                f"replicates, in data.long.recording ([NAME, NAME]), or write their mean"
            )
        return self._placed(name, column, rows)

    def one_each(self, name: str) -> Variable:
        """A variable with one number of each recording; empty cells do not count."""
        found, each = self._numbers(name), np.full(self._sizes[0], np.nan)
        known = np.flatnonzero(~np.isnan(found))
        each[self._owner[known]] = found[known]
        if (wrong := known[found[known] != each[self._owner[known]]]).size:
            row = wrong[0]
            told = f"is {found[row]:g} in row {row + 1}, but {each[self._owner[row]]:g} later in the same recording"
            raise PdefitError(f"{self._file[name].where} {told}; data.system expects one number of each")
        return self._along(name, each, self._file[name].unit)

    def _numbers(self, name: str) -> np.ndarray:
        found = self._file[name].array()
        if found.shape != self._shape or found.ndim != 1 or not found.size or found.dtype.kind != "f":
            raise PdefitError(f"{self._file[name].where} expects numbers of shape {self._shape}, but has {found.shape}")
        return found

    def _placed(self, name: str, column: str, rows: np.ndarray) -> Variable:
        found = np.full(self._sizes, np.nan)
        found[self._owner[rows], self._frame[rows]] = self._numbers(column)[rows]
        return self._along(name, found, self._file[column].unit)

    def _along(self, name: str, values: np.ndarray, unit: str | None = None) -> Variable:
        """A variable along the recordings; without their names it is the only entry."""
        if not self._has_names:
            return in_memory(name, self._file.path, np.asarray(values[0]), unit)
        scales = ((Scale(RECORDING, RECORDING, True),), (Scale(self._time, "frame", False),))
        return dataclasses.replace(in_memory(name, self._file.path, values, unit), scales=scales[: values.ndim])


def cells(column: Variable) -> list[str]:
    """Cells of a column as texts, empty if nothing is written, whether it is refused as numbers or not."""
    found = column.stored if column.is_text and isinstance(column.stored, np.ndarray) else column.array()
    if found.dtype.kind != "f":
        return [str(cell).strip() for cell in found.ravel()]
    return ["" if np.isnan(cell) else repr(cell).removesuffix(".0") for cell in found.ravel().tolist()]


def recognised(file: DataFile, source: DataSource) -> DataSource | None:
    """The source of a long table, with all of its variables and its numbers of recordings; None for other files.

    **Arguments:** `file`, `source`: the open file, and the column with the times.
    """
    time = source.times
    if not file.is_foreign or time not in file or file[time].refusal or source.coordinates or "x" in file:
        return None
    ts = file[time].array()
    # row numbers have no name
    names = [n for n in file if n not in (time, "", "nan") and file[n].shape == ts.shape]
    columns = {n: file[n] for n in names if file[n].is_text or not file[n].refusal}
    kind = [n for n in columns if n.lower().startswith(_OBSERVABLES)][:1]
    if ts.ndim != 1 or ts.dtype.kind != "f" or (np.all(np.diff(ts) > 0) and not kind):
        return None
    words = {n: found for n, v in columns.items() if any(found := cells(v))}
    kind = [n for n in kind if n in words]
    # a recording has two rows or more; a number that tells recordings apart does not come back, as a coordinate does
    keys = {n: w for n, w in words.items() if n not in kind and "" not in w and 2 * len({*w}) <= len(w)}
    texts = [n for n in keys if columns[n].is_text]
    blocks = [n for n, w in keys.items() if sum(a != b for a, b in itertools.pairwise(w)) < len({*w})]
    likely = [*texts, *(n for n in blocks if n not in texts and "".join(words[n]).isdecimal())][:_SEARCHED]
    some = (part for n in range(_TOGETHER + 1) for part in itertools.combinations(likely, n))
    apart = (part for part in some if len({*zip(ts, *(words[n] for n in (*kind, *part)), strict=True)}) == ts.size)
    # nothing tells replicates apart
    recording = [*next(apart, texts or likely[:1])]
    owners = [*zip(*(words[n] for n in recording), strict=True)] or [()] * ts.size
    rest = {n: words[n] for n, v in columns.items() if n in words and n not in (*kind, *recording) and not v.is_text}
    alike = [n for n, w in rest.items() if len({(k, x) for k, x in zip(owners, w, strict=True) if x}) <= len({*owners})]
    sigma = [n for n in rest if kind and n.lower().startswith(_SIGMAS)][:1]
    values = sorted((n for n in rest if n not in (*alike, *sigma)), key=lambda n: not n.lower().startswith(_VALUES))
    if not values or not (kind or recording):
        return None
    variables = [*dict.fromkeys(words[kind[0]])] if kind else values
    named = {"value": values[:1], "time": [time], "observable": kind, RECORDING: recording}
    return dataclasses.replace(
        source,
        time=None,
        variables={n: n for n in variables},
        sigma=dict.fromkeys(variables, *sigma) if sigma else {},
        system={n: n for n in alike if n not in sigma},
        long={p: n[0] if len(n) == 1 else n for p, n in named.items() if n and (kind or p != "value")},
    )
