"""Reading of fields.h5, the film of a run: finished, left by a killed process, or still growing."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdefit._util.errors import PdefitError, with_space
from pdefit._util.memory import too_large
from pdefit.data.readers.formats import opened
from pdefit.data.readers.variable import DataFile, Variable, sound

if TYPE_CHECKING:
    import xarray

KINDS = ("true", "observed", "predicted", "std", "prior", "sigma")
# the unit of a film over the evaluations of a fit, whose frames are numbered by them
EVALUATION = "evaluation"
# variables up to this size are read at once, larger ones frame by frame
_AT_ONCE = 32 << 20


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a film.

    **Arguments:**

    - `name`, `long_name`: its name in the model, and in words.
    - `unit`: the unit of its values.
    - `dims`: the names of its axes after time.
    - `coords`: for each axis the positions, or labels, (n,).
    - `coord_units`: for each axis the unit of the positions.
    - `kinds`: the `KINDS` in the file: the truth of a twin, observations, predictions, standard deviations of the
      posterior, of the prior and of the noise.
    - `vector`, `component`: for a component, the vector's name and the axis along which it points.
    - `radius`: the radius of a sphere whose colatitude and longitude in radians are the two axes; 0 if there is no
      sphere.
    - `view`: the plugin that draws the field; empty for maps and lines.
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
    view: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.coords[d].size for d in self.dims)

    @property
    def reference(self) -> str | None:
        """The reference of a prediction: the truth, or else the observations."""
        return next((kind for kind in ("true", "observed") if kind in self.kinds), None)


class Film:
    """Complete frames of a film, by field, kind and index.

    Values are read when needed. Links, and variables that lead to other files, are refused. `ts` (T,) are the times of
    the complete frames, in `time_unit`. `fields` are the parts of the state by name, together with the `derived` ones
    and those `measured` by an instrument, and `diagnostics` scalars of whole states. `total` is the number of frames of
    the finished film. `forecast` is the index of the first frame beyond the fit, T if there is none. `points` are
    columns of points.csv by the names of kinds in pictures, once these have read them.

    **Arguments:**

    **Arguments:** `file`: the open file.
    """

    def __init__(self, file: DataFile):
        self.path, self._file = file.path, file
        self.points: dict[str, dict[str, np.ndarray]] = {}
        try:
            if not {"n_done", "time", "phase"} <= {*file, *file.links}:
                raise KeyError
            n_done, time, phase = (file[name].checked() for name in ("n_done", "time", "phase"))
            count, self.total = int(n_done.stored[()]), int(time.shape[0])
            self.ts: np.ndarray = np.asarray(time.stored[:count], float)
            self.time_unit = str(time.attributes.get("unit", ""))
            rising = np.all(np.isfinite(self.ts)) and np.all(np.diff(self.ts) > 0)
            if self.time_unit != EVALUATION and not rising:
                raise PdefitError(f"The times in '{self.path}' do not increase, so the film is damaged; put it back")
            self.title = str(file.attributes.get("title", ""))
            later = np.flatnonzero(phase.stored[:count])
            self.forecast = int(later[0]) if later.size else count
            found, scalars = _fields(file), str(file.attributes.get("diagnostics", "")).split()
            self.derived, self.measured = (str(file.attributes.get(n, "")).split() for n in ("derived", "measured"))
            self.fields = {name: field for name, field in found.items() if name not in scalars}
            self.diagnostics = {name: found[name] for name in scalars if name in found}
        except (KeyError, AttributeError, TypeError, ValueError, IndexError, OSError, RuntimeError):
            raise PdefitError(f"'{self.path}' is not a film that pdefit wrote; name the directory of a run") from None

    def frame(self, field: str, kind: str, number: int) -> np.ndarray:
        """One frame of a field in one of its kinds, in the precision of the file."""
        return np.asarray(self._variable(field, kind)[number])

    def frames(self, field: str, kind: str, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        """Some frames in order; several frames of a small variable are read at once."""
        stored = self._variable(field, kind)
        if len(numbers) > 1 and stored.size * stored.dtype.itemsize <= _AT_ONCE:
            yield from stored[: self.ts.size][np.asarray(numbers, int)]
        else:
            for number in numbers:
                yield stored[number]

    def dtype(self, field: str, kind: str) -> np.dtype:
        """Type of a variable's numbers in memory."""
        return self._variable(field, kind).dtype.newbyteorder("=")

    @property
    def phase(self) -> np.ndarray:
        """Phase of each frame: 0 for the fit, 1 for the forecast."""
        return (np.arange(self.ts.size) >= self.forecast).astype(np.int8)

    def _variable(self, field: str, kind: str) -> Any:
        # these variables were checked when the film was opened
        if kind not in (self.fields | self.diagnostics)[field].kinds:
            raise KeyError(f"{field}_{kind}")
        return self._file[f"{field}_{kind}"].stored

    def chosen(self, most: int) -> list[int]:
        """Indices of at most `most` frames, evenly spaced, including the first and the last."""
        return np.unique(np.linspace(0, self.ts.size - 1, min(most, self.ts.size)).round().astype(int)).tolist()

    def when(self, number: int) -> str:
        """Time of a frame with its unit, with enough digits to distinguish it from its neighbours."""
        unit = with_space(self.time_unit)
        step = float(np.median(np.diff(self.ts))) if self.ts.size > 1 else 0.0
        if not np.isfinite(step) or step <= 0 or not 1e-5 < step < 1e7:
            return f"{self.ts[number]:.6g}{unit}"
        decimals = max(0, -int(np.floor(np.log10(step) - 0.5)))
        return f"{self.ts[number]:.{min(decimals, 6)}f}{unit}"

    def title_of(self, number: int) -> str:
        """Heading of a frame: its time, or the evaluation number in a film over a fit."""
        return f"evaluation {self.ts[number]:.0f}" if self.time_unit == EVALUATION else f"t = {self.when(number)}"

    def is_small(self, field: str) -> bool:
        """True if all frames of a variable may be held in memory at once."""
        return int(np.prod((self.ts.size, *self.fields[field].shape))) * 8 <= _AT_ONCE


