"""Lock of a run directory against a second process, and the file RUNNING as a heartbeat."""

import fcntl
import os
import platform
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError

# the file of a run that goes on; it is touched every so many seconds, and counts as dead when it is this old
RUNNING, _BEAT, _DEAD = "RUNNING", 20.0, 300.0


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Context manager that locks a directory against other processes; the lock ends with the block or the process."""
    path = directory / ".lock"
    # the target of a link would be emptied, and a pipe cannot be
    if path.is_symlink() or path.exists() and not path.is_file():
        raise PdefitError(f"'{path}' is a link, or no file; remove it")
    with open(path, "a+", encoding="utf-8") as file:
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


@contextmanager
def heartbeat(directory: Path) -> Iterator[None]:
    """Context manager that keeps a file RUNNING in a directory, and renews its time."""
    path, over = directory / RUNNING, threading.Event()
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    write_json(path, {"host": platform.node(), "process": os.getpid(), "started": started})

    def touch() -> None:
        while not over.wait(_BEAT):
            # a disk that is full or away must not end the run
            with suppress(OSError):
                os.utime(path)

    threading.Thread(target=touch, daemon=True).start()
    try:
        yield
    finally:
        over.set()
        with suppress(OSError):
            path.unlink(missing_ok=True)


def lives(directory: Path, made: Mapping[str, Any]) -> bool:
    """True if the process of a RUNNING file is alive: by its process id on this machine, else by the file's time.

    **Arguments:**

    - `directory`: the directory of the run.
    - `made`: the content of the file.
    """
    try:
        if made.get("host") == platform.node():
            # signal 0 asks only; numbers below 1 would name groups of processes
            os.kill(max(int(made.get("process", 0)), 1), 0)
        return time.time() - (directory / RUNNING).stat().st_mtime < _DEAD
    except PermissionError:
        return True
    except (OSError, ValueError, TypeError, OverflowError):
        return False
