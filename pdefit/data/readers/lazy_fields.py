"""The film of a run as an `xarray.Dataset`, whose values are read when they are used."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from pdefit._util.errors import PdefitError
from pdefit.data.readers.datasets import opened, variable
from pdefit.data.readers.fields import Field, Film, open_film


class _Stored(BackendArray):
    """Values of a variable of a film, up to its last complete frame.

    The file is opened for every reading. So it stays free for a run that still writes it, and damage that appears later
    is answered as all damage is.
    """

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype):
        self._path, self._name, self.shape, self.dtype = path, name, shape, dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        # frames that were appended since do not belong to this dataset
        if key and isinstance(key[0], slice):
            key = (slice(*key[0].indices(self.shape[0])), *key[1:])
        try:
            with opened(self._path) as file:
                stored = variable(file, self._name, self._path)
                if stored.shape[0] >= self.shape[0] and stored.shape[1:] == self.shape[1:]:
                    return np.asarray(stored[key], self.dtype)
        except PdefitError:
            raise
        # h5py answers damaged bytes with almost any exception
        except Exception:
            pass
        raise PdefitError(f"'{self._name}' in '{self._path}' cannot be read; the file is damaged, copy it again")


def lazy_fields(path: Path) -> xarray.Dataset:
    """All complete frames of a film, by the names that the file has: `u_observed`, `u_predicted`, `u_true`.

    Coordinates are the times, the positions, and `phase`: 0 for frames of the fit, 1 for those of the forecast.
    """
    with open_film(path) as film:
        coords: dict[str, Any] = {
            "time": ("time", film.ts, {"unit": film.time_unit}),
            "phase": ("time", film.phase, {"long_name": "0 fit, 1 forecast"}),
        }
        variables: dict[str, Any] = {}
        for name, field in film.fields.items():
            coords |= {d: (d, x, {"units": field.coord_units[d]}) for d, x in field.coords.items()}
            variables |= {f"{name}_{kind}": _variable(film, name, field, kind) for kind in field.kinds}
        return xarray.Dataset(variables, coords, {"title": film.title})


def _variable(film: Film, name: str, field: Field, kind: str) -> xarray.Variable:
    stored = _Stored(film.path, f"{name}_{kind}", (film.ts.size, *field.shape), film.dtype(name, kind))
    about = {"units": field.unit, "long_name": f"{field.long_name}, {kind}"}
    return xarray.Variable(("time", *field.dims), indexing.LazilyIndexedArray(stored), about)
