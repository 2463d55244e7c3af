"""Files of MATLAB and NumPy, and tables of text, read into an HDF5 file in memory.

The other readers take that file as they take any HDF5 file. A variable that holds no numbers is empty in it, with the reason
in its attribute `REFUSED`, so that the other variables can be read. No reader of this module unpickles anything.
"""

import contextlib
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.memory import too_large
from pdefit.data.readers.hdf5 import open_hdf5

REFUSED = "pdefit_refused"
# copies in memory: as it was read, in the HDF5 file, and in float64
_COPIES = 3
_NUMBERS = {"double", "single", "logical", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))}


class _Variable(NamedTuple):
    """A variable of a file: its name, its shape as far as the file states it, and the function that reads its value."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[], Any]


class _Refused(Exception):
    """A variable that holds no numbers, with the reason."""


def reader(path: Path) -> Callable[[Path], Iterator[_Variable]] | None:
    """The function that reads the variables of a file of another format; None for HDF5 and what is unknown."""
    with open(path, "rb") as file:
        start = file.read(10)
    if start.startswith(b"\x89HDF"):
        return None
    if start == b"MATLAB 7.3":
        return _matlab_7
    tables = dict.fromkeys((".csv", ".tsv", ".txt", ".dat"), _table)
    return {".mat": _matlab_5, ".npz": _archive, **tables}.get(path.suffix.lower())


def fill(file: h5py.File, variables: Iterator[_Variable]) -> None:
    """Store each variable in a file, or the reason why it is not read. What does not fit into memory is not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, shape, read in variables:
            try:
                if size := too_large((*shape, _COPIES)):
                    raise _Refused(f"has shape {shape}, which takes {size} of memory; cut the file into parts")
                _store(file, name, read())
            except _Refused as reason:
                _refuse(file, name, str(reason))
            # damaged bytes may raise any exception
            except Exception as error:
                pickled = "holds objects of Python (pickle), which are not read; store an array of numbers"
                damaged = "cannot be read; the file is damaged, copy it again"
                _refuse(file, name, pickled if "pickle" in str(error) else damaged)


def _refuse(file: h5py.File, name: str, reason: str) -> None:
    # a name that HDF5 does not take, or one that is there already, cannot be asked for
    with contextlib.suppress(Exception):
        file[name] = h5py.Empty("f8")
        file[name].attrs[REFUSED] = reason


def _store(file: h5py.File, name: str, value: Any) -> None:
    """Store an array, the parts of complex numbers, or the fields of a structure."""
    if isinstance(value, Mapping):
        fill(file, (_Variable(f"{name}/{key}", (), partial(lambda x: x, inner)) for key, inner in value.items()))
        return
    array: Any = np.asarray(value, object if isinstance(value, list) else None)
    if not array.size:
        raise _Refused("is empty; numbers are expected")
    if array.dtype.kind == "c":
        file[f"{name}_real"], file[f"{name}_imag"] = array.real, array.imag
        raise _Refused(f"holds complex numbers; name its parts, {name}_real or {name}_imag")
    if array.dtype.kind not in "fiubUS":
        raise _Refused(f"is of type {array.dtype}; store numbers without names or objects around them")
    stored = {"b": np.uint8, "U": object, "S": object}
    file[name] = array.astype(stored.get(array.dtype.kind, array.dtype), copy=False)


def _no_array(kind: str) -> _Refused:
    return _Refused(f"is of class {kind} (MATLAB); store its numbers as an array of their own")


