"""Velocity fields in one file of particle image velocimetry: NetCDF, or text of one of several programs.

A further format needs a function from a file and its first bytes to a dataset, and a row of `_FORMATS`.
"""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import xarray

from pdefit._util.errors import PdefitError
from pdefit._util.memory import too_large
from pdefit.data.readers.hdf5 import open_netcdf
from pdefit.data.readers.variable import sound

# columns and variables that state which vectors count: those for which the test holds
_FLAGS: dict[str, Callable[[Any], Any]] = {
    "chc": lambda a: a > 0,
    "valid": lambda a: a > 0,
    "mask": lambda a: a == 0,
    "flags": lambda a: (a == 0) | (a == _INTERPOLATED),
    # PIVlab's; masked vectors are 0
    "vector type": lambda a: (a == 1) | (a == _INTERPOLATED),
}
_INTERPOLATED = 2
_VECTORS = ("u", "v", "u_sigma", "v_sigma")
# names of times, and the unit of those in a table that states none
_TIMES = {"time": "s", "t": "s", "frame": "frame"}
# most deviation of a position from the raster, and distance of two positions that are one, in spacings
_OFF, _SAME = 0.1, 0.3
# larger positions are those of a damaged file
_LARGEST = 1e30
_HEAD = 8192
# bytes that are no UTF-8, such as µ of older programs, are Latin-1
_LATIN = {0xDC00 + byte: byte for byte in range(128, 256)}
# lines of PIVlab above its header, at most
_ABOVE = 6
# names that other programs give to components
_NAMES = {
    f"{word}{c}": n
    for word in ("u", "u_", "v", "v_", "vel_", "velocity_", "velocity ")
    for c, n in zip("xy", "uv", strict=True)
}
_NAMES |= {f"velocity {n}": n for n in "uv"}


def velocity_fields(file: Path) -> xarray.Dataset:
    """Velocity fields of one file, as stated there.

    **Returns:** `u`, `v`, and `u_sigma`, `v_sigma` if the file has them, over ascending x and y, and over t if it has
    times. Flags of vectors are kept for `doubts`. Attributes are units, `notes`, and, if stated: `pixel`, its length in
    m; `delay` between the images of a pair in s; `import_notes` of a file that pdefit wrote.
    """
    form, start = _format_of(file)
    if form is None:
        raise PdefitError(
            f"'{file.name}' is of no format that is known ({'; '.join(known.name for known in _FORMATS)}); export it as one"
        )
    fields = form.read(file, start)
    for name in "xy":
        axis = fields[name].values
        if axis.size < 2 or not np.all(np.abs(axis) < _LARGEST) or not np.all(np.diff(axis) > 0):
            raise PdefitError(f"Positions {name} in '{file.name}' are not two or more different numbers; correct them")
    units = {name: _unit(fields[name]) for name in ("x", "y", *components(fields))}
    for a, b in (("x", "y"), *(("u", name) for name in components(fields))):
        if units[a] != units[b]:
            raise PdefitError(f"'{file.name}' has {a} in {units[a]} and {b} in {units[b]}; export both in one unit")
    return fields


def components(fields: xarray.Dataset) -> list[str]:
    """Names of the vector components and of their standard deviations."""
    return [name for name in _VECTORS if name in fields and {*fields[name].dims} == {*fields["u"].dims}]


def stated(fields: xarray.Dataset) -> dict[str, Any]:
    """Facts stated by a file, which must agree in all files of a recording. A missing unit is None."""
    return {
        "length_unit": _unit(fields["x"]),
        "velocity_unit": _unit(fields["u"]),
        "time_unit": (_unit(fields["t"]) if "t" in fields.coords else None) or "frame",
        "names": components(fields),
        "pixel": fields.attrs.get("pixel"),
        "delay": fields.attrs.get("delay"),
    }


def doubts(frame: xarray.Dataset) -> tuple[xarray.DataArray, xarray.DataArray]:
    """Masks of the vectors of a frame that the file rejects, and of those that it interpolated."""
    rejected = interpolated = xarray.zeros_like(frame["u"], dtype=bool)
    for name in _FLAGS.keys() & frame.keys():
        # a point that a table leaves out is missing, not rejected
        left_out = frame[name].isnull() & frame["u"].isnull()
        rejected = rejected | ~(_FLAGS[name](frame[name]) | left_out)
        if name in ("flags", "vector type"):
            interpolated = interpolated | (frame[name] == _INTERPOLATED)
    return rejected, interpolated & ~rejected


def only_imported(file: Path) -> str | None:
    """Format of a file that must be imported; None for files that are read directly (HDF5, NetCDF, tables with times)."""
    form, start = _format_of(file)
    listed = form is not None and form.read is _table and not {*_TIMES}.isdisjoint(_header(_lines(start)[0])[0])
    return None if form is None or form.read is _netcdf or listed else form.name


