"""fields.h5: observed, predicted and true fields over time, written frame by frame (NetCDF-4); and states from files."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.interrupts import uninterrupted
from pdefit.data.readers.fields import Field
from pdefit.data.readers.formats import opened
from pdefit.output.store import _surviving as surviving
from pdefit.systems.coordinates import FieldCoords

# frames are written together until they fill this many bytes
_BLOCK = 1 << 20
# the kind of a single state
_KIND = "predicted"


class FieldsFile:
    """Writer of fields.h5, which holds fields on shared times.

    The file can be read by xarray (engine h5netcdf) while frames are added and after a kill. Variables are named
    `<field>_<kind>` with kind `observed`, `predicted`, `true` or `sigma`. They have dimension scales on every axis, and
    are NaN if nothing was written. The file has its full size from the beginning, so a disk that is too small is found
    before the first frame.

    **Arguments:**

    - `path`: the path of the file.
    - `ts` (T,): all times to be written, in `time_unit`.
    - `coords`: axes, coordinates and unit of each field.
    - `kinds`: the kinds of variables of each field.
    - `dtype`: the type of the numbers.
    - `phase` (T,): 0 for frames of the fit, 1 for frames of the forecast.
    - `title`: the title of the file.
    - `diagnostics`: the names of scalars computed from a whole state.
    - `derived`: the names of the fields derived from the state.
    - `measured`: the names of observed variables that are not fields of the state. A field of the same name is then
      called `<field>_state` in `kinds` and `coords`.
    """

    def __init__(
        self,
        path: Path,
        ts: np.ndarray,
        time_unit: str,
        coords: Mapping[str, FieldCoords | Field],
        kinds: Mapping[str, tuple[str, ...]],
        dtype: str,
        phase: np.ndarray,
        title: str,
        diagnostics: Collection[str] = (),
        derived: Collection[str] = (),
        measured: Collection[str] = (),
    ):
        with surviving.created(path) as self._file:
            self._file.attrs.update(Conventions="CF-1.8", title=title)
            # the order of the state, in which pictures show fields: HDF5 itself lists variables by name
            lists = {"fields": kinds, "diagnostics": diagnostics, "derived": derived, "measured": measured}
            self._file.attrs.update({name: " ".join(listed) for name, listed in lists.items()})
            self._names = [f"{field}_{kind}" for field, have in kinds.items() for kind in have]
            self._pending: list[dict[str, np.ndarray]] = []
            self._done, self._total = 0, ts.size
            self._dimension("time", ts, time_unit)
            frame_bytes = 0
            for field, have in kinds.items():
                where = coords[field]
                for dim in where.dims:
                    if dim not in self._file:
                        self._dimension(dim, where.coords[dim], where.coord_units.get(dim, "1"))
                shape = where.shape
                frame_bytes += int(np.prod(shape)) * np.dtype(dtype).itemsize * len(have)
                optional = {n: getattr(where, n) for n in ("vector", "component", "radius", "view")}
                attributes = {"units": where.unit} | {name: stated for name, stated in optional.items() if stated}
                for kind in have:
                    variable = surviving.rows(self._file, f"{field}_{kind}", (ts.size, *shape), dtype, np.nan)
                    variable.attrs.update(attributes, long_name=f"{where.long_name or field}, {kind}")
                    for axis, dim in enumerate(("time", *where.dims)):
                        variable.dims[axis].attach_scale(self._file[dim])
            marker = self._file.create_dataset("phase", data=phase.astype(np.int8))
            marker.attrs["long_name"] = "0 fit, 1 forecast"
            marker.dims[0].attach_scale(self._file["time"])
            self._block = max(1, _BLOCK // max(frame_bytes, 1))
            surviving.start(self._file)

    def _dimension(self, name: str, values: np.ndarray, unit: str) -> None:
        if np.asarray(values).dtype.kind in "US":
            scale = self._file.create_dataset(name, data=np.asarray(values, object), dtype=surviving.TEXT)
        else:
            scale = self._file.create_dataset(name, data=values)
            # not `units`: xarray would decode "days" as a duration
            scale.attrs["unit" if name == "time" else "units"] = unit
        scale.make_scale(name)

    def append(self, frame: Mapping[str, Any]) -> None:
        """Add the next frame: arrays by the name of their variable. Missing variables stay NaN."""
        self._pending.append({name: np.asarray(value) for name, value in frame.items()})
        if len(self._pending) >= self._block:
            self._write()

    @uninterrupted()
    def _write(self) -> None:
        first, last = self._done, self._done + len(self._pending)
        if first == last:
            return
        if last > self._total:
            raise ValueError(f"FieldsFile holds {self._total} times, but got frame {last}")
        for name in self._names:
            missing = np.full(self._file[name].shape[1:], np.nan)
            self._file[name][first:last] = np.stack([frame.get(name, missing) for frame in self._pending])
        surviving.commit(self._file, last)
        self._done, self._pending = last, []

    def __enter__(self) -> "FieldsFile":
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self._write()
        finally:
            self._file.close()


def read_frame(path: Path, shapes: Mapping[str, tuple[int, ...]], model: str) -> dict[str, np.ndarray]:
    """State in a file: the last complete frame of `<field>_predicted`, or of `<field>`, for every field.

    If an instrument's variable has the name of a field, the field is `<field>_state_predicted`. A file of another
    model, or of another grid, is refused.

    **Arguments:**

    - `path`: the path of the file.
    - `shapes`: the shapes of the expected fields, by name.
    - `model`: the name of the model, for errors.
    """
    with opened(path) as file:
        has, measured = {*file, *file.links}, str(file.attributes.get("measured", "")).split()
        stored = {f: f"{f}_state" if f in measured else f for f in shapes}
        names = {f: next((n for n in (f"{own}_{_KIND}", f) if n in has), None) for f, own in stored.items()}
        missing = [f for f, name in names.items() if name is None]
        if missing:
            raise PdefitError(
                f"'{path.name}' is no state of {model}: it holds {', '.join(sorted(has)) or 'nothing'}, but not "
                f"{', '.join(missing)}; name the fields.h5 of a run of {model}"
            )
        count = _count(file["n_done"].array(), path) if "n_done" in has else None
        out = {}
        for field, expected in shapes.items():
            name = str(names[field])
            found = file[name].shape
            if len(found) != 1 + len(expected) or found[1:] != expected:
                raise PdefitError(
                    f"'{name}' in '{path.name}' has frames of shape {found[1:]}, but {field} of {model} has {expected}; "
                    f"use a state of the same grid"
                )
            last = (found[0] if count is None else min(count, found[0])) - 1
            if last < 0:
                raise PdefitError(f"'{path.name}' holds no complete frame yet; use another file")
            value = file[name].array(slice(last, last + 1))[0]
            if value.dtype.kind != "f":
                raise PdefitError(f"'{name}' in '{path.name}' is text; numbers are expected")
            if not np.all(np.isfinite(value)):
                raise PdefitError(f"The last frame of '{name}' in '{path.name}' is not finite; use another file")
            out[field] = value
    return out


def _count(n_done: np.ndarray, path: Path) -> int:
    """Number of complete frames."""
    if n_done.shape != () or n_done.dtype.kind != "f" or not np.isfinite(n_done):
        raise PdefitError(f"'n_done' in '{path.name}' is no number of frames; the file is damaged, copy it again")
    return int(n_done)
