"""NetCDF and HDF5: u and v over x, y and time in any order, as xarray, pivpy and pdefit write them."""

from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.importers.piv.fields import FLAGS, Fields, flags_of, settle_units
from pdefit.data.readers.hdf5 import open_netcdf
from pdefit.data.readers.variable import sound

NAME = "NetCDF or HDF5 (u, v over x, y, t)"
_TIMES = ("time", "t", "frame")


def recognises(start: bytes) -> bool:
    """Test for the first bytes of HDF5 or classic NetCDF."""
    return start.startswith((b"\x89HDF", b"CDF"))


def read(path: Path, start: bytes) -> Fields:
    """The fields of a file. It may hold one variable `velocity` in place of u and v, its components the last axis.

    Vectors are rejected where `chc` or `valid` is 0 or less, `mask` is not 0, or `flags` is 1.

    **Arguments:**

    - `path`, `start`: the file, and its first bytes.
    """
    with sound("", path):
        data = open_netcdf(path)
    if "velocity" in data and data["velocity"].ndim and data["velocity"].shape[-1] == 2:
        parts = [data["velocity"].isel({data["velocity"].dims[-1]: i}) for i in range(2)]
        data = data.assign(u=parts[0], v=parts[1])
    time = next((name for name in _TIMES if name in data.dims), None)
    axes = {"x", "y"} | ({time} if time else set())
    for name in ("u", "v", *axes):
        if name not in data or {*map(str, data[name].dims)} != ({name} if name in axes else axes):
            raise PdefitError(
                f"'{path.name}' has no variable {name}, where u and v over x, y and time with positions are expected; rename "
                f"its variables and dimensions, e.g. by xarray's rename"
            )
    with sound("x", path):
        data = data.sortby(["x", "y"])
        names = [name for name in ("u", "v", "u_sigma", "v_sigma") if name in data and {*data[name].dims} == axes]
        flagged = [name for name in FLAGS if name in data and {*data[name].dims} <= axes]

    def at(number: int) -> dict[str, np.ndarray]:
        with sound("u", path):
            one = data if time is None else data.isel({time: number})
            field = {name: one[name].transpose("x", "y").values.astype(float) for name in names}
            stated = {name: one[name].broadcast_like(one["u"]).transpose("x", "y").values for name in flagged}
            return {**field, "flag": flags_of({**field, **stated})}

    found = Fields((data["x"].values.astype(float), data["y"].values.astype(float)), names, at)
    settle_units(path, found, {name: _unit(data[name]) for name in ("x", "y", *names)})
    found.imported = "import_notes" in data.attrs
    if time is not None:
        found.times, found.time_unit = data[time].values.astype(float), _unit(data[time]) or "frame"
    return found


def _unit(variable: Any) -> str | None:
    """The unit that a variable states; that of times since a date is the first word."""
    stated = "" if variable is None else str(variable.attrs.get("units", ""))
    return stated.partition(" since ")[0].strip() if stated.strip() not in ("", "1") else None
