"""From a laboratory's file to `Observations`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdefit.errors import PdefitError, unknown
from pdefit.files.datasets import array, opened, unit
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
    with opened(path) as file:
        ts = array(file, time, path)
        if ts.dtype.kind == "U":
            raise PdefitError(
                f"Times in '{path.name}' ({time}) are text; numbers in the model's time unit are expected"
            )
        if ts.ndim != 1 or ts.size == 0 or not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0):
            raise PdefitError(f"Times in '{path.name}' ({time}) must be finite and increase; sort the file's frames")
        ts = _conversion(unit(file, time, path), time_unit, time, path).values(ts)
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
            value = array(file, name, path, frames, len(ts))
            if value.dtype.kind == "U":
                raise PdefitError(f"'{name}' in '{path.name}' is text; numbers are expected")
            if not np.any(np.isfinite(value)):
                raise PdefitError(f"All values of '{name}' in '{path.name}' are missing (NaN)")
            stated[field] = unit(file, name, path)
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
    with opened(path) as file:
        return {key: array(file, name, path) for key, name in names.items()}


def _conversion(stated: str | None, expected: str | None, name: str, path: Path) -> Conversion:
    """From the file's unit to the model's."""
    try:
        return conversion(stated, expected)
    except PdefitError as error:
        raise PdefitError(
            f"'{name}' in '{path.name}' is in {stated}, but the model expects {expected}; {error}"
        ) from None


def _sigma(
    file: Any, source: str | float, value: np.ndarray, stated: str | None, expected: str | None, path: Path
) -> np.ndarray:
    """Standard deviations in the model's unit, with as many axes as the variable; `stated` is the variable's own."""
    if isinstance(source, str):
        raw, own = array(file, source, path), unit(file, source, path)
        if raw.dtype.kind == "U":
            raise PdefitError(f"sigma in '{path.name}' ({source}) is text; numbers are expected")
        raw = _conversion(stated if own in (None, "1") else own, expected, source, path).deviations(raw)
    else:
        try:
            raw = np.asarray(source, float)
        except (TypeError, ValueError, OverflowError):
            raise PdefitError(f"sigma expects a number, or a variable of '{path.name}', but got {source!r}") from None
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
