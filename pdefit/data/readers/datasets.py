"""Checked reading of arrays and units from data files, which may be damaged or come from anywhere.

Files of MATLAB and NumPy, and tables of text, are read into an HDF5 file in memory when they are opened.

Functions take the open file, the name of a variable, and the path of the file for errors. Whatever is wrong with a file
is a `PdefitError`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import h5py
import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import too_large
from pdefit.data.readers._foreign import REFUSED, fill, reader
from pdefit.data.readers._packing import unpacked
from pdefit.data.readers.hdf5 import open_hdf5

# attributes of dimension scales, which refer to the file that they are in
OF_SCALES = {"DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME"}
# the attribute of a file in memory whose axes have their names from another one
_NAMED = "pdefit_named"
# the attribute of an open file, in Python, with the names of its datasets
_LISTED = "_pdefit_listed"
# copies in memory: as it is in the file, in float64, and converted
_COPIES = 3


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """A file opened for reading, and closed at the end of the block."""
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise PdefitError(f"The data file '{path}' {found}; name a file that exists")
    try:
        read = reader(path)
        file = open_hdf5(path) if read is None else in_memory()
    # h5py answers damaged bytes with almost any exception
    except Exception:
        raise PdefitError(
            f"'{path}' is not an HDF5 file, or is truncated; copy it again or export it as HDF5, .mat, .npz or .csv"
        ) from None
    try:
        if read is not None:
            with sound("", path):
                fill(file, read(path))
        yield file
    finally:
        with sound("", path):
            file.close()


def in_memory(named: bool = False) -> h5py.File:
    """An empty HDF5 file that no disk holds.

    **Arguments:** `named`: whether it is a part of a file that is not foreign.
    """
    file = h5py.File(f"memory {uuid4()}", "w", driver="core", backing_store=False)
    file.attrs[_NAMED] = named
    return file


def is_foreign(file: h5py.File) -> bool:
    """Test for a file that was read from another format, which names no axes."""
    return file.driver == "core" and not file.attrs[_NAMED]


def array(file: h5py.File, name: str, path: Path, frames: slice | None = None, count: int | None = None) -> np.ndarray:
    """The values of a variable: numbers in float64, unpacked and NaN where missing, or texts.

    **Arguments:**

    - `file`, `name`, `path`: as of all functions of this module.
    - `frames`: the part of the first axis to read; by default all of it.
    - `count`: the length that the first axis must have, where that is known.
    """
    with sound(name, path):
        dataset, where = variable(file, name, path), f"'{name}' in '{path.name}'"
        if count is not None and dataset.shape[:1] != (count,):
            raise PdefitError(f"{where} has shape {dataset.shape}; its first axis must be the {count} times")
        text = is_text(dataset)
        wanted = dataset.shape
        if frames is not None:
            wanted = (len(range(*frames.indices(wanted[0]))), *wanted[1:])
        if size := too_large((*wanted, _COPIES)):
            raise PdefitError(f"{where} has shape {wanted}, which takes {size} of memory; cut the file into parts")
        raw = dataset[() if frames is None else frames]
        if text:
            found = [x.decode(errors="replace") if isinstance(x, bytes) else str(x) for x in np.ravel(raw)]
            return np.asarray(found, str)
        return unpacked(np.asarray(raw), dataset.attrs, where)


def shape(file: h5py.File, name: str, path: Path) -> tuple[int, ...]:
    """The shape of a variable; () for one without values."""
    with sound(name, path):
        return tuple(raw_variable(file, name, path).shape or ())


def unit(file: h5py.File, name: str, path: Path) -> str | None:
    """The unit that a file states for a variable, or None.

    Of CF times such as "days since 1970-01-01" it is the first word.
    """
    with sound(name, path):
        attributes = raw_variable(file, name, path).attrs
        stated = attributes.get("units", attributes.get("unit"))
    if stated is None or isinstance(stated, h5py.Empty) or np.size(stated) != 1:
        return None
    text = np.ravel(stated)[0]
    # bytes that are no UTF-8 come as lone surrogates, which no file or terminal takes
    raw = text if isinstance(text, bytes) else str(text).encode(errors="surrogateescape")
    return raw.decode(errors="replace").split(" since ")[0].strip()


def variable(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """The dataset of a name, which must hold numbers or texts, in this very file."""
    with sound(name, path):
        dataset, where = raw_variable(file, name, path), f"'{name}' in '{path.name}'"
        if dataset.shape is None:
            raise PdefitError(f"{where} {dataset.attrs.get(REFUSED) or 'is empty; numbers are expected'}")
        if dataset.is_virtual or dataset.external:
            raise PdefitError(f"{where} takes its values from other files; copy them into this one")
        kind = dataset.dtype
        if not is_text(dataset) and (kind.kind not in "fiub" or kind.metadata):
            if h5py.check_opaque_dtype(kind):
                raise PdefitError(
                    f"{where} holds dates, where numbers are expected; store (t - t[0]) / numpy.timedelta64(1, 's') with the "
                    f"attribute units = 's', or write the file with xarray"
                )
            named = "an enumeration or a reference" if kind.metadata else f"of type {kind}"
            parts = "; write the parts of complex numbers as two variables" if kind.kind == "c" else ""
            raise PdefitError(f"{where} is {named}; numbers are expected{parts}")
        return dataset


def is_text(dataset: h5py.Dataset) -> bool:
    """Whether a dataset holds strings."""
    return h5py.check_string_dtype(dataset.dtype) is not None


def own(file: h5py.File, path: Path) -> list[str]:
    """The names of all datasets of a file. Links are not followed: they may lead to other files, or in circles.

    The listing is made once for each open file, and stays with it. A file in memory is complete before it is read.
    """
    if _LISTED not in vars(file):
        names: list[str] = []
        with sound("", path):
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        vars(file)[_LISTED] = names
    return vars(file)[_LISTED]


def import_notes(file: h5py.File, path: Path) -> list[str]:
    """Sentences of `pdefit import` on what it did; none in files that it did not write."""
    with sound("", path):
        text = file.attrs.get("import_notes", "")
    return text.splitlines() if isinstance(text, str) else []


def raw_variable(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """The dataset of a name, whatever it holds."""
    if name not in (available := own(file, path)):
        if isinstance(file.get(name, getlink=True), h5py.SoftLink | h5py.ExternalLink):
            raise PdefitError(
                f"'{name}' in '{path.name}' is a link; name the variable it leads to, or copy it into this file"
            )
        raise unknown(f"variable in '{path.name}'", name, available)
    found = file[name]
    assert isinstance(found, h5py.Dataset)
    return found


@contextmanager
def sound(name: str, path: Path) -> Iterator[None]:
    """A block in which any error of h5py, which damaged bytes cause, becomes a `PdefitError`."""
    try:
        yield
    except PdefitError:
        raise
    except Exception:
        what = f"'{name}' in '{path.name}'" if name else f"'{path.name}'"
        raise PdefitError(f"{what} cannot be read; the file is damaged, copy it again") from None
