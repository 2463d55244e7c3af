"""From a laboratory's file to `Observations`."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdefit.errors import PdefitError, unknown
from pdefit.files.units import Conversion, conversion
from pdefit.systems.observations import Observations


def read_observations(
    path: Path,
    variables: Mapping[str, str],
    *,
    sigma: Mapping[str, str | float] | None = None,
    units: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    time: str = "time",
    start: float = -np.inf,
    stop: float = np.inf,
) -> Observations:
    """Read an HDF5 (or NetCDF-4) file whose variables have time as their first axis; NaN means missing.

    **Arguments:** `variables` from field names to the file's variables; `sigma` for a field, a number or a variable, (n,)
    matching the first axis after time or broadcastable to a frame; `units` the model's for each field and `time_unit` for
    the time; `start`, `stop` the times wanted. Values and times come out in the model's units, and so does a sigma from the
    file (in its own unit, or its variable's); numbers given here are in the model's units already.
    """
    with _open(path) as file:
        ts = _array(file, time, path)
        if ts.dtype.kind == "U":
            raise PdefitError(
                f"Times in '{path.name}' ({time}) are text; numbers in the model's time unit are expected"
            )
        if ts.ndim != 1 or ts.size == 0 or not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0):
            raise PdefitError(f"Times in '{path.name}' ({time}) must be finite and increase; sort the file's frames")
        ts = _conversion(_unit(file[time]), time_unit, time, path).values(ts)
        wanted = np.flatnonzero((ts >= start) & (ts <= stop))
        if wanted.size < 2:
            raise PdefitError(
                f"'{path.name}' has {wanted.size} frames between {start:g} and {stop:g}; its times run from {ts[0]:g} to "
                f"{ts[-1]:g}"
            )
        frames = slice(int(wanted[0]), int(wanted[-1]) + 1)
        values: dict[str, np.ndarray] = {}
        stated: dict[str, str | None] = {}
        expected = units or {}
        for field, name in variables.items():
            value = _array(file, name, path, frames, len(ts))
            if value.dtype.kind == "U":
                raise PdefitError(f"'{name}' in '{path.name}' is text; numbers are expected")
            if not np.any(np.isfinite(value)):
                raise PdefitError(f"All values of '{name}' in '{path.name}' are missing (NaN)")
            stated[field] = _unit(file[name])
            values[field] = _conversion(stated[field], expected.get(field), name, path).values(value)
        for field in sigma or {}:
            if field not in variables:
                raise unknown("variable (sigma)", field, variables)
        errors = {
            field: _sigma(file, source, values[field], stated[field], expected.get(field), path)
            for field, source in {**dict.fromkeys(variables, 1.0), **(sigma or {})}.items()
            if field in values
        }
    return Observations.build(ts[frames], values, errors)


def read_arrays(path: Path, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Arrays that belong to the system rather than to the film (reference parameters, labels), under the keys of `names`."""
    with _open(path) as file:
        return {key: _array(file, name, path) for key, name in names.items()}


def read_table(path: Path) -> dict[str, dict[str, float]]:
    """A CSV file with a header: for each row, by its first column, the numbers in the other columns."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows, None)
        if not header:
            raise PdefitError(f"'{path.name}' is empty; a CSV table with a header is expected")
        try:
            return {r[0]: dict(zip(header[1:], map(float, r[1:]), strict=True)) for r in rows if r}
        except ValueError as error:
            raise PdefitError(f"'{path.name}' is not a table of numbers: {error}") from None


def _open(path: Path) -> Any:
    if not path.is_file():
        raise PdefitError(f"The data file '{path}' does not exist")
    try:
        return h5py.File(path, "r", locking=False)
    except OSError:
        raise PdefitError(
            f"'{path}' is not an HDF5 file, or is truncated; copy it again or export it as HDF5"
        ) from None


def _array(file: Any, name: str, path: Path, frames: slice | None = None, count: int | None = None) -> np.ndarray:
    available: list[str] = []
    file.visititems(lambda n, item: available.append(n) if isinstance(item, h5py.Dataset) else None)
    if name not in available:
        raise unknown(f"variable in '{path.name}'", name, available)
    dataset = file[name]
    if count is not None and dataset.shape[:1] != (count,):
        raise PdefitError(
            f"'{name}' in '{path.name}' has shape {dataset.shape}; its first axis must be the {count} times"
        )
    try:
        raw = dataset[() if frames is None else frames]
    except OSError:
        raise PdefitError(f"'{name}' in '{path.name}' cannot be read; the file is damaged, copy it again") from None
    if isinstance(raw, bytes | str) or raw.dtype.kind in "OS":
        return np.asarray([x.decode() if isinstance(x, bytes) else str(x) for x in np.ravel(raw)])
    if raw.dtype.kind not in "fiub":
        raise PdefitError(f"'{name}' in '{path.name}' is of type {raw.dtype}; numbers are expected")
    return np.asarray(raw, np.float64)


def _unit(dataset: Any) -> str | None:
    """The unit a file states; CF times read "days since 1970-01-01"."""
    stated = dataset.attrs.get("units", dataset.attrs.get("unit"))
    if stated is None or np.size(stated) != 1:
        return None
    text = np.ravel(stated)[0]
    return (text.decode(errors="replace") if isinstance(text, bytes) else str(text)).split(" since ")[0].strip()


def _conversion(unit: str | None, expected: str | None, name: str, path: Path) -> Conversion:
    """From the file's unit to the model's."""
    try:
        return conversion(unit, expected)
    except PdefitError as error:
        raise PdefitError(
            f"'{name}' in '{path.name}' is in {unit}, but the model expects {expected}; {error}"
        ) from None


def _sigma(
    file: Any, source: str | float, value: np.ndarray, unit: str | None, expected: str | None, path: Path
) -> np.ndarray:
    """Standard deviations in the model's unit, with as many axes as the variable; `unit` is the variable's own."""
    if isinstance(source, str):
        raw, own = _array(file, source, path), _unit(file[source])
        if raw.dtype.kind == "U":
            raise PdefitError(f"sigma in '{path.name}' ({source}) is text; numbers are expected")
        raw = _conversion(unit if own in (None, "1") else own, expected, source, path).deviations(raw)
    else:
        raw = np.asarray(source, float)
    if not np.all(np.isfinite(raw)) or np.any(raw <= 0):
        raise PdefitError(f"sigma in '{path.name}' ({source}) must be positive and finite everywhere")
    if raw.ndim == 1 and raw.shape == value.shape[1:2]:
        return raw
    try:
        np.broadcast_shapes(raw.shape, value.shape)
    except ValueError:
        raise PdefitError(
            f"sigma ({source}) has shape {raw.shape}, which does not fit values of shape {value.shape}"
        ) from None
    return raw
