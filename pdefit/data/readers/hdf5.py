"""The one place where HDF5 and NetCDF files are opened for reading.

A file from somebody else can take its values from any file that its reader may read: by links, raw external storage or
virtual datasets. `refuse_foreign` looks for them in a whole file. `datasets.variable` refuses them one by one, so that
the other variables of a data file can be used.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

from pdefit._util.errors import PdefitError

if TYPE_CHECKING:
    import xarray


def open_hdf5(path: Path) -> h5py.File:
    """A file opened without a lock; with HDF5's own, where this process has it open that way, as xarray does."""
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if "locking" not in str(error):
            raise
        return h5py.File(path, "r")


def open_netcdf(path: Path) -> "xarray.Dataset":
    """A file of NetCDF, classic or not, or of HDF5, that takes no values from other files. Times stay numbers."""
    # it takes half a second to import
    import xarray

    with open(path, "rb") as file:
        # classic NetCDF cannot lead to other files
        classic = file.read(3) == b"CDF"
    if not classic:
        with open_hdf5(path) as file:
            refuse_foreign(file, path)
    engine: Any = {"engine": "scipy"} if classic else {"engine": "h5netcdf", "phony_dims": "access"}
    return xarray.open_dataset(path, decode_times=False, decode_timedelta=False, **engine)


def refuse_foreign(file: h5py.File, path: Path) -> None:
    """Refuse a file that takes values from other files: by links, raw external storage or virtual datasets."""

    def by_link(name: str, link: object) -> str | None:
        return name if isinstance(link, h5py.ExternalLink) else None

    def by_storage(name: str, item: object) -> str | None:
        return name if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual) else None

    try:
        # neither of the two follows links
        name = file.visititems_links(by_link) or file.visititems(by_storage)
    # h5py answers damaged bytes with almost any exception
    except Exception:
        raise PdefitError(f"'{path.name}' cannot be read; the file is damaged, copy it again") from None
    if name:
        raise PdefitError(f"'{name}' in '{path}' takes its values from another file; copy them into this one")
