"""Atomic writing of files: a reader finds a whole file or none."""

import dataclasses
import json
import math
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.memory import too_large

# bytes in memory of one byte of text, and the most levels and the largest whole number of JSON
_COPIES, _LEVELS, _LARGEST = 8, 50, 1e308


@contextmanager
def beside(path: Path, shared: bool = False) -> Iterator[Path]:
    """Context manager: a temporary file that replaces `path` when the block ends.

    It has the suffix of `path`. If the block fails, the temporary file is removed: no reader ever sees a partial file.

    **Arguments:**

    - `path`: the file that is to be written or replaced.
    - `shared`: whether several processes may write this file at once; each then writes its own temporary file.
    """
    # nodes of a cluster share folders, and may give two processes one number
    process = f".{platform.node()}.{os.getpid()}" if shared else ""
    neighbour = path.with_name(f".{path.stem}{process}.partial{path.suffix}")
    try:
        # a link that lies there would be followed, and its target overwritten
        neighbour.unlink(missing_ok=True)
        yield neighbour
        os.replace(neighbour, path)
    except OSError as error:
        # an error of writing may name no file or the temporary one, which a user does not know
        if error.filename in (None, neighbour, str(neighbour)):
            error.filename = str(path)
        raise
    finally:
        # a folder that cannot be written refuses removals too
        with suppress(OSError):
            neighbour.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically and flush it to disk. Line ends are not changed."""
    with beside(path) as neighbour, open(neighbour, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, content: object) -> None:
    """Write strict JSON, atomically. NaN and infinity, which JSON lacks, become null.

    **Arguments:**

    - `path`: the file.
    - `content`: mappings, sequences, arrays and scalars; other objects are written as text.
    """
    write_text(path, json.dumps(plain(content), indent=2, allow_nan=False) + "\n")


def read_text(path: Path) -> str:
    """The content of a text file that pdefit wrote."""
    with suppress(OSError, ValueError):
        # to open a pipe or a device could block for ever
        if path.is_file() and not too_large((path.stat().st_size, _COPIES), 1):
            return path.read_text(encoding="utf-8")
    raise PdefitError(f"'{path}' is missing or damaged; put it back from a copy")


def parsed_json(text: str) -> Any:
    """The content of a JSON text that pdefit wrote.

    **Errors:** ValueError or RecursionError for other text, numbers outside the range of floats, and more than 50 levels.
    """
    content = json.loads(text)
    if not _is_written(content, _LEVELS):
        raise ValueError("numbers or levels that pdefit never writes")
    return content


def _is_written(x: Any, levels: int) -> bool:
    if not isinstance(x, dict | list):
        return not isinstance(x, int) or abs(x) < _LARGEST
    return levels > 0 and all(_is_written(value, levels - 1) for value in (x.values() if isinstance(x, dict) else x))


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file that pdefit wrote."""
    text = read_text(path)
    try:
        content = parsed_json(text)
        json.dumps(content, allow_nan=False)
    except (ValueError, RecursionError):
        raise PdefitError(f"'{path}' is missing or damaged; put it back from a copy") from None
    if not isinstance(content, dict):
        raise PdefitError(f"'{path}' is not what pdefit wrote; put it back from a copy")
    return content


def plain(x: Any) -> Any:
    """A value in JSON types: NaN and infinity become None, objects of other types become text.

    Optional fields of a dataclass are left out if they are None.
    """
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        entries = [(f, getattr(x, f.name)) for f in dataclasses.fields(x)]
        return {f.name: plain(v) for f, v in entries if not (v is None and f.metadata.get("optional"))}
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if isinstance(x, np.ndarray | np.generic):
        return plain(x.tolist())
    if isinstance(x, float):
        return x if math.isfinite(x) else None
    return x if x is None or isinstance(x, bool | int | str) else str(x)
