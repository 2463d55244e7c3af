"""Variables of an open data file: their stated properties, recorded once, and their values."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import too_large
from pdefit.data.readers._packing import unpacked

DAMAGED = "cannot be read; the file is damaged, copy it again"
# variables of a file, and levels of its groups, at most: more take minutes and gigabytes before anything is read
_MOST_VARIABLES, _MOST_LEVELS = 5000, 100
# copies in memory: as it is in the file, in float64, and converted
_COPIES = 3
# the name of a dimension of NetCDF that has no coordinates
_EMPTY_SCALE = "This is a netCDF dimension but not a netCDF variable"


class Scale(NamedTuple):
    """A dimension scale of an axis: its path in the file, its label in lower case, and whether it holds positions."""

    name: str
    label: str
    has_positions: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Variable:
    """A variable of a file, or a part of it. Its values are read when needed.

    **Arguments:**

    - `name`, `path`: its path in the file, and the path of the file, for errors.
    - `stored`: a dataset of HDF5, or an array in memory.
    - `axes`: the axes of `stored` that the variable has, in their order.
    - `attributes`: the attributes in the file.
    - `scales`: the dimension scales of each axis.
    - `refusal`: the reason why its values cannot be read; None if they can.
    - `at`: selections along some axes of `stored`: a slice, or an index along an axis that the variable lacks.
    """

    name: str
    path: Path
    stored: Any
    axes: tuple[int, ...]
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    scales: tuple[Sequence[Scale], ...] = ()
    refusal: str | None = None
    at: Mapping[int, int | slice] = dataclasses.field(default_factory=dict)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape; () for a variable without values."""
        return tuple(len(self._range(axis)) for axis in self.axes)

    @property
    def is_text(self) -> bool:
        return self.stored.dtype.kind in "US" or h5py.check_string_dtype(self.stored.dtype) is not None

    @property
    def labels(self) -> list[str]:
        """Names of its axes in lower case, empty for axes without a name."""
        return [scales[0].label if scales else "" for scales in self.scales] or [""] * len(self.axes)

    @property
    def where(self) -> str:
        """Name and file in words, for errors."""
        return f"'{self.name}' in '{self.path.name}'"

    @property
    def unit(self) -> str | None:
        """The unit stated in the file, or None. For CF times such as "days since 1970-01-01" it is the first word."""
        with sound(self.name, self.path):
            stated = self.attributes.get("units", self.attributes.get("unit"))
        if stated is None or isinstance(stated, h5py.Empty) or np.size(stated) != 1:
            return None
        word = np.ravel(stated)[0]
        # bytes that are no UTF-8 come as lone surrogates, which no file or terminal takes
        raw = word if isinstance(word, bytes) else str(word).encode(errors="surrogateescape")
        return raw.decode(errors="replace").split(" since ")[0].strip()

    def checked(self) -> "Variable":
        """The variable itself, checked to have readable values: numbers or texts, in this very file."""
        if self.refusal is not None:
            raise PdefitError(f"{self.where} {self.refusal}")
        return self

    def array(self, frames: slice | None = None, count: int | None = None) -> np.ndarray:
        """Values: unpacked numbers in float64 with NaN for missing ones, or texts.

        **Arguments:**

        - `frames`: the part of the first axis to read; by default all of it.
        - `count`: the required length of the first axis, if known.
        """
        wanted = self.checked().shape
        if count is not None and wanted[:1] != (count,):
            raise PdefitError(f"{self.where} has shape {wanted}; its first axis must be the {count} times")
        if frames is not None:
            wanted = (len(range(*frames.indices(wanted[0]))), *wanted[1:])
        if size := too_large((*wanted, _COPIES)):
            raise PdefitError(f"{self.where} has shape {wanted}, which takes {size} of memory; cut the file into parts")
        with sound(self.name, self.path):
            raw = self._raw(slice(None) if frames is None else frames)
            if self.is_text:
                found = [x.decode(errors="replace") if isinstance(x, bytes) else str(x) for x in np.ravel(raw)]
                return np.asarray(found, str)
            return unpacked(raw, self.attributes, self.where)

    def _raw(self, frames: slice) -> np.ndarray:
        """The stored numbers."""
        index: list[Any] = [self.at.get(axis, slice(None)) for axis in range(len(self.stored.shape))]
        if self.axes:
            inside = self._range(self.axes[0])[frames]
            index[self.axes[0]] = slice(inside.start, inside.stop, inside.step)
        raw, rest = np.asarray(self.stored[tuple(index)]), sorted(self.axes)
        return raw.transpose([rest.index(axis) for axis in self.axes])

    def _range(self, axis: int) -> range:
        """The indices along an axis of `stored`."""
        taken = self.at.get(axis, slice(None))
        assert isinstance(taken, slice)
        return range(self.stored.shape[axis])[taken]

    def entry(self, axis: int, number: int) -> "Variable":
        """One entry along an axis."""
        order = [i for i in range(len(self.axes)) if i != axis % len(self.axes)]
        return self.ordered(order, {self.axes[axis]: number})

    def until(self, count: int) -> "Variable":
        """The first entries along the first axis."""
        return dataclasses.replace(self, at={**self.at, self.axes[0]: slice(0, count)})

    def ordered(self, order: Sequence[int], at: Mapping[int, int] | None = None) -> "Variable":
        """The variable with its axes in another order. For axes left out, index 0 or the index in `at` is taken."""
        scales = tuple(self.scales[i] for i in order) if self.scales else ()
        axes = tuple(self.axes[i] for i in order)
        left = {axis: 0 for axis in self.axes if axis not in axes}
        return dataclasses.replace(self, axes=axes, scales=scales, at={**self.at, **left, **(at or {})})


