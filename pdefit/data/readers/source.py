"""The source of data: the file's variables for the fields of a model, and the model's requirements."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.expected import Expected, TimeStep, is_index, is_list, is_text, mapping_of
from pdefit.data.readers.locate import locate

_COORDINATES = mapping_of(
    "axis: variable, e.g. {x: lon}, or x: null to compare nothing", lambda x: isinstance(x, str | None)
)
_AXES = mapping_of(
    "the axes of a variable in the order of the file, e.g. {u: [x, time]}", lambda x: is_list(x, is_text)
)
_CROP = Expected(
    "for each axis the first index and the one after the last, e.g. [[1, 60], [1, 59]]",
    lambda x: is_list(x, lambda ends: is_list(ends, is_index) and len(ends) == 2),
    lambda x: tuple(map(tuple, x)),
)
_SELECT = mapping_of(
    "the axis of the recordings and one of them, e.g. {experiment: 2}", lambda x: is_text(x) or is_index(x), most=1
)


# the axis of the recordings in a long table
RECORDING = "recording"
_PARTS = ("value", "time", "observable", RECORDING)
_LONG = Expected(
    "the columns of a long table, e.g. {value: measurement, time: hour, observable: name, recording: subject}",
    lambda x: isinstance(x, Mapping) and all(is_text(c) or (p == RECORDING and is_list(c, is_text)) for p, c in x.items()),
    dict,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class DataSource:
    """Variables of a file that hold observations of fields: the section `data` of a configuration.

    For every reader of measured files, and for the proposals of `pdefit check`. Not for the units and times of a model,
    which are in `Wanted`.

    **Arguments:**

    - `path`: the file, from the working directory, from $PDEFIT_DATA, or among the data shipped with pdefit.
    - `variables`: by field its name in the file. NAME[ENTRY] is an entry of the last axis.
    - `time`: the variable with the times; null for `time`. If the file has no times, the time between its frames.
    - `sigma`: by field, or for all fields, the standard deviation of the noise in the field's declared unit, or the
      name of a variable that holds it. Such a variable has shape (n,) of the first axis after time, broadcasts to a
      frame, or has its own time axis.
    - `crop`: for each axis after time the first index taken, and the one after the last.
    - `coordinates`: by axis the variable with its positions; null leaves the axis unchecked.
    - `axes`: by field, or by argument of the system, the axis names of its variable in the order of the file, if the
      file leaves their order open.
    - `select`: by axis the name or index of the recording to read, if the file has several along it.
    - `system`: by argument of the system its name in the file; numbers are converted to the declared unit.
    - `long`: the columns of a table with one row for each value: `value`, `time` (by default `time`), `observable` with
      the name of the variable, and `recording`, a column or a list of columns whose texts together name the recording.
      Without `observable` every column is a variable. Recordings lie along the axis `recording`.
    """

    path: Annotated[str, Expected("text, the name of a file", lambda x: is_text(x) and bool(x))]
    variables: Annotated[Mapping[str, str], mapping_of("field: variable, e.g. {u: intensity}", is_text, least=1)]
    time: str | TimeStep | None = None
    sigma: str | Mapping[str, Any] = dataclasses.field(default_factory=dict)
    crop: Annotated[tuple[tuple[int, int], ...], _CROP] = ()
    coordinates: Annotated[Mapping[str, str | None], _COORDINATES] = dataclasses.field(default_factory=dict)
    axes: Annotated[Mapping[str, Sequence[str]], _AXES] = dataclasses.field(default_factory=dict)
    select: Annotated[Mapping[str, str | int], _SELECT] = dataclasses.field(default_factory=dict)
    system: Annotated[Mapping[str, str], mapping_of("argument: variable, e.g. {gm: gm}", is_text)] = dataclasses.field(
        default_factory=dict
    )
    long: Annotated[Mapping[str, Any], _LONG] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in self.long:
            if part not in _PARTS:
                raise unknown("part of a long table (data.long)", part, _PARTS)
        if self.long and self.time is not None:
            raise PdefitError("data.long.time names the times of a long table; remove data.time")
        if "observable" in self.long and "value" not in self.long:
            raise PdefitError("data.long.observable expects data.long.value, the column with the values")
        for name in self.given:
            if name not in self.variables:
                raise unknown("variable (data.sigma)", str(name), self.variables)

    @property
    def file(self) -> Path:
        """Path of the file, or an error that lists the searched places."""
        return locate(self.path)

    @property
    def given(self) -> Mapping[str, Any]:
        """Noise entry of each field: a number, a variable or a model."""
        return self.sigma if isinstance(self.sigma, Mapping) else dict.fromkeys(self.variables, self.sigma)

    @property
    def stated(self) -> Mapping[str, Any]:
        """Stated standard deviations, by field: numbers, or names of variables."""
        return self.given

    @property
    def deviations(self) -> Mapping[str, Any]:
        """Stated standard deviations, by field; a column of a long table has the name of the observable behind it."""
        each = {f: f"[{name}]" if "observable" in self.long else "" for f, name in self.variables.items()}
        return {f: f"{s}{each[f]}" if isinstance(s, str) else s for f, s in self.stated.items()}

    @property
    def times(self) -> str:
        """The variable with the times, or the name of the times that are added."""
        return self.time if isinstance(self.time, str) else str(self.long.get("time", "time"))

    @property
    def every(self) -> float | None:
        """Time between frames of a file without times."""
        return None if isinstance(self.time, str) else self.time

    @property
    def entries(self) -> dict[str, Any]:
        """Entries of the configuration section for this source, without defaults."""
        found = dict[str, Any]()
        for f in dataclasses.fields(self):
            default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
            if (value := getattr(self, f.name)) != default:
                found[f.name] = _plain(value)
        return found


def _plain(value: Any) -> Any:
    """An entry converted to YAML types."""
    if isinstance(value, Mapping):
        return {key: _plain(x) for key, x in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Units, times and axes that a model requires from a file.

    **Arguments:**

    - `units`: the model's unit of each field; by default there is no conversion.
    - `time_unit`: the model's unit of time.
    - `start`, `stop`: the first and the last time wanted, in the model's unit; by default the frames' first and last
      times.
    - `dims`: the names of the model's axes after time, in their order.
    """

    units: Mapping[str, str] = dataclasses.field(default_factory=dict)
    time_unit: str | None = None
    start: float = -np.inf
    stop: float = np.inf
    dims: Sequence[str] = ()


def source_of(
    source: DataSource | str | Path, variables: Mapping[str, str] | None = None, **named: Any
) -> tuple[DataSource, Wanted]:
    """The two records from the names of their entries; None stands for a default."""
    said, asked = ([f.name for f in dataclasses.fields(of)] for of in (DataSource, Wanted))
    for name in named:
        if name not in (*said, *asked):
            raise unknown("entry of a source of data", name, (*said, *asked))
    given = {name: value for name, value in {"variables": variables, **named}.items() if value is not None}
    entries, model = ({name: given[name] for name in names if name in given} for names in (said, asked))
    known = isinstance(source, DataSource)
    return dataclasses.replace(source, **entries) if known else DataSource(str(source), **entries), Wanted(**model)
