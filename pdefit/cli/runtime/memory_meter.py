"""Memory of this process: what it holds now, and the most that it held."""

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident() -> int:
    """Bytes in use now; if the system does not say, the most so far."""
    try:
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return peak()


def peak() -> int:
    """The most bytes that this process held so far. Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
