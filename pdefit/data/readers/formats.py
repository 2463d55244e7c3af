"""Opening of data files: HDF5, MATLAB, NumPy and text tables.

The record of a variable without numbers states its refusal, so that the other variables can be read. Nothing is
unpickled.
"""

import csv
import dataclasses
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.memory import too_large
from pdefit.data.readers.hdf5 import hdf5_variables, listed, open_hdf5
from pdefit.data.readers.variable import DAMAGED, DataFile, Variable, in_memory, refuse_many, sound
from pdefit.data.units import is_unit

# bytes of a table up to which it is read without pandas, which takes a second to load
_SMALL = 2**20
# copies in memory: as it was read, in float64, and converted
_COPIES = 3
# a name and its unit in brackets, and blanks between columns: no bracket follows them
_WITH_UNIT, _BLANKS = re.compile(r"(.*\S)\s+(?:\[([^\[\]]+)\]|\((.+)\))"), r"\s+(?![\[(])"
_NUMBERS = {"double", "single", "logical", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))}


class _Variable(NamedTuple):
    """A variable of a file: its name, its shape and unit if stated, and its reader."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[], Any]
    unit: str | None = None


# heads of columns, their number, and what reads one
_Columns = tuple[list[str], int, Callable[[int], np.ndarray]]


class _Refused(Exception):
    """The reason why a variable holds no numbers, and the texts that a column of a table holds instead."""


@contextmanager
def opened(path: Path) -> Iterator[DataFile]:
    """Context manager with the variables of a file."""
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise PdefitError(f"The data file '{path}' {found}; name a file that exists")
    if (read := _reader(path)) is not None:
        with sound("", path):
            records = _records(path, read(path))
        yield DataFile(path, sorted(records), records.__getitem__, is_foreign=True)
        return
    try:
        file = open_hdf5(path)
    # h5py answers damaged bytes with almost any exception
    except Exception:
        raise PdefitError(
            f"'{path}' is not an HDF5 file, or is truncated; copy it again or export it as HDF5, .mat, .npz or .csv"
        ) from None
    try:
        yield hdf5_variables(file, path)
    finally:
        with sound("", path):
            file.close()


def _reader(path: Path) -> Callable[[Path], Iterator[_Variable]] | None:
    """Reader of the variables of a file of another format; None for HDF5 and unknown formats."""
    with open(path, "rb") as file:
        start = file.read(10)
    if start.startswith(b"\x89HDF"):
        return None
    if start == b"MATLAB 7.3":
        return _matlab_7
    tables = dict.fromkeys((".csv", ".tsv", ".txt", ".dat"), _table)
    return {".mat": _matlab_5, ".npz": _archive, **tables}.get(path.suffix.lower())


def _records(path: Path, variables: Iterator[_Variable]) -> dict[str, Variable]:
    """Each variable in memory, or the reason why it is not read, such as too little memory."""
    records: dict[str, Variable] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (stated, shape, read, unit) in enumerate(variables, 1):
            refuse_many(number, path)
            # damaged names go on behind their end
            name = stated.partition("\0")[0]
            try:
                if size := too_large((*shape, _COPIES)):
                    raise _Refused(f"has shape {shape}, which takes {size} of memory; cut the file into parts")
                found = _parts(name, read())
            except _Refused as refused:
                reason, *texts = refused.args
                column = in_memory(name, path, *texts or [np.zeros(())])
                records.setdefault(name, dataclasses.replace(column, refusal=reason))
                continue
            # damaged bytes may raise any exception
            except Exception as error:
                pickled = "holds objects of Python (pickle), which are not read; store an array of numbers"
                found = {name: pickled if "pickle" in str(error) else DAMAGED}
            for key, value in found.items():
                empty = Variable(key, path, np.zeros(()), (), refusal=str(value))
                # of two variables of one name the first is read
                records.setdefault(key, empty if isinstance(value, str) else in_memory(key, path, value, unit))
    return records


def _parts(name: str, value: Any) -> dict[str, np.ndarray | str]:
    """An array by its name, the parts of complex numbers, or the fields of a structure; a text is the reason for a refusal."""
    if isinstance(value, Mapping):
        return {k: v for key, inner in value.items() for k, v in _parts(f"{name}/{key}", inner).items()}
    array: Any = np.asarray(value, object if isinstance(value, list) else None)
    if not array.size:
        return {name: "is empty; numbers are expected"}
    if array.dtype.kind == "c":
        parts = f"{name}_real", f"{name}_imag"
        told = f"holds complex numbers; name its parts, {' or '.join(parts)}"
        return {**dict(zip(parts, (array.real, array.imag), strict=True)), name: told}
    if array.dtype.kind not in "fiubUS":
        return {name: f"is of type {array.dtype}; store numbers without names or objects around them"}
    return {name: array.astype(np.uint8) if array.dtype.kind == "b" else array}


def _no_array(kind: str) -> _Refused:
    return _Refused(f"is of class {kind} (MATLAB); store its numbers as an array of their own")


def _matlab_5(path: Path) -> Iterator[_Variable]:
    """Variables of a MATLAB 4 to 7 file, with axes in MATLAB's order, without axes of length 1."""
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
    """Variables of a MATLAB 7.3 file, which is HDF5 with the axes in reverse order."""
    with open_hdf5(path) as stored:
        # cells refer to what begins so
        for name, item in listed(stored.visititems, path, ("#",)).items():
            if isinstance(item, h5py.Dataset) or "MATLAB_sparse" in item.attrs:
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
    """Columns of a text table with a header, possibly in a comment. Empty cells, NA and NaN are missing.

    Units follow the names in brackets, as in `t [h]`.
    """
    # a cell takes two characters or more in the file, and a text of Python in memory
    if size := too_large((path.stat().st_size, 4)):
        raise PdefitError(f"'{path.name}' takes {size} of memory; cut it into parts")
    above, first = "", "#"
    try:
        with open(path, encoding="utf-8-sig") as lines:
            while first.startswith("#") or first.isspace():
                above, first = first, lines.readline()
        separator = next((s for s in ";\t," if s in first), _BLANKS)
        refuse_many(len(re.split(separator, first)), path)
        heads, count, read = _plain(path, first, separator) or _cells(path, above, first, separator)
    except ValueError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise PdefitError(f"'{path.name}' cannot be read as a table of text: {reason}; correct it") from None
    heads = [head.strip() for head in heads]
    units = dict(map(_name_and_unit, heads))
    # brackets that tell columns apart are no units
    names = [*units] if len(units) == len(heads) else heads
    if len(names) != count:
        raise PdefitError(f"'{path.name}' has no header; write the names of its columns into its first line")
    if len(set(names)) < len(names):
        raise PdefitError(f"'{path.name}' has two columns of one name; give each its own")
    for column, name in enumerate(names):
        yield _Variable(name, (), partial(read, column), units.get(name))


