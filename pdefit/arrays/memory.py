"""How much memory there is, so that what cannot fit is refused before it is asked for."""

import math
import os
import re
from collections.abc import Sequence
from typing import Any

from pdefit.errors import PdefitError

_SIZES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}


def size_in_bytes(size: Any, key: str) -> float:
    """A size such as "64 MB", or a number of bytes, that a user gave for `key`."""
    parts = re.fullmatch(r"([-+.\de]+?) ?([a-z]*)", str(size).strip().lower())
    try:
        found = float(parts[1]) * _SIZES[parts[2] or "b"] if parts else math.nan
    except (KeyError, ValueError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise PdefitError(f"{key} expects a size like '2 GB', but got '{size}'")
    return found


def in_words(size: float | int) -> str:
    """A number of bytes as a person would say it."""
    unit = max(
        (u for u in ("B", "kB", "MB", "GB", "TB") if _SIZES[u.lower()] <= size),
        key=lambda u: _SIZES[u.lower()],
        default="B",
    )
    return f"{size / _SIZES[unit.lower()]:.3g} {unit}"


def available_bytes() -> float:
    """The memory of this machine; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return math.inf


def too_large(shape: Sequence[int], itemsize: int = 8) -> str | None:
    """What an array of this shape would take, in words, if this machine cannot hold it."""
    size = math.prod(int(n) for n in shape) * itemsize
    return f"{min(size, 10**300) / 1e9:.3g} GB" if size > available_bytes() else None
