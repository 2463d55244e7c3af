"""Reading of fields.h5, the film of a run: finished, left by a killed process, or still growing."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from pdefit._util.errors import PdefitError, with_space
from pdefit._util.memory import too_large
from pdefit.data.readers._coordinates import lists_scales
from pdefit.data.readers.datasets import is_text, opened, variable

KINDS = ("true", "observed", "predicted", "std", "prior", "sigma")
# variables up to this size are read at once, larger ones frame by frame
_AT_ONCE = 32 << 20


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a film.

    **Arguments:**

    - `name`, `long_name`: its name in the model, and in words.
    - `unit`: the unit of its values.
    - `dims`: the names of its axes after time.
    - `coords`: for each of them the positions, or labels, (n,).
    - `coord_units`: for each of them the unit of the positions.
    - `kinds`: which of `KINDS` the file holds: the truth of a twin, observations, predictions, standard deviations of the
      posterior, of the prior and of the noise.
    - `vector`, `component`: of a component the vector's name, and the name of the axis along which it points.
    - `radius`: of a sphere whose colatitude and longitude in radians are the two axes; 0 where there is no sphere.
    """

    name: str
    long_name: str
    unit: str
    dims: tuple[str, ...]
    coords: dict[str, np.ndarray]
    coord_units: dict[str, str]
    kinds: tuple[str, ...]
    vector: str = ""
    component: str = ""
    radius: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.coords[d].size for d in self.dims)

    @property
    def reference(self) -> str | None:
        """The kind that a prediction is compared with: the truth, or else the observations."""
        return next((kind for kind in ("true", "observed") if kind in self.kinds), None)


