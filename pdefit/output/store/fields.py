"""fields.h5: observed, predicted and true fields over time, written frame by frame (NetCDF-4)."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.interrupts import uninterrupted
from pdefit.output.store import _growing as growing
from pdefit.systems.capabilities import FieldCoords

# frames are written together until they fill this many bytes
_BLOCK = 1 << 20


class FieldsFile:
    """Writer of fields.h5, which holds fields on shared times.

    The file can be read by xarray (engine h5netcdf) while it grows and after a kill. Variables are called
    `<field>_<kind>` with kind `observed`, `predicted`, `true` or `sigma`. They have dimension scales on every axis, and are NaN
    where nothing was written.

    **Arguments:**

    - `path`: where it is written.
    - `ts` (T,): all times that will be written, in `time_unit`.
    - `coords`: axes, coordinates and unit of each field.
    - `kinds`: the kinds of variables of each field.
    - `dtype`: of the numbers.
    - `phase` (T,): 0 for frames of the fit, 1 for those of the forecast.
    - `title`: of the file.
    - `diagnostics`: names of the fields that are scalars of a whole state, and no part of it.
    - `derived`: names of the fields that follow from the state.
    - `measured`: names of what an instrument observes that is no field of the state.
    """

    def __init__(
        self,
        path: Path,
        ts: np.ndarray,
        time_unit: str,
        coords: Mapping[str, FieldCoords],
        kinds: Mapping[str, tuple[str, ...]],
        dtype: str,
        phase: np.ndarray,
        title: str,
        diagnostics: Collection[str] = (),
        derived: Collection[str] = (),
        measured: Collection[str] = (),
    ):
        with growing.created(path) as self._file:
            self._file.attrs.update(Conventions="CF-1.8", title=title)
            # the order of the state, in which pictures show fields: HDF5 itself lists variables by name
            self._file.attrs["fields"] = " ".join(kinds)
            self._file.attrs["diagnostics"] = " ".join(diagnostics)
            self._file.attrs["derived"] = " ".join(derived)
            self._file.attrs["measured"] = " ".join(measured)
            self._names = [f"{field}_{kind}" for field, have in kinds.items() for kind in have]
            self._pending: list[dict[str, np.ndarray]] = []
            self._done, self._total = 0, ts.size
            self._dimension("time", ts, time_unit)
            for field in kinds:
                where = coords[field]
                for dim in where.dims:
                    if dim not in self._file:
                        self._dimension(dim, where.coords[dim], where.coord_units.get(dim, "1"))
            frame_bytes = 0
            for field, have in kinds.items():
                where = coords[field]
                shape = tuple(where.coords[d].size for d in where.dims)
                size = int(np.prod(shape)) * np.dtype(dtype).itemsize
                frame_bytes += size * len(have)
                rows = max(1, min(ts.size, 65536 // max(size, 1)))
                for kind in have:
                    variable = self._file.create_dataset(
                        f"{field}_{kind}", (ts.size, *shape), dtype, fillvalue=np.nan, chunks=(rows, *shape)
                    )
                    variable.attrs["units"] = where.unit
                    variable.attrs["long_name"] = f"{where.long_name or field}, {kind}"
                    if where.vector:
                        variable.attrs.update(vector=where.vector, component=where.component)
                    if where.radius:
                        variable.attrs["radius"] = where.radius
                    for axis, dim in enumerate(("time", *where.dims)):
                        variable.dims[axis].attach_scale(self._file[dim])
            marker = self._file.create_dataset("phase", data=phase.astype(np.int8))
            marker.attrs.update(long_name="0 fit, 1 forecast")
            marker.dims[0].attach_scale(self._file["time"])
            self._block = max(1, _BLOCK // max(frame_bytes, 1))
            growing.start(self._file)

    def _dimension(self, name: str, values: np.ndarray, unit: str) -> None:
        if np.asarray(values).dtype.kind in "US":
            scale = self._file.create_dataset(name, data=np.asarray(values, object), dtype=growing.TEXT)
        else:
            scale = self._file.create_dataset(name, data=values)
            # not `units`: xarray would decode "days" as a duration
            scale.attrs["unit" if name == "time" else "units"] = unit
        scale.make_scale(name)

    def append(self, frame: Mapping[str, Any]) -> None:
        """Add the next frame: arrays by the name of their variable. A variable that is left out stays NaN."""
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
            rows = [frame[name] for frame in self._pending if name in frame]
            if len(rows) == last - first:
                self._file[name][first:last] = np.stack(rows)
                continue
            for i, frame in enumerate(self._pending):
                if name in frame:
                    self._file[name][first + i] = frame[name]
        growing.commit(self._file, last)
        self._done, self._pending = last, []

    def __enter__(self) -> "FieldsFile":
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self._write()
        finally:
            self._file.close()
