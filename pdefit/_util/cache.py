"""The folder of what can be made again, and the SHA-256 by which results of the same inputs are recognised."""

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike


def digest(parts: Iterable[bytes]) -> str:
    """The SHA-256, in hexadecimal digits, of all parts one after the other."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()


@functools.cache
def sources(*folders: Path) -> str:
    """The SHA-256 of all Python files in folders, in their order."""
    return digest(file.read_bytes() for folder in folders for file in sorted(folder.rglob("*.py")))


def contents(arrays: Iterable[ArrayLike]) -> Iterator[bytes]:
    """The types, shapes and values of arrays, as bytes for `digest`."""
    for x in map(np.asarray, arrays):
        yield f"{x.dtype}{x.shape}".encode()
        yield x.tobytes()


def without_addresses(text: str) -> bytes:
    """A printed program or object without addresses in memory, which differ from process to process."""
    return re.sub(r"0x[0-9a-f]+", "", text).encode()


def cache_folder(part: str) -> Path:
    """$XDG_CACHE_HOME/pdefit/PART, by default in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdefit" / part