def _plain(path: Path, first: str, separator: str) -> _Columns | None:
    """Columns of a small table with only numbers below its header `first`; None for other tables."""
    heads = re.split(separator, first.strip())
    if path.stat().st_size > _SMALL or re.search('["#]', first):
        return None
    with suppress(ValueError):
        _ = [float(head) for head in heads]
        # the names are in the comment above
        return None
    with open(path, encoding="utf-8-sig") as lines:
        rows = [line for line in lines if not line.isspace()]
    # nothing but the header
    if rows[-1:] in ([], [first]):
        return None
    try:
        numbers = np.loadtxt(
            rows[rows.index(first) + 1 :], delimiter=None if separator == _BLANKS else separator, comments=None, ndmin=2
        )
    except ValueError:
        return None
    return (heads, len(heads), lambda column: numbers[:, column]) if numbers.shape[1] == len(heads) else None


def _cells(path: Path, above: str, first: str, separator: str) -> _Columns:
    """Columns of any table."""
    # it takes a second to import
    import pandas

    # pandas is fast with plain blanks
    sep = r"\s+" if separator == _BLANKS and not re.search(r"\s[\[(]", first) else separator
    options = {"header": None, "comment": "#", "dtype": str, "skipinitialspace": True, "encoding": "utf-8-sig"}
    # pandas takes a name such as http:a.csv for an address
    cells = pandas.read_csv(path.absolute(), sep=sep, **options)
    numbers = cells.apply(pandas.to_numeric, errors="coerce")
    start = 0 if numbers.iloc[0].notna().all() else 1
    header = cells.iloc[0] if start else re.split(separator, above.strip("# \n"))

    def read(column: int) -> np.ndarray:
        values = numbers[column][start:]
        wrong = cells[column][start:][values.isna()].dropna()
        if wrong.size:
            raise _Refused(
                f"holds '{wrong.iloc[0][:30]}' in row {wrong.index[0] + 1 - start}, where a number with a decimal point is "
                f"expected; correct that column, and write units into the header, as in `t [h]`",
                np.asarray(cells[column][start:].fillna(""), h5py.string_dtype()),
            )
        return values.to_numpy(float)

    return [str(name) for name in header], cells.shape[1], read


def _name_and_unit(head: str) -> tuple[str, str | None]:
    """Name and unit of a column, as in `t [h]`; round brackets may hold a remark instead of a unit."""
    found = _WITH_UNIT.fullmatch(head)
    if found is None or not (found[2] or is_unit(found[3])):
        return head, None
    return found[1], "1" if found[2] == "-" else found[2] or found[3]


def read_table(path: Path) -> dict[str, dict[str, float]]:
    """Numbers of a CSV file with a header, by the first column of their row and the name of their column."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file, strict=True) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PdefitError(f"'{path.name}' cannot be read as a CSV table: {error}") from None
    if not header:
        raise PdefitError(f"'{path.name}' is empty; a CSV table with a header is expected")
    table: dict[str, dict[str, float]] = {}
    for row in rows:
        try:
            numbers = dict(zip(header[1:], map(float, row[1:]), strict=True))
        except ValueError as error:
            raise PdefitError(f"'{path.name}' is not a table of numbers: {error}") from None
        if row[0] in table or not all(map(math.isfinite, numbers.values())):
            raise PdefitError(f"The row '{row[0]}' of '{path.name}' is there twice, or not finite; correct it")
        table[row[0]] = numbers
    return table
