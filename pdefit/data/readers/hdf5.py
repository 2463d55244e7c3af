"""The only place that opens HDF5 and NetCDF files for reading.

A foreign file can take its values from any file that its reader may read: by links, raw external storage or virtual
datasets. `refuse_foreign` searches a whole file for them. The record of a variable refuses them one by one, so that the
other variables of a data file remain usable.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers.variable import DataFile, Scale, Variable, is_empty_scale, refuse_many, sound, text

if TYPE_CHECKING:
    import xarray


def open_hdf5(path: Path) -> h5py.File:
    """A file opened without a lock, or with HDF5's lock if this process holds it open that way, as xarray does."""
    _refuse_pipe(path)
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if "locking" not in str(error):
            raise
        return h5py.File(path, "r")


def open_netcdf(path: Path) -> "xarray.Dataset":
    """A NetCDF (classic or not) or HDF5 file that takes no values from other files. Times stay numbers."""
    # it takes half a second to import
    import xarray

    _refuse_pipe(path)
    with open(path, "rb") as file:
        # classic NetCDF cannot lead to other files
        classic = file.read(3) == b"CDF"
    if not classic:
        with open_hdf5(path) as file:
            refuse_foreign(file, path)
    engine: Any = {"engine": "scipy"} if classic else {"engine": "h5netcdf", "phony_dims": "access"}
    return xarray.open_dataset(path, decode_times=False, decode_timedelta=False, **engine)


def _refuse_pipe(path: Path) -> None:
    """Refuse a path that is no regular file: opening a pipe or a device could block for ever."""
    if not path.is_file():
        raise PdefitError(f"'{path}' is missing, or no file; put it back from a copy")


def refuse_foreign(file: h5py.File, path: Path) -> None:
    """Refuse a file that takes values from other files: by links, raw external storage or virtual datasets."""

    with sound("", path):
        links, items = listed(file.visititems_links, path), listed(file.visititems, path)
        foreign = [name for name, link in links.items() if isinstance(link, h5py.ExternalLink)]
        foreign += [n for n, x in items.items() if isinstance(x, h5py.Dataset) and (x.external or x.is_virtual)]
    if foreign:
        raise PdefitError(f"'{foreign[0]}' in '{path}' takes its values from another file; copy them into this one")


def listed(visit: Callable[[Callable], Any], path: Path, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """Objects that a visitor of h5py finds in a file, by name. Links are not followed.

    **Arguments:**

    - `visit`, `path`: the method `visititems` or `visititems_links` of the file, and its path.
    - `skip`: prefixes of names to leave out.
    """
    found = dict[str, Any]()

    def add(name: str, item: object) -> None:
        found.update({} if name.startswith(skip) else {name: item})
        refuse_many(len(found), path, name)

    visit(add)
    return found


def hdf5_variables(file: h5py.File, path: Path) -> DataFile:
    """Variables of an open file. xarray is not used, since one variable that it rejects makes all others unreadable."""
    with sound("", path):
        stored = {name: x for name, x in listed(file.visititems, path).items() if isinstance(x, h5py.Dataset)}
        links = [n for n, x in listed(file.visititems_links, path).items() if not isinstance(x, h5py.HardLink)]
    return DataFile(path, stored, lambda name: _record(name, stored, path), links, file.attrs)


def _record(name: str, datasets: Mapping[str, h5py.Dataset], path: Path) -> Variable:
    stored = datasets[name]
    if stored.shape is None:
        return Variable(name, path, np.zeros(()), (), stored.attrs, refusal="is empty; numbers are expected")
    refusal = _refusal(stored)
    # a scale is that of its own axis
    one = stored.ndim == 1 and stored.is_scale
    scales = (
        [[_scale(name, stored)._replace(label=name.rpartition("/")[2].lower())]]
        if one
        else [_scales(stored, i, datasets) for i in range(stored.ndim)]
    )
    return Variable(name, path, stored, (*range(stored.ndim),), stored.attrs, tuple(scales), refusal)


def _refusal(stored: h5py.Dataset) -> str | None:
    """Reason why the values of a dataset are not read; None if they are."""
    kind = stored.dtype
    if stored.is_virtual or stored.external:
        return "takes its values from other files; copy them into this one"
    if h5py.check_string_dtype(kind) is not None or (kind.kind in "fiub" and not kind.metadata):
        return None
    if h5py.check_opaque_dtype(kind):
        return (
            "holds dates, where numbers are expected; store (t - t[0]) / numpy.timedelta64(1, 's') with the attribute "
            "units = 's', or write the file with xarray"
        )
    named = "an enumeration or a reference" if kind.metadata else f"of type {kind}"
    parts = "; write the parts of complex numbers as two variables" if kind.kind == "c" else ""
    return f"is {named}; numbers are expected{parts}"


def _scales(stored: h5py.Dataset, axis: int, datasets: Mapping[str, h5py.Dataset]) -> list[Scale]:
    """Dimension scales of an axis that lie in this file."""
    try:
        scales: Any = stored.dims[axis].values() if _lists_scales(stored) else []
        paths = [(str(scale.name or "").strip("/"), scale) for scale in scales]
        return [_scale(name, scale) for name, scale in paths if name in datasets]
    # h5py answers references that lead nowhere with almost any exception
    except Exception:
        return []


def _scale(name: str, stored: h5py.Dataset) -> Scale:
    called = text(stored.attrs.get("axis")) or name.rpartition("/")[2]
    # names of components are no positions
    return Scale(name, called.lower(), stored.dtype.kind in "iuf" and not is_empty_scale(stored.attrs))


def _lists_scales(stored: h5py.Dataset) -> bool:
    """True if a variable has a list of scales for each axis. HDF5 crashes if that attribute is anything else."""
    if "DIMENSION_LIST" not in stored.attrs:
        return False
    attribute = stored.attrs.get_id("DIMENSION_LIST")
    inside = h5py.check_vlen_dtype(attribute.dtype)
    return attribute.shape == (stored.ndim,) and inside is not None and h5py.check_ref_dtype(inside) is h5py.Reference
