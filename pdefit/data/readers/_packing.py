"""Unpacking of values by the CF conventions: scale, offset, fill values and valid ranges."""

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from pdefit._util.errors import PdefitError

_SCALING, _FILLS = ("scale_factor", "add_offset"), ("_FillValue", "missing_value")
_LIMITS = ("valid_min", "valid_max", "valid_range")


def is_scaled(attributes: Mapping[str, Any]) -> bool:
    """True if the file states a scale or an offset for its numbers."""
    return any(key in attributes for key in _SCALING)


def unpacked(raw: np.ndarray, attributes: Mapping[str, Any], where: str) -> np.ndarray:
    """Values in float64; NaN for values that the file marks as missing or invalid.

    Masks and scales equal those of `xarray.decode_cf`, against which they are tested. That function is not used,
    because it leaves valid ranges to the user, and the packed limits are lost once it has decoded the values.

    Fill values and valid ranges are in packed units. By NetCDF's own guide, a floating-point valid range of packed
    integers is in unpacked units.

    **Arguments:**

    - `raw`: the stored numbers.
    - `attributes`: the attributes of the variable.
    - `where`: the variable and its file in words, for errors.
    """
    known = {key: _numbers(attributes[key], key, where) for key in (*_SCALING, *_FILLS, *_LIMITS) if key in attributes}
    if raw.dtype.kind in "iu" and (sign := _sign(attributes)) not in (None, raw.dtype.kind):
        # integers of NetCDF-3 are always signed, and bytes of OPeNDAP never are: `_Unsigned` states what they stand
        # for, and limits of the same type are reinterpreted with them
        old, new = (np.dtype(f"{kind}{raw.dtype.itemsize}") for kind in (raw.dtype.kind, sign))
        alike = {key: (x.dtype.kind, x.dtype.itemsize) == (old.kind, old.itemsize) for key, x in known.items()}
        known = {k: x.astype(old).view(new) if alike[k] and k not in _SCALING else x for k, x in known.items()}
        raw = raw.astype(old).view(new)
    if not known:
        return np.asarray(raw, np.float64)
    scale, offset = (
        _one(known.get(key), default, key, where) for key, default in zip(_SCALING, (1.0, 0.0), strict=True)
    )
    low, high = _limits(known, where)
    fills = np.concatenate([np.zeros(0), *(_like(known[key], raw) for key in _FILLS if key in known)])
    values = raw.astype(np.float64)
    missing = np.isin(values, fills) if fills.size else np.zeros(raw.shape, bool)
    # values that overflow become infinite, and are refused as such by the caller
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * scale + offset if is_scaled(attributes) else values
    limited = scaled if raw.dtype.kind in "iu" and low.dtype.kind == high.dtype.kind == "f" else values
    missing |= (limited < low) | (limited > high)
    return np.where(missing, np.nan, scaled) if missing.any() else scaled


def _sign(attributes: Mapping[str, Any]) -> str | None:
    """The kind of integers stated by `_Unsigned`, `u` or `i`; None without it."""
    stated = attributes.get("_Unsigned")
    text = stated.decode(errors="replace") if isinstance(stated, bytes) else str(stated)
    return {"true": "u", "false": "i"}.get(text.lower())


def _numbers(value: Any, key: str, where: str) -> np.ndarray:
    """An attribute as a one-dimensional array of numbers."""
    found = np.ravel(value) if not isinstance(value, h5py.Empty) else np.zeros(0)
    if found.size == 0 or found.dtype.kind not in "iuf":
        raise PdefitError(f"{key} of {where} is no number; correct the attribute, or remove it")
    return found


def _one(value: np.ndarray | None, default: float, key: str, where: str) -> float:
    """A scale or offset: one finite number; a scale must not be zero."""
    if value is None:
        return default
    if value.size != 1 or not np.isfinite(value[0]) or (key == "scale_factor" and value[0] == 0):
        raise PdefitError(
            f"{key} of {where} is {value.tolist()}; one finite number is expected, of a scale other than 0"
        )
    return float(value[0])


def _limits(known: Mapping[str, np.ndarray], where: str) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest valid value."""
    low, high = -np.inf, np.inf
    if "valid_range" in known:
        if known["valid_range"].size != 2:
            raise PdefitError(f"valid_range of {where} is {known['valid_range'].tolist()}; two numbers are expected")
        low, high = known["valid_range"]
    return np.asarray(known.get("valid_min", [low])[0]), np.asarray(known.get("valid_max", [high])[0])


def _like(fill: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Fill values in the type of the data: 1e20 in float64 equals no number in float32."""
    with np.errstate(over="ignore"):
        return fill.astype(raw.dtype if raw.dtype.kind == "f" else fill.dtype).astype(np.float64)
