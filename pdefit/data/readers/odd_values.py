"""Remarks on values that a fit would take as they are, though they may mean something else."""

from typing import Any

import numpy as np
from scipy import ndimage

# part of the range within which two values are one, and above which a value varies
_SAME, _VARIES = 1e-6, 1e-3
_ENDS = ((0, 1, 2), (-3, -2, -1))
# part of the first frame above which a region without values is large
_LARGE = 0.1


def about_ends(name: str, values: np.ndarray, axis: int, dim: str) -> str | None:
    """A remark on a last point along an axis that repeats the first, as where both ends of a period are written.

    **Arguments:**

    - `name`: the variable, as the file calls it.
    - `values`: its frames (time, ...); `axis`, `dim` are the number of an axis and its name.
    """
    if not _repeats_first(np.moveaxis(values, axis, -1)):
        return None
    count, inside = values.shape[axis], values.shape[1:]
    crop = [[0, n - (i == axis)] for i, n in enumerate(inside, 1)]
    return (
        f"The last point along {dim} of '{name}' repeats the first; if {dim} is periodic, leave it out (data.crop={crop}), and "
        f"take {count - 1} cells for the grid: otherwise the period is too long by one cell"
    )


def _repeats_first(values: np.ndarray) -> bool:
    """Test for equal ends along the last axis that are not equal by chance, by symmetry, or because nothing happens there."""
    if values.shape[-1] < 5 or not np.any(np.isfinite(values[..., 0])):
        return False
    (first, second, third), (third_last, before, last) = (np.moveaxis(values[..., [*i]], -1, 0) for i in _ENDS)
    size = float(np.nanmax(values) - np.nanmin(values))
    if size == 0.0 or np.any(np.abs(first - last) > _SAME * size):
        return False
    curved = (first - 2 * second + third + last - 2 * before + third_last) / 2
    # around the seam, the second differences with and without the last point
    twice = np.nansum((before - last - curved) ** 2 + (second - first - curved) ** 2) / 2
    once = np.nansum((second - 2 * first + before - curved) ** 2)
    mirrored = not np.any(np.abs(second - before) > _SAME * size)
    return bool(once < twice / 4 or (not mirrored and np.nanmax(first) - np.nanmin(first) > _VARIES * size))


def about_first_frame(name: str, first: np.ndarray, seen: np.ndarray) -> list[str]:
    """Remarks on a first frame in which a region, or all, has no value.

    **Arguments:**

    - `name`: the variable, as the file calls it.
    - `first`: the first frame, NaN where missing; `seen` is where any frame has a value. Both have the shape of a frame.
    """
    if not np.any(np.isfinite(first)):
        return [
            f"The first frame of '{name}' has no value, so that nothing is seen of the start; begin with a later one "
            f"(times.start)"
        ]
    labelled: Any = ndimage.label(np.isnan(first) & seen)
    largest = max(np.bincount(labelled[0].ravel())[1:], default=0)
    if largest < _LARGE * first.size:
        return []
    return [
        f"A region of {largest / first.size:.0%} of the first frame of '{name}' is missing (NaN) and has values later; a fit "
        f"takes it as not measured, so write 0 where it means zero (pdefit import film has nan=0)"
    ]
