"""From a laboratory's file to `Observations`."""

import csv
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdefit.errors import PdefitError, unknown
from pdefit.systems.observations import Observations


@dataclasses.dataclass(frozen=True)
class Recording:
    """A file's content: the observations, `extra` arrays read beside them (reference values of parameters, labels)."""

    observations: Observations
    extra: dict[str, np.ndarray]


def read_recording(
    path: Path,
    variables: Mapping[str, str],
    *,
    sigma: Mapping[str, str | float] | None = None,
    extra: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    time: str = "time",
    start: float = -np.inf,
    stop: float = np.inf,
) -> Recording:
    """Read an HDF5 (or NetCDF-4) file whose variables have time as their first axis; NaN means missing.

    **Arguments:** `variables` from field names to the file's variables; `sigma` for a field, a number or a variable, (n,)
    matching the first axis after time or broadcastable to a frame; `extra` arrays to read as they are; `units` expected of
    each field; `start`, `stop` the times wanted.
    """
    with _open(path) as file:
        ts = _array(file, time, path)
        if ts.dtype.kind == "U":
            raise PdefitError(
                f"Times in '{path.name}' ({time}) are text; numbers in the model's time unit are expected"
            )
        if ts.ndim != 1 or ts.size == 0 or not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0):
            raise PdefitError(f"Times in '{path.name}' ({time}) must be finite and increase; sort the file's frames")
        wanted = np.flatnonzero((ts >= start) & (ts <= stop))
        if wanted.size < 2:
            raise PdefitError(
                f"'{path.name}' has {wanted.size} frames between {start:g} and {stop:g}; its times run from {ts[0]:g} to "
                f"{ts[-1]:g}"
            )
        frames = slice(int(wanted[0]), int(wanted[-1]) + 1)
        values: dict[str, np.ndarray] = {}
        for field, name in variables.items():
            value = _array(file, name, path, frames, len(ts))
            if value.dtype.kind == "U":
                raise PdefitError(f"'{name}' in '{path.name}' is text; numbers are expected")
            _check_unit(file[name], (units or {}).get(field), name, path)
            if not np.any(np.isfinite(value)):
                raise PdefitError(f"All values of '{name}' in '{path.name}' are missing (NaN)")
            values[field] = value
        for field in sigma or {}:
            if field not in variables:
                raise unknown("variable (sigma)", field, variables)
        errors = {
            field: _sigma(file, source, values[field], path)
            for field, source in {**dict.fromkeys(variables, 1.0), **(sigma or {})}.items()
            if field in values
        }
        extras = {key: _array(file, name, path) for key, name in (extra or {}).items()}
    return Recording(Observations.build(ts[frames], values, errors), extras)


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


def _check_unit(dataset: Any, expected: str | None, name: str, path: Path) -> None:
    unit = dataset.attrs.get("units")
    unit = unit.decode() if isinstance(unit, bytes) else unit
    if expected is not None and unit is not None and str(unit) != expected:
        raise PdefitError(f"'{name}' in '{path.name}' is in {unit}, but the model expects {expected}; convert the file")


def _sigma(file: Any, source: str | float, value: np.ndarray, path: Path) -> np.ndarray:
    """Standard deviations with as many axes as the variable."""
    raw = _array(file, source, path) if isinstance(source, str) else np.asarray(source, float)
    if not np.all(np.isfinite(raw)) or np.any(raw <= 0):
        raise PdefitError(f"sigma in '{path.name}' ({source}) must be positive and finite everywhere")
    if raw.ndim == 1 and raw.shape == value.shape[1:2]:
        return raw.reshape((1, -1) + (1,) * (value.ndim - 2))
    try:
        np.broadcast_shapes(raw.shape, value.shape)
    except ValueError:
        raise PdefitError(
            f"sigma ({source}) has shape {raw.shape}, which does not fit values of shape {value.shape}"
        ) from None
    return raw
