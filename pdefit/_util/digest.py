"""SHA-256 of what a result was made of: text and arrays."""

import hashlib
import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike


def digest(parts: Iterable[bytes]) -> str:
    """Of all parts, one after the other."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()


def contents(arrays: Iterable[ArrayLike]) -> Iterator[bytes]:
    """The types, shapes and values of arrays."""
    for x in map(np.asarray, arrays):
        yield f"{x.dtype}{x.shape}".encode()
        yield x.tobytes()


def without_addresses(text: str) -> bytes:
    """What programs and objects print, but for where in memory their functions are."""
    return re.sub(r"0x[0-9a-f]+", "", text).encode()
