"""The rise of the peak of memory while something runs."""

import contextlib
import ctypes
import resource
import sys
import threading
from pathlib import Path
from typing import Any

import jax

_STATUS = Path("/proc/self/status")
# seconds between two readings
_EVERY = 2e-3


class Meter:
    """Meter of the rise of memory above what is in use when it is made, up to the call of `rise`.

    On an accelerator it reads the account of the device. On Linux it reads the memory of the process again and again,
    without mapped files, because the code of libraries is loaded and dropped at any time. Elsewhere it takes the peak
    of the process.
    """

    def __init__(self):
        # return freed memory to the system: the process would use it again without a rise
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        self._before = self._most = _in_use()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._done.wait(_EVERY):
            self._most = max(self._most, _in_use())

    def rise(self) -> int:
        """Bytes beyond what was in use at the start; ends the measurement."""
        self._done.set()
        self._thread.join()
        stats = _device()
        self._most = int(stats["peak_bytes_in_use"]) if stats else max(self._most, _in_use())
        return self._most - self._before


def _in_use() -> int:
    """Bytes in use now."""
    stats = _device()
    if stats:
        return int(stats["bytes_in_use"])
    try:
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
    except (OSError, StopIteration):
        # the largest resident size so far (Linux counts in KiB, macOS in bytes)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _device() -> dict[str, Any] | None:
    """Memory statistics of an accelerator; None on a CPU."""
    return jax.local_devices()[0].memory_stats()
