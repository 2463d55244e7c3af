"""Coordinates that a file states for the axes of a variable."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers.datasets import array, own, shape, unit, variable

# the name of a dimension of NetCDF that has no coordinates
_EMPTY_SCALE = "This is a netCDF dimension but not a netCDF variable"


class Coordinate(NamedTuple):
    """Positions of the points along an axis.

    **Arguments:**

    - `name`: the variable of the file that holds them.
    - `values`: the positions, (n,).
    - `unit`: the unit that the file states, if any.
    - `precision`: the relative precision in which the file holds them; 0 for whole numbers.
    """

    name: str
    values: np.ndarray
    unit: str | None
    precision: float


def coordinate(
    file: h5py.File, name: str, axis: int, dims: Sequence[str | None], named: Mapping[str, str | None], path: Path
) -> Coordinate | None:
    """Positions along an axis of a variable, or None where the file states none.

    A file states positions in one of two ways. Either a dimension scale has the name of the model's axis (or the CF
    attribute `axis` of that name). Or a variable of that name lies beside the one that is read.

    **Arguments:**

    - `file`: an open file, and `path` its place, for errors.
    - `name`: the variable.
    - `axis`: the number of its axis, where 0 is time.
    - `dims`: the model's names of all axes after time; None for an axis that has none.
    - `named`: for some axes the variable that holds their positions, or None for no comparison.
    """
    dim, count = dims[axis - 1], shape(file, name, path)[axis]
    if dim is None or (dim in named and named[dim] is None):
        return None
    if (source := named.get(dim)) is not None:
        if shape(file, source, path) != (count,):
            raise PdefitError(
                f"'{source}' in '{path.name}' has shape {shape(file, source, path)}, but positions along {dim} of '{name}' are "
                f"{count} numbers; correct data.coordinates.{dim}"
            )
        return _read(file, source, path)
    names = [None if d is None else d.lower() for d in dims]
    for scale, label, without in scales(file, name, axis, path):
        if label == dim.lower():
            return None if without or shape(file, scale, path) != (count,) else _read(file, scale, path)
        if label in names:
            raise PdefitError(
                f"Axis {axis} of '{name}' in '{path.name}' is {label}, where the model has {dim}; transpose its values to "
                f"(time, {', '.join(str(d) for d in dims)})"
            )
    beside = f"{name.rpartition('/')[0]}/{dim}".strip("/")
    if (
        beside in own(file, path)
        and shape(file, beside, path) == (count,)
        and variable(file, beside, path).dtype.kind in "iuf"
    ):
        return _read(file, beside, path)
    return None


def scales(file: h5py.File, name: str, axis: int, path: Path) -> list[tuple[str, str, bool]]:
    """The dimension scales of an axis, each with its path in the file, its label, and whether it holds no positions."""
    try:
        stored = variable(file, name, path)
        if not lists_scales(stored):
            return []
        scales = stored.dims[axis].values()
    # a variable that was copied from another file lost its scales, which h5py says with almost any exception
    except Exception:
        return []
    inside, found = own(file, path), []
    for scale in scales:
        where = str(scale.name or "").strip("/")
        if where in inside:
            called = _text(scale.attrs.get("axis")) or where.rpartition("/")[2]
            # names of components are no positions
            found.append((where, called.lower(), scale.dtype.kind not in "iuf" or is_empty(scale)))
    return found


def is_empty(stored: h5py.Dataset) -> bool:
    """Test for a dimension without coordinates."""
    return _text(stored.attrs.get("NAME")).startswith(_EMPTY_SCALE)


def lists_scales(stored: h5py.Dataset) -> bool:
    """Test for a list of scales for each axis of a variable. HDF5 crashes where that attribute is anything else."""
    if "DIMENSION_LIST" not in stored.attrs:
        return False
    attribute = stored.attrs.get_id("DIMENSION_LIST")
    inside = h5py.check_vlen_dtype(attribute.dtype)
    return attribute.shape == (stored.ndim,) and inside is not None and h5py.check_ref_dtype(inside) is h5py.Reference


def _text(attribute: object) -> str:
    """An attribute as text; empty where it is none."""
    if isinstance(attribute, bytes):
        return attribute.decode(errors="replace")
    return attribute if isinstance(attribute, str) else ""


def _read(file: h5py.File, name: str, path: Path) -> Coordinate:
    values, kind = array(file, name, path), variable(file, name, path).dtype
    if values.dtype.kind != "f" or not np.all(np.isfinite(values)):
        raise PdefitError(f"The positions '{name}' in '{path.name}' must be finite numbers; correct them")
    precision = float(np.finfo(kind).eps) if kind.kind == "f" else 0.0
    return Coordinate(name, values, unit(file, name, path), precision)
