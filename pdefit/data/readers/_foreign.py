"""Files of MATLAB and NumPy, and tables of text, read into an HDF5 file in memory.

The other readers take that file as they take any HDF5 file. A variable that holds no numbers is empty in it, with the reason
in its attribute `REFUSED`, so that the other variables can be read. No reader of this module unpickles anything.
"""

import io
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.memory import available_bytes, too_large
from pdefit.data.readers._text_tables import columns

REFUSED = "pdefit_refused"
# copies in memory: as it was read, in the HDF5 file, and in float64
_COPIES = 3
_TABLES = (".csv", ".tsv", ".txt", ".dat")
_NUMBERS = {"double", "single", "logical", "char", "sparse"} | {
    f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)
}
# bytes before the first variable of a file of MATLAB 5, bytes read at once, and the type of compressed variables
_HEADER, _CHUNK, _COMPRESSED = 128, 1 << 20, 15


def reader(path: Path) -> Callable[[h5py.File, Path], None] | None:
    """The function that reads a file of another format into an HDF5 file; None for HDF5 and what is unknown."""
    with open(path, "rb") as file:
        start = file.read(16)
    suffix = path.suffix.lower()
    if start.startswith(b"\x89HDF"):
        return None
    if start.startswith(b"MATLAB 7.3"):
        return _matlab_7
    if start.startswith(b"MATLAB 5") or suffix == ".mat":
        return _matlab_5
    if start.startswith(b"PK\x03\x04") or suffix == ".npz":
        return _archive
    return _table if suffix in _TABLES else None


def _put(file: h5py.File, name: str, value: Any) -> None:
    """Store an array, or the reason why it is none."""
    if isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        if not value.size:
            value = "is empty; numbers are expected"
        elif value.dtype.kind == "c":
            parts = {f"{name}_{part}": getattr(value, part) for part in ("real", "imag")}
            for part in parts:
                _put(file, part, parts[part])
            value = f"holds complex numbers; name its parts, {' or '.join(parts)}"
        elif value.dtype.kind in "US":
            value = np.asarray(value.astype(str), object)
        elif value.dtype.kind not in "fiub":
            value = f"is of type {value.dtype}; store numbers without names or objects around them"
        elif value.dtype.kind == "b":
            value = value.astype(np.uint8)
    try:
        if isinstance(value, str):
            file[name] = h5py.Empty("f8")
            file[name].attrs[REFUSED] = value
        else:
            file[name] = value.astype(float) if value.dtype.itemsize > 8 and value.dtype.kind == "f" else value
    # a name that HDF5 does not take, or one that is there twice
    except Exception:
        return


def _attempt(file: h5py.File, name: str, shape: Iterable[int], read: Callable[[], Any]) -> None:
    """Store what a reader returns, or why it failed; nothing is read that does not fit into memory."""
    if size := too_large((*shape, _COPIES)):
        return _put(file, name, f"has shape {tuple(shape)}, which takes {size} of memory; cut the file into parts")
    try:
        value: Any = read()
    # damaged bytes may raise any exception
    except Exception:
        value = "cannot be read; the file is damaged, copy it again"
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _attempt(file, f"{name}/{key}", (), lambda inner=inner: inner)
        return
    if hasattr(value, "toarray"):
        full = too_large((*value.shape, _COPIES))
        value = f"is sparse, and takes {full} of memory when it is filled; cut it" if full else value.toarray()
    known = isinstance(value, np.ndarray | np.generic | str)
    _put(
        file, name, value if known else np.asarray(value) if isinstance(value, int | float) else _no_array("cell array")
    )


def _no_array(kind: str) -> str:
    return f"is a {kind} of MATLAB; store its numbers as an array of their own"


def _matlab_5(file: h5py.File, path: Path) -> None:
    """Variables of a file of MATLAB 4 to 7, axes as MATLAB shows them; those of length 1 are dropped."""
    from scipy.io import loadmat, whosmat

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if size := _inflated(path):
            raise PdefitError(f"'{path.name}' holds {size} of compressed values; store its variables in several files")
        for name, shape, kind in whosmat(path):

            def read(name: str = name) -> Any:
                value = loadmat(path, variable_names=[name], simplify_cells=True)[name]
                return np.asarray(value) if isinstance(value, str) else value

            if kind in _NUMBERS or kind == "struct":
                _attempt(file, name, (0,) if kind == "sparse" else shape, read)
            else:
                _put(
                    file, name, _no_array({"cell": "cell array", "opaque": "table or object"}.get(str(kind), str(kind)))
                )


