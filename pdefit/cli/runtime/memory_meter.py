"""Memory of this process: in use now, and at its peak."""

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident() -> int:
    """Bytes in use now; the peak so far if the system does not report them."""
    try:
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return peak()


def peak() -> int:
    """Peak bytes of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
