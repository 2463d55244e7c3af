"""The cache folder, and SHA-256 digests that identify the inputs of a cached result."""

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike


def digest(parts: Iterable[bytes]) -> str:
    """SHA-256 hex digest of the concatenated parts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()


@functools.cache
def sources(*folders: Path) -> str:
    """SHA-256 hex digest of all Python files in the folders, in their order."""
    return digest(file.read_bytes() for folder in folders for file in sorted(folder.rglob("*.py")))


def contents(arrays: Iterable[ArrayLike]) -> Iterator[bytes]:
    """Bytes of the dtypes, shapes and values of arrays, for `digest`."""
    for x in map(np.asarray, arrays):
        yield f"{x.dtype}{x.shape}".encode()
        yield x.tobytes()


def without_addresses(text: str) -> bytes:
    """A printed program or object as bytes, without its memory addresses."""
    return re.sub(r"0x[0-9a-f]+", "", text).encode()


def cache_folder(part: str) -> Path:
    """Cache folder `$XDG_CACHE_HOME/pdefit/PART`, by default in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdefit" / part
