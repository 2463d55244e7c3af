"""One process at a time in a run directory."""

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdefit._util.errors import PdefitError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory; it ends with the process, however that ends."""
    with open(directory / ".lock", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise PdefitError(f"'{directory}' is in use by {owner}; wait for it, or stop it") from None
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {platform.node()}\n")
        file.flush()
        yield