class DataFile(Mapping[str, Variable]):
    """An open data file: a record for each of its variables by name, made once.

    Links are not followed: they may lead to other files, or form cycles.

    **Arguments:**

    - `path`: its path for errors, with the name of a recording if it is a part of a file.
    - `names`: the names of its variables.
    - `record`: makes the record of a variable.
    - `links`: the names of links.
    - `attributes`: the attributes of the file.
    - `is_foreign`: whether its format is not HDF5, so that axes have no names.
    """

    def __init__(
        self,
        path: Path,
        names: Iterable[str],
        record: Callable[[str], Variable],
        links: Sequence[str] = (),
        attributes: Mapping[str, Any] | None = None,
        is_foreign: bool = False,
    ):
        self.path, self.links, self.attributes, self.is_foreign = path, links, attributes or {}, is_foreign
        self._names, self._record, self._records = dict.fromkeys(names), record, dict[str, Variable]()

    def __getitem__(self, name: str) -> Variable:
        if name not in self._records:
            if name not in self._names and name in self.links:
                raise PdefitError(
                    f"'{name}' in '{self.path.name}' is a link; name the variable it leads to, or copy it into this file"
                )
            if name not in self._names:
                raise unknown(f"variable in '{self.path.name}'", name, self._names)
            try:
                self._records[name] = self._record(name)
            # h5py answers damaged bytes with almost any exception
            except Exception:
                self._records[name] = Variable(name, self.path, np.zeros(()), (), refusal=DAMAGED)
        return self._records[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def unit_remedy(self) -> str:
        """Advice on stating a unit in the file; empty for a format without units, and for a table without any."""
        if not self.is_foreign:
            return "an attribute `units` tells others"
        return "`NAME [UNIT]` in its header tells others" if any(v.unit for v in self.values()) else ""

    @property
    def notes(self) -> list[str]:
        """Sentences of `pdefit import` on its processing; empty for files that it did not write."""
        with sound("", self.path):
            return text(self.attributes.get("import_notes")).splitlines()

    def replaced(self, records: Mapping[str, Variable]) -> "DataFile":
        """The file with other records of some variables, or further ones."""

        def record(name: str) -> Variable:
            return records[name] if name in records else self[name]

        return DataFile(self.path, [*self, *records], record, self.links, self.attributes, self.is_foreign)


def in_memory(name: str, path: Path, values: np.ndarray, unit: str | None = None) -> Variable:
    """A variable backed by an array."""
    return Variable(name, path, values, (*range(values.ndim),), {} if unit is None else {"units": unit})


def is_empty_scale(attributes: Mapping[str, Any]) -> bool:
    """True if the attributes mark a dimension without coordinates."""
    return text(attributes.get("NAME")).startswith(_EMPTY_SCALE)


def text(attribute: object) -> str:
    """An attribute as text; empty if it is not a text."""
    if isinstance(attribute, bytes):
        return attribute.decode(errors="replace")
    return attribute if isinstance(attribute, str) else ""


def refuse_many(count: int, path: Path, name: str = "") -> None:
    """Refuse a file whose variables take minutes to list.

    **Arguments:**

    - `count`: the number of its variables, as far as counted.
    - `path`, `name`: the file, and a location in it.
    """
    if count > _MOST_VARIABLES or name.count("/") > _MOST_LEVELS:
        raise PdefitError(
            f"'{path.name}' has over {_MOST_VARIABLES} variables or {_MOST_LEVELS} levels of groups; copy those that are fitted"
        )


@contextmanager
def sound(name: str, path: Path) -> Iterator[None]:
    """Context manager that turns any error of h5py, caused by damaged bytes, into a `PdefitError`."""
    try:
        yield
    except PdefitError:
        raise
    except Exception:
        what = f"'{name}' in '{path.name}'" if name else f"'{path.name}'"
        raise PdefitError(f"{what} {DAMAGED}") from None