@contextmanager
def open_film(path: Path) -> Iterator[Film]:
    """The film in a file, which another process may still be writing."""
    with opened(path) as file:
        yield Film(file)


def _fields(file: DataFile) -> dict[str, Field]:
    kinds: dict[str, list[str]] = {}
    for name in (*file, *file.links):
        field, _, kind = name.rpartition("_")
        if not field or kind not in KINDS or "/" in name:
            continue
        if file[name].checked().stored.dtype.kind != "f":
            raise TypeError("fields are floating-point numbers")
        kinds.setdefault(field, []).append(kind)
    # in the order of the state, where the file states it
    first = str(file.attributes.get("fields", "")).split()
    names = [name for name in first if name in kinds] + [name for name in kinds if name not in first]
    return {name: _field(file, name, sorted(kinds[name], key=KINDS.index)) for name in names}


def _field(file: DataFile, name: str, kinds: list[str]) -> Field:
    stored = file[f"{name}_{kinds[0]}"]
    # the first scale of each axis after time
    scales = [file[along[0].name].checked() for along in stored.scales[1:]]
    coords = {scale.name: _positions(scale) for scale in scales}
    units = {scale.name: str(scale.attributes.get("units", "1")) for scale in scales}

    def stated(key: str) -> str:
        return str(stored.attributes.get(key, ""))

    long_name = stated("long_name").rpartition(", ")[0] or name
    radius = float(stored.attributes.get("radius", 0.0)) if len(coords) == 2 else 0.0
    unit, points = str(stored.attributes.get("units", "1")), (stated("vector"), stated("component"))
    dims = tuple(s.name for s in scales)
    return Field(name, long_name, unit, dims, coords, units, tuple(kinds), *points, radius, stated("view"))


def _positions(scale: Variable) -> np.ndarray:
    if len(scale.shape) != 1:
        raise TypeError("positions that are no list")
    if size := too_large(scale.shape):
        raise PdefitError(f"'{scale.name}' in '{scale.path}' takes {size} of memory; name the directory of another run")
    found = scale.array() if scale.is_text else scale.stored[()]
    if found.dtype.kind == "f" and not np.all(np.isfinite(found)):
        raise ValueError("positions that are not finite")
    return found


def lazy_fields(path: Path) -> "xarray.Dataset":
    """All complete frames of a film, read when used: `u_observed`, `u_predicted`, `u_true`.

    Coordinates are the times, the positions, and `phase`: 0 for frames of the fit, 1 for the forecast. The file is
    opened anew for each access. So a run may still write it, and later damage is reported like any damage.
    """
    # it takes half a second to import
    import xarray
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Stored(BackendArray):
        """Values of a variable of a film, up to its last complete frame."""

        def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype):
            self.name, self.shape, self.dtype = name, shape, dtype

        def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
            outer = indexing.IndexingSupport.OUTER_1VECTOR
            return indexing.explicit_indexing_adapter(key, self.shape, outer, self.read)

        def read(self, key: tuple[Any, ...]) -> np.ndarray:
            # frames that were appended since do not belong to this dataset
            if key and isinstance(key[0], slice):
                key = (slice(*key[0].indices(self.shape[0])), *key[1:])
            with opened(path) as file:
                stored = file[self.name].checked()
                with sound(self.name, path):
                    if stored.shape[0] < self.shape[0] or stored.shape[1:] != self.shape[1:]:
                        raise IndexError(stored.shape)
                    return np.asarray(stored.stored[key], self.dtype)

    with open_film(path) as film:
        coords: dict[str, Any] = {
            "time": ("time", film.ts, {"unit": film.time_unit}),
            "phase": ("time", film.phase, {"long_name": "0 fit, 1 forecast"}),
        }
        variables: dict[str, Any] = {}
        for name, field in film.fields.items():
            coords |= {d: (d, x, {"units": field.coord_units[d]}) for d, x in field.coords.items()}
            for kind in field.kinds:
                stored = Stored(f"{name}_{kind}", (film.ts.size, *field.shape), film.dtype(name, kind))
                about = {"units": field.unit, "long_name": f"{field.long_name}, {kind}"}
                lazy = xarray.Variable(("time", *field.dims), indexing.LazilyIndexedArray(stored), about)
                variables[f"{name}_{kind}"] = lazy
        return xarray.Dataset(variables, coords, {"title": film.title})