def _netcdf(path: Path, start: bytes) -> xarray.Dataset:
    """u and v over x, y and time in any order, as written by xarray, pivpy and pdefit.

    A single variable `velocity` may replace u and v; its components are the last axis.
    """
    with sound("", path):
        data = open_netcdf(path)
    if "velocity" in data and data["velocity"].ndim and data["velocity"].shape[-1] == 2:
        last = data["velocity"].dims[-1]
        data = data.assign({name: data["velocity"].isel({last: i}) for i, name in enumerate("uv")})
    time = next((name for name in _TIMES if name in data.dims), None)
    axes = {"x", "y"} | ({time} if time else set())
    for name in ("u", "v", *axes):
        dims = {name} if name in axes else axes
        if name not in data or {*map(str, data[name].dims)} != dims or data[name].dtype.kind not in "buif":
            raise PdefitError(
                f"'{path.name}' has no variable {name} of real numbers, where u and v over x, y and time with positions are "
                f"expected; rename its variables and dimensions, e.g. by xarray's rename"
            )
    with sound("x", path):
        data = data.sortby(["x", "y"])
        data = data[[name for name in (*_VECTORS, *_FLAGS) if name in data and {*data[name].dims} <= axes]]
        data = data.assign_coords({name: data[name].astype(float) for name in axes})
    return data.rename({time: "t"} if time else {})


def _table(path: Path, start: bytes, row: int = 0, upward: int = 1, notes: list[str] | None = None) -> xarray.Dataset:
    """A table whose header names x, y, u, v, and optionally t or frame, u_sigma, v_sigma and flags."""
    units, separator = _header(_lines(start)[row])
    columns = _numbers(path, units, separator, row + 1)
    columns[["y", "v"]] *= upward
    left = [name for name in columns if name not in ("x", "y", *_VECTORS, *_TIMES, *_FLAGS)]
    if left and notes is None:
        notes = [f"Columns that are not read: {', '.join(left)}."]
    return _on_raster(path, columns, units).assign_attrs(notes=notes or [])


def _pivlab(path: Path, start: bytes) -> xarray.Dataset:
    """Vectors of a text file exported by PIVlab, in pixels or calibrated units."""
    row = next((i for i, line in enumerate(_lines(start)[:_ABOVE]) if _names_vectors(line)), None)
    if row is None:
        raise PdefitError(
            f"'{path.name}' has no columns x, y, u, v behind the first line of PIVlab; export it with a header"
        )
    note = "PIVlab's y and v point downwards; both are negated, so that they point upwards."
    return _table(path, start, row, -1, [note])


def _tsi(path: Path, start: bytes) -> xarray.Dataset:
    """A vector file of TSI Insight, with a Tecplot header."""
    first = _lines(start)[0]
    variables = re.split("DATASETAUXDATA|ZONE", first.partition("VARIABLES=")[2])[0]
    units = {name.lower(): unit.strip() for name, unit in re.findall(r'"\s*([^" ]*)([^"]*)"', variables)}
    if not {"x", "y", "u", "v"} <= {*units}:
        raise PdefitError(
            f"'{path.name}' has variables {', '.join(units)}, where X, Y, U, V are expected; export it again"
        )
    columns = _numbers(path, units, ",", 1)
    size = re.search(r"I=(\d+), *J=(\d+)", first)
    if size is not None and len(columns) != int(size[1]) * int(size[2]):
        raise PdefitError(
            f"'{path.name}' has {len(columns)} vectors, but its header states {size[1]} x {size[2]}; copy it again"
        )
    fields = _on_raster(path, columns, units)
    for name, stated in (("pixel", "MicrometersPerPixelX"), ("delay", "MicrosecondsPerDeltaT")):
        number = re.search(rf'{stated}="(\d+\.?\d*|\.\d+)"', first)
        fields.attrs[name] = float(number[1]) * 1e-6 or None if number else None
    return fields


def _lines(start: bytes) -> list[str]:
    """The first lines of a text, at least one."""
    return start.decode("utf-8-sig", errors="surrogateescape").translate(_LATIN).splitlines() or [""]


def _header(line: str) -> tuple[dict[str, str | None], str]:
    """Column names in lower case with their units, as in `x [px],y [px]`; and the separator."""
    separator = next((s for s in ";\t," if s in line), r"\s+")
    # a blank before a unit separates no columns
    cells = re.split(separator.replace("+", r"+(?![\s\[(])"), line.strip("# \r\n"))
    parts = [re.fullmatch(r"(.*?)\s*(?:[\[(](.*)[\])])?", cell.strip(' "')) for cell in cells]
    units = {part[1].lower(): part[2] for part in parts if part is not None}
    # a component that has its own name, too, keeps the other one
    names = {name: _NAMES[name] for name in units if name in _NAMES and _NAMES[name] not in units}
    return {names.get(name, name): unit for name, unit in units.items()}, separator