class Film:
    """The complete frames of a film, by field, kind and number.

    Values are read when they are needed. Links, and variables that lead to other files, are refused. `ts` (T,) are the
    times of the complete frames, in `time_unit`. `fields` are the parts of the state by name, with those `derived` from
    it and those that an instrument `measured`, and `diagnostics` scalars of whole states. `total` is the number of frames
    once the film is finished. `forecast` is the number of the first frame beyond the fit, T where there is none.

    **Arguments:**

    - `file`: the open file.
    - `path`: its place, for errors.
    """

    def __init__(self, file: h5py.File, path: Path):
        self.path, self._file = path, file
        try:
            if any(file.get(name, getlink=True) is None for name in ("n_done", "time", "phase")):
                raise KeyError
            n_done, time, phase = (variable(file, name, path) for name in ("n_done", "time", "phase"))
            count, self.total = int(n_done[()]), int(time.shape[0])
            self.ts: np.ndarray = np.asarray(time[:count], float)
            self.time_unit = str(time.attrs.get("unit", ""))
            self.title = str(file.attrs.get("title", ""))
            later = np.flatnonzero(phase[:count])
            self.forecast = int(later[0]) if later.size else count
            found, scalars = _fields(file, path), str(file.attrs.get("diagnostics", "")).split()
            self.derived, self.measured = (str(file.attrs.get(n, "")).split() for n in ("derived", "measured"))
            self.fields = {name: field for name, field in found.items() if name not in scalars}
            self.diagnostics = {name: found[name] for name in scalars if name in found}
        except (KeyError, AttributeError, TypeError, ValueError, IndexError, OSError, RuntimeError):
            raise PdefitError(f"'{path}' is not a film that pdefit wrote; name the directory of a run") from None

    def frame(self, field: str, kind: str, number: int) -> np.ndarray:
        """One frame of a field in one of its kinds, in the precision of the file."""
        return self._variable(field, kind)[number]

    def frames(self, field: str, kind: str, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        """Some frames, one after the other. Several of a small variable are read at once."""
        stored = self._variable(field, kind)
        if len(numbers) > 1 and stored.size * stored.dtype.itemsize <= _AT_ONCE:
            yield from stored[: self.ts.size][np.asarray(numbers, int)]
        else:
            for number in numbers:
                yield stored[number]

    def dtype(self, field: str, kind: str) -> np.dtype:
        """Type of the numbers of a variable, as they are in memory."""
        return self._variable(field, kind).dtype.newbyteorder("=")

    @property
    def phase(self) -> np.ndarray:
        """0 for frames of the fit, 1 for those of the forecast."""
        return (np.arange(self.ts.size) >= self.forecast).astype(np.int8)

    def _variable(self, field: str, kind: str) -> h5py.Dataset:
        # these variables were checked when the film was opened
        if kind not in (self.fields | self.diagnostics)[field].kinds:
            raise KeyError(f"{field}_{kind}")
        found = self._file[f"{field}_{kind}"]
        assert isinstance(found, h5py.Dataset)
        return found

    def chosen(self, most: int) -> list[int]:
        """The numbers of at most `most` frames, evenly spaced, with the first and the last."""
        return np.unique(np.linspace(0, self.ts.size - 1, min(most, self.ts.size)).round().astype(int)).tolist()

    def when(self, number: int) -> str:
        """The time of a frame with its unit, in as many digits as distinguish it from its neighbours."""
        unit = with_space(self.time_unit)
        step = float(np.median(np.diff(self.ts))) if self.ts.size > 1 else 0.0
        if not np.isfinite(step) or step <= 0 or not 1e-5 < step < 1e7:
            return f"{self.ts[number]:.6g}{unit}"
        decimals = max(0, -int(np.floor(np.log10(step) - 0.5)))
        return f"{self.ts[number]:.{min(decimals, 6)}f}{unit}"

    def is_small(self, field: str) -> bool:
        """Whether all frames of a variable may be held in memory at once."""
        return int(np.prod((self.ts.size, *self.fields[field].shape))) * 8 <= _AT_ONCE


@contextmanager
def open_film(path: Path) -> Iterator[Film]:
    """The film in a file, which another process may be writing."""
    with opened(path) as file:
        yield Film(file, path)


def _fields(file: h5py.File, path: Path) -> dict[str, Field]:
    kinds: dict[str, list[str]] = {}
    for name in map(str, file):
        field, _, kind = name.rpartition("_")
        if not field or kind not in KINDS:
            continue
        # only for a hard link: the class of another link's target would be found by following it
        is_here = isinstance(file.get(name, getlink=True), h5py.HardLink)
        if is_here and file.get(name, getclass=True) is not h5py.Dataset:
            continue
        _numbers(variable(file, name, path))
        kinds.setdefault(field, []).append(kind)
    # in the order of the state, where the file states it
    first = str(file.attrs.get("fields", "")).split()
    names = [name for name in first if name in kinds] + [name for name in kinds if name not in first]
    return {name: _field(file, name, sorted(kinds[name], key=KINDS.index), path) for name in names}


def _field(file: h5py.File, name: str, kinds: list[str], path: Path) -> Field:
    stored = variable(file, f"{name}_{kinds[0]}", path)
    dims, coords, units = [], {}, {}
    if stored.ndim > 1 and not lists_scales(stored):
        raise TypeError("axes without names")
    for axis in range(1, stored.ndim):
        scale = variable(file, str(stored.dims[axis][0].name).lstrip("/"), path)
        dim = str(scale.name).rpartition("/")[2]
        dims.append(dim)
        if scale.ndim != 1:
            raise TypeError("positions that are no list")
        if size := too_large(scale.shape):
            raise PdefitError(f"'{dim}' in '{path}' takes {size} of memory; name the directory of another run")
        coords[dim] = np.asarray(scale.asstr()[()], str) if is_text(scale) else scale[()]
        units[dim] = str(scale.attrs.get("units", "1"))
    long_name = str(stored.attrs.get("long_name", name)).rpartition(", ")[0] or name
    unit, points = str(stored.attrs.get("units", "1")), [str(stored.attrs.get(k, "")) for k in ("vector", "component")]
    radius = float(stored.attrs.get("radius", 0.0)) if len(dims) == 2 else 0.0
    return Field(name, long_name, unit, tuple(dims), coords, units, tuple(kinds), points[0], points[1], radius)


def _numbers(stored: h5py.Dataset) -> None:
    if stored.dtype.kind != "f":
        raise TypeError("fields are floating-point numbers")
