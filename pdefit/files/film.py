"""fields.h5 for reading: finished, left by a killed process, or still growing."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdefit.errors import PdefitError
from pdefit.files.datasets import opened, refuse_foreign

KINDS = ("true", "observed", "predicted")
# variables up to this size are read at once, larger ones frame by frame
_AT_ONCE = 32 << 20


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of the film: where it lives, and in which kinds it is there. Coordinates are numbers, or labels."""

    name: str
    long_name: str
    unit: str
    dims: tuple[str, ...]
    coords: dict[str, np.ndarray]
    coord_units: dict[str, str]
    kinds: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.coords[d].size for d in self.dims)

    @property
    def reference(self) -> str | None:
        """What a prediction is compared with: the truth, or else what was observed."""
        return next((kind for kind in ("true", "observed") if kind in self.kinds), None)


class Film:
    """Complete frames of a film, by field, kind and number; nothing is read before it is asked for.

    `ts` (T,) are the times of the complete frames, `total` how many there are to be, and `forecast` the first of the frames
    beyond the fit (T where there is none).
    """

    def __init__(self, file: Any, path: Path):
        self.path, self._file = path, file
        try:
            count, self.total = int(file["n_done"][()]), int(file["time"].shape[0])
            self.ts: np.ndarray = np.asarray(file["time"][:count], float)
            self.time_unit = str(file["time"].attrs.get("unit", ""))
            self.title = str(file.attrs.get("title", ""))
            later = np.flatnonzero(file["phase"][:count])
            self.forecast = int(later[0]) if later.size else count
            self.fields = _fields(file)
        except (KeyError, AttributeError, TypeError, ValueError, IndexError, OSError, RuntimeError):
            raise PdefitError(f"'{path}' is not a film that pdefit wrote; name the directory of a run") from None

    def frame(self, field: str, kind: str, number: int) -> np.ndarray:
        """One frame, in the precision of the file."""
        return self._file[f"{field}_{kind}"][number]

    def frames(self, field: str, kind: str, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        """Some frames in turn; a small variable is read at once."""
        variable = self._file[f"{field}_{kind}"]
        if variable.size * variable.dtype.itemsize <= _AT_ONCE:
            yield from variable[: self.ts.size][np.asarray(numbers, int)]
        else:
            for number in numbers:
                yield variable[number]

    def item_size(self, field: str, kind: str) -> int:
        """Bytes of one number in the file."""
        return self._file[f"{field}_{kind}"].dtype.itemsize

    def chosen(self, most: int) -> list[int]:
        """At most so many frames, evenly taken, the first and the last among them."""
        return np.unique(np.linspace(0, self.ts.size - 1, min(most, self.ts.size)).round().astype(int)).tolist()

    def when(self, number: int) -> str:
        """The time of a frame with its unit, in as many digits as tell it from its neighbours."""
        step = float(np.median(np.diff(self.ts))) if self.ts.size > 1 else 0.0
        if not np.isfinite(step) or step <= 0 or not 1e-5 < step < 1e7:
            return f"{self.ts[number]:.6g} {self.time_unit}"
        decimals = max(0, -int(np.floor(np.log10(step) - 0.5)))
        return f"{self.ts[number]:.{min(decimals, 6)}f} {self.time_unit}"

    def is_small(self, field: str) -> bool:
        """Whether all frames of a variable may be held in memory."""
        return int(np.prod((self.ts.size, *self.fields[field].shape))) * 8 <= _AT_ONCE


@contextmanager
def open_film(path: Path) -> Iterator[Film]:
    """The film in a file, which another process may be writing."""
    with opened(path) as file:
        refuse_foreign(file, path)
        yield Film(file, path)


def _fields(file: Any) -> dict[str, Field]:
    kinds: dict[str, list[str]] = {}
    for name, item in file.items():
        field, _, kind = name.rpartition("_")
        if field and kind in KINDS and isinstance(item, h5py.Dataset):
            kinds.setdefault(field, []).append(kind)
    # in the order of the state, where the file says it
    first = str(file.attrs.get("fields", "")).split()
    names = [name for name in first if name in kinds] + [name for name in kinds if name not in first]
    return {name: _field(file, name, sorted(kinds[name], key=KINDS.index)) for name in names}


def _field(file: Any, name: str, kinds: list[str]) -> Field:
    variable = file[f"{name}_{kinds[0]}"]
    dims, coords, units = [], {}, {}
    for axis in range(1, variable.ndim):
        scale = variable.dims[axis][0]
        dim = scale.name.rpartition("/")[2]
        dims.append(dim)
        coords[dim] = scale.asstr()[()].astype(str) if h5py.check_string_dtype(scale.dtype) else scale[()]
        units[dim] = str(scale.attrs.get("units", "1"))
    long_name = str(variable.attrs.get("long_name", name)).rpartition(", ")[0] or name
    return Field(name, long_name, str(variable.attrs.get("units", "1")), tuple(dims), coords, units, tuple(kinds))