def _inflated(path: Path) -> str | None:
    """The size in words of compressed variables that do not fit into memory; None where they do."""
    room, total = available_bytes() / _COPIES, 0
    with open(path, "rb") as file:
        order = "big" if file.read(_HEADER)[126:] == b"MI" else "little"
        while len(tag := file.read(8)) == 8:
            kind, count = (int.from_bytes(tag[i : i + 4], order) for i in (0, 4))
            if kind != _COMPRESSED:
                file.seek(count, io.SEEK_CUR)
                continue
            unpack = zlib.decompressobj()
            rest = b""
            while (rest or count) and not unpack.eof:
                if not rest:
                    rest = file.read(min(count, _CHUNK))
                    count -= len(rest)
                    if not rest:
                        return None
                total += len(unpack.decompress(rest, _CHUNK))
                rest = unpack.unconsumed_tail
                if total > room:
                    return too_large((total, _COPIES), 1)
            file.seek(count, io.SEEK_CUR)
    return None


def _matlab_7(file: h5py.File, path: Path) -> None:
    """Variables of a file of MATLAB 7.3, which is HDF5 with the axes in reverse order."""
    with h5py.File(path, "r", locking=False) as stored:

        def take(name: str, item: Any) -> None:
            kind = _class(item)
            if name.startswith("#"):
                return
            if "MATLAB_sparse" in item.attrs:
                _attempt(file, name, item["data"].shape if "data" in item else (0,), lambda: _sparse(item))
            elif not isinstance(item, h5py.Dataset):
                for inner in item:
                    if isinstance(item.get(inner, getlink=True), h5py.HardLink):
                        take(f"{name}/{inner}", item[inner])
            elif kind and (kind not in _NUMBERS or "MATLAB_object_decode" in item.attrs):
                _put(file, name, _no_array({"cell": "cell array"}.get(kind, f"{kind} object")))
            elif item.is_virtual or item.external or item.dtype.metadata:
                _put(file, name, "takes its values from elsewhere; copy them into a variable of their own")
            elif "MATLAB_empty" in item.attrs or item.shape is None:
                _put(file, name, np.zeros(0))
            else:
                _attempt(file, name, item.shape, lambda: _values(item, kind))

        for name in map(str, stored):
            if isinstance(stored.get(name, getlink=True), h5py.HardLink):
                take(name, stored[name])


def _class(item: Any) -> str:
    """The class of MATLAB of a variable; empty where none is stated."""
    kind = item.attrs.get("MATLAB_class", b"")
    return kind.decode(errors="replace") if isinstance(kind, bytes) else str(kind)


def _values(stored: h5py.Dataset, kind: str) -> np.ndarray:
    values = np.asarray(stored[()]).T.squeeze()
    if kind == "char":
        return np.asarray("".join(map(chr, values.ravel())))
    if values.dtype.names == ("real", "imag"):
        return values["real"] + 1j * values["imag"]
    return values


def _sparse(item: Any) -> Any:
    from scipy.sparse import csc_array

    pointers, rows = (int(item.attrs["MATLAB_sparse"]), item["jc"][()])
    values, indices = (item["data"][()], item["ir"][()]) if "data" in item else (np.zeros(0), np.zeros(0, int))
    return csc_array((values, indices, rows), shape=(pointers, rows.size - 1))


def _archive(file: h5py.File, path: Path) -> None:
    """Arrays of a NumPy archive."""
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
        if not members:
            raise PdefitError(
                f"'{path.name}' is a zipped file without arrays of NumPy; export it as HDF5, .npz or .csv"
            )
        for member in members:
            name = member.filename.removesuffix(".npy")
            try:
                with archive.open(member) as raw:
                    version = np.lib.format.read_magic(raw)
                    one = version == (1, 0)
                    header = np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0
                    shape, _, dtype = header(raw)
            # damaged bytes may raise any exception
            except Exception:
                _put(file, name, "cannot be read; the file is damaged, copy it again")
                continue
            if dtype.hasobject:
                _put(file, name, "holds objects of Python (pickle), which are not read; store an array of numbers")
                continue

            def read(member: zipfile.ZipInfo = member) -> np.ndarray:
                with archive.open(member) as raw:
                    return np.lib.format.read_array(raw, allow_pickle=False)

            _attempt(file, name, (*shape, -(-dtype.itemsize // 8)), read)


def _table(file: h5py.File, path: Path) -> None:
    for name, values in columns(path).items():
        _put(file, name, values)
