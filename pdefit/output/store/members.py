"""members.h5: estimates of many fits with their intervals and records, for xarray, NetCDF and HDF5 tools."""

from pathlib import Path
from typing import TYPE_CHECKING

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError
from pdefit.data.readers.hdf5 import open_netcdf

if TYPE_CHECKING:
    import xarray


def write_members(path: Path, found: "xarray.Dataset") -> None:
    """Write members.h5 (NetCDF-4).

    **Arguments:**

    - `path`: the path of the file.
    - `found`: variables along `member`, and records along `time`.
    """
    with beside(path) as neighbour:
        found.to_netcdf(neighbour, engine="h5netcdf")


def read_members(path: Path) -> "xarray.Dataset":
    """Content of members.h5. Raises `PdefitError` if it is missing or damaged."""
    try:
        with open_netcdf(path) as file:
            return file.load()
    except PdefitError:
        raise
    # h5py raises almost any exception for damaged bytes
    except Exception:
        raise PdefitError(f"'{path}' is missing or damaged; put it back from a copy") from None