def _matlab_5(path: Path) -> Iterator[_Variable]:
    """Variables of a file of MATLAB 4 to 7, axes as MATLAB shows them; those of length 1 are dropped."""
    from scipy.io import loadmat, whosmat

    def read(name: str, kind: str) -> Any:
        if kind not in {*_NUMBERS, "char", "struct"}:
            raise _no_array(kind)
        return loadmat(path, variable_names=[name], simplify_cells=True)[name]

    for name, shape, kind in whosmat(path):
        # a structure takes what the file does, or more
        size = (path.stat().st_size // 8,) if kind == "struct" else shape
        yield _Variable(name, size, partial(read, name, kind))


def _matlab_7(path: Path) -> Iterator[_Variable]:
    """Variables of a file of MATLAB 7.3, which is HDF5 with the axes in reverse order."""
    found: list[tuple[str, Any]] = []
    with open_hdf5(path) as stored:
        # does not follow links
        stored.visititems(lambda name, item: found.append((name, item)))
        for name, item in found:
            if not name.startswith("#") and (isinstance(item, h5py.Dataset) or "MATLAB_sparse" in item.attrs):
                yield _Variable(name, getattr(item, "shape", None) or (), partial(_values, item))


def _values(item: Any) -> Any:
    kind = np.bytes_(item.attrs.get("MATLAB_class", b"double")).decode()
    if "MATLAB_sparse" in item.attrs:
        raise _no_array("sparse")
    if kind not in {*_NUMBERS, "char"} or "MATLAB_object_decode" in item.attrs:
        raise _no_array(kind)
    if item.is_virtual or item.external or item.dtype.metadata:
        raise _Refused("takes its values from elsewhere; copy them into a variable of their own")
    values: Any = np.zeros(0) if "MATLAB_empty" in item.attrs else np.asarray(item[()]).T.squeeze()
    if kind == "char":
        return np.asarray("".join(map(chr, values.ravel())))
    return values["real"] + 1j * values["imag"] if values.dtype.names == ("real", "imag") else values


def _archive(path: Path) -> Iterator[_Variable]:
    """Arrays of a NumPy archive."""
    with zipfile.ZipFile(path) as archive:

        def read(member: zipfile.ZipInfo) -> np.ndarray:
            with archive.open(member) as raw:
                return np.lib.format.read_array(raw, allow_pickle=False)

        for member in archive.infolist():
            # nothing is read beyond the size that the archive states
            yield _Variable(member.filename.removesuffix(".npy"), (member.file_size // 8,), partial(read, member))


def _table(path: Path) -> Iterator[_Variable]:
    """Columns of a table of text with a header, which may be the comment above it. Empty cells, NA and NaN are missing."""
    import pandas

    # a cell takes two characters or more in the file, and a text of Python in memory
    if size := too_large((path.stat().st_size, 4)):
        raise PdefitError(f"'{path.name}' takes {size} of memory; cut it into parts")
    above, first = "", "#"
    try:
        with open(path, encoding="utf-8-sig") as lines:
            while first.startswith("#") or first.isspace():
                above, first = first, lines.readline()
        separator = next((s for s in ";\t," if s in first), r"\s+")
        options = {"header": None, "comment": "#", "dtype": str, "skipinitialspace": True, "encoding": "utf-8-sig"}
        # pandas takes a name such as http:a.csv for an address
        cells = pandas.read_csv(path.absolute(), sep=separator, **options)
    except ValueError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise PdefitError(f"'{path.name}' cannot be read as a table of text: {reason}; correct it") from None
    numbers = cells.apply(pandas.to_numeric, errors="coerce")
    start = 0 if numbers.iloc[0].notna().all() else 1
    header = cells.iloc[0] if start else re.split(separator, above.strip("# \n"))
    names = [str(name).strip() for name in header]
    if len(names) != cells.shape[1]:
        raise PdefitError(f"'{path.name}' has no header; write the names of its columns into its first line")
    if len(set(names)) < len(names):
        raise PdefitError(f"'{path.name}' has two columns of one name; give each its own")

    def read(column: int) -> np.ndarray:
        values = numbers[column][start:]
        wrong = cells[column][start:][values.isna()].dropna()
        if wrong.size:
            raise _Refused(
                f"holds '{wrong.iloc[0][:30]}' in row {wrong.index[0] + 1 - start}, where a number with a decimal point is "
                f"expected; correct that column"
            )
        return values.to_numpy(float)

    for column, name in enumerate(names):
        yield _Variable(name, (), partial(read, column))