def _names_vectors(line: str) -> bool:
    """True if a line is a header with columns x, y, u and v."""
    return {"x", "y", "u", "v"} <= {*_header(line)[0]}


def _numbers(path: Path, units: Mapping[str, Any], separator: str, skip: int) -> pandas.DataFrame:
    """Columns of a table with the names in `units`, below `skip` lines; empty cells are NaN."""
    # a number takes two characters or more in the file
    if size := too_large((path.stat().st_size, 4)):
        raise PdefitError(f"'{path.name}' takes {size} of memory; cut it into one file a frame")
    try:
        options: Any = {"header": None, "dtype": float, "skipinitialspace": True, "encoding_errors": "replace"}
        # pandas takes a name such as http:a.csv for an address
        table = pandas.read_csv(path.absolute(), sep=separator, skiprows=skip, comment="#", **options)
    except (ValueError, OverflowError) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise PdefitError(f"'{path.name}' cannot be read as a table of numbers: {reason}; export it again") from None
    if table.shape[1] != len(units):
        raise PdefitError(
            f"'{path.name}' has rows of {table.shape[1]} numbers, but its header names {len(units)} columns "
            f"({', '.join(units)}); export it again"
        )
    return table.set_axis([*units], axis=1)


def _on_raster(path: Path, table: Any, units: Mapping[str, str | None]) -> xarray.Dataset:
    """Points in any order, as fields on a regular grid.

    Points absent from the table are missing values; they must be less than half of the grid.

    **Arguments:**

    - `path`: the file, for errors.
    - `table`: columns x, y, u, v, and optionally a time, u_sigma, v_sigma, flags.
    - `units`: the units of the columns.

    **Errors:** PdefitError if positions are not numbers, not on a regular grid, or repeated.
    """
    time = next((name for name in _TIMES if name in table), None)
    axes = ["x", "y", *([time] if time else [])]
    if table.empty or not np.isfinite(table[axes].to_numpy()).all():
        raise PdefitError(f"'{path.name}' has rows without a position or time, or none; export it again")
    for name in "xy":
        table[name] = _positions(table[name].to_numpy())
    sizes = table[axes].nunique()
    if min(sizes["x"], sizes["y"]) < 2 or 2 * len(table) <= math.prod(map(int, sizes)):
        raise PdefitError(
            f"'{path.name}' has {len(table)} points on no regular raster, which is expected; export vectors before they are "
            f"interpolated to other positions"
        )
    if table.duplicated(axes).any():
        raise PdefitError(
            f"'{path.name}' has two vectors at one position and time; remove one, or add a column t or frame"
        )
    taken = [name for name in (*_VECTORS, *_FLAGS) if name in table]
    fields = table.set_index(axes)[taken].to_xarray()
    for name in (*axes, *taken):
        fields[name].attrs["units"] = units[name] or _TIMES.get(name, "")
    return fields.rename({time: "t"} if time else {})


def _positions(values: np.ndarray) -> np.ndarray:
    """Values rounded to the positions of a regular grid; NaN if the spacing is uneven."""
    known = np.unique(values)
    gaps = np.diff(known)
    number = np.concatenate([[0], np.cumsum(gaps > _SAME * np.max(gaps, initial=0.0))])
    where = np.linspace(known[0], known[-1], number[-1] + 1)
    even = np.all(np.abs(known - where[number]) <= _OFF * (where[-1] - where[0]) / max(number[-1], 1))
    return where[number[np.searchsorted(known, values)]] if even else np.full(values.shape, np.nan)


def _unit(variable: xarray.DataArray) -> str | None:
    """The stated unit of a variable; for times since a date, its first word."""
    unit = str(variable.attrs.get("units", "")).partition(" since ")[0].strip()
    return unit if unit not in ("", "1") else None


class _Format(NamedTuple):
    """A file format: its name for users, the pattern of its first line, and its reader."""

    name: str
    begins: str
    read: Callable[[Path, bytes], xarray.Dataset]


# the first that fits reads the file; tables name vectors in their first line, too
_FORMATS = (
    _Format("NetCDF or HDF5 (u, v over x, y, t)", "\x89HDF|CDF", _netcdf),
    _Format("PIVlab text (PIVlab, ASCII chart output)", r"\s*PIVlab", _pivlab),
    _Format("TSI Insight (.vec)", r'.*TITLE=.*VARIABLES="X[^"]*", *"Y[^"]*", *"U', _tsi),
    _Format("OpenPIV text (# x y u v flags mask)", r"\s*#", _table),
    _Format("a table with a header (x,y,u,v,t)", "", _table),
)


def _format_of(file: Path) -> tuple[_Format | None, bytes]:
    """The format of a file (None if unknown), and the first bytes of the file."""
    with open(file, "rb") as raw:
        start = raw.read(_HEAD)
    first = _lines(start)[0]
    fits = [form for form in _FORMATS if re.match(form.begins, first)]
    return next((form for form in fits if form.read is not _table or _names_vectors(first)), None), start
