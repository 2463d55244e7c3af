"""How much memory there is, so that what cannot fit is refused before it is asked for."""

import math
import os
from collections.abc import Sequence


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
