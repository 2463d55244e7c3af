"""Remarks on suspicious values that a fit would accept."""

import warnings
from typing import Any

import numpy as np
import scipy

# part of the range within which two values are one, and above which a value varies
_SAME, _VARIES = 1e-6, 1e-3
_ENDS = ((0, 1, 2), (-3, -2, -1))
# part of the first frame above which a region without values is large
_LARGE = 0.1
# fraction of values at one number above which they are a pile, if they are that many times those at the next number
_PILE, _TIMES_NEXT = 1e-3, 3
# frames in which single points are compared, and the fewest in which a drift is
_SPREAD = 8
# most points of a flaw of a camera, and how far its mean stands out of its neighbours': of their scatter, and of the range
_FEW, _OUT, _STANDS_OUT = 4, 12, 0.2
# a drift exceeds the scatter about it so many times, and this part of the mean
_STEADY, _DRIFT = 5, 0.02


def about_ends(name: str, values: np.ndarray, axis: int, dim: str) -> str | None:
    """Remark on a last point along an axis that repeats the first, as if both ends of a period were stored.

    **Arguments:**

    - `name`: the variable's name in the file.
    - `values`, `axis`, `dim`: its frames (time, ...), and the index and name of an axis.
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
    """True if the ends along the last axis are equal, though not by chance, by symmetry, or for lack of change."""
    if values.shape[-1] < 5 or not np.any(np.isfinite(values[..., 0] + values[..., -1])):
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


def about_first_frame(name: str, values: np.ndarray) -> list[str]:
    """Remarks on a first frame in which a region, or all, has no value.

    **Arguments:**

    - `name`: the variable's name in the file.
    - `values`: its frames (time, ...), NaN for missing values.
    """
    seen = np.isfinite(values)
    frames = np.count_nonzero(seen.reshape(len(seen), -1).any(axis=1))
    if not seen[0].any():
        remedy = "begin with a later one (times.start)" if frames > 1 else "give the state there: one frame follows"
        return [f"The first frame of '{name}' has no value, so that nothing is seen of the start; {remedy}"]
    labelled: Any = scipy.ndimage.label(~seen[0] & seen.any(axis=0))
    largest = max(np.bincount(labelled[0].ravel())[1:], default=0)
    if largest < _LARGE * seen[0].size:
        return []
    return [
        f"A region of {largest / seen[0].size:.0%} of the first frame of '{name}' is missing (NaN) and has values later; a fit "
        f"takes it as not measured, so write 0 where it means zero (pdefit import film has nan=0)"
    ]


def about_frames(name: str, values: np.ndarray) -> list[str]:
    """Remarks on missing values, and on frames (time, points) that repeat the previous one or are constant."""
    missing = float(np.mean(np.isnan(values)))
    still = int(np.sum(np.all(values[1:] == values[:-1], axis=1)))
    flat = int(np.sum(np.all(values == values[:, :1], axis=1))) if values.shape[1] > 1 else 0
    told = (
        (missing, f"{missing:.2%} of the values of '{name}' are missing; a fit leaves them out"),
        (still, f"Frames of '{name}' that equal the one before: {still}; leave out what was written twice"),
        (
            flat,
            f"Frames of '{name}' with one value everywhere: {flat}; leave out dark or empty ones (times.start, times.stop)",
        ),
    )
    return [remark for count, remark in told if count]


def about_pixels(name: str, frames: np.ndarray) -> list[str]:
    """Remarks on single points that never change, and on points that always stand out from their neighbours.

    **Arguments:**

    - `name`: the variable's name in the file.
    - `frames`: frames in the plane, (time, x, y).
    """
    frames = frames[np.unique(np.linspace(0, len(frames) - 1, _SPREAD).astype(int))]
    known = np.isfinite(frames).all(axis=0)
    if len(frames) < 5 or min(known.shape) < 5 or not known.any():
        return []
    mean = np.where(known, np.mean(frames, axis=0), np.nan)
    spread = np.where(known, np.max(frames, axis=0) - np.min(frames, axis=0), np.nan)
    dead = _single(spread <= _SAME * np.nanmedian(spread)) if np.nanmedian(spread) > 0 else np.zeros_like(known)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(mean, 1, constant_values=np.nan), (3, 3))
    with warnings.catch_warnings():
        # windows without a value
        warnings.simplefilter("ignore", RuntimeWarning)
        out = np.abs(mean - np.nanmedian(windows.reshape(*known.shape, -1), axis=-1))
    low, high = np.nanquantile(mean, (0.01, 0.99))
    limit = max(_OUT * np.nanmedian(out), _STANDS_OUT * (high - low))
    hot = _single(out > limit) & ~dead if limit > 0 else np.zeros_like(known)
    remarks = []
    for points, what, kind in (
        (dead, "never change while others do", "dead"),
        (hot, "stand out from their neighbours at all times", "hot"),
    ):
        if points.any():
            remarks.append(
                f"Points of '{name}' that {what}: {np.sum(points)}, the first at {np.argwhere(points)[0].tolist()}; if these "
                f"are {kind} pixels or wrong vectors, write NaN there"
            )
    return remarks


def _single(points: np.ndarray) -> np.ndarray:
    """Mask of the points (x, y) in small clusters away from the rim."""
    labelled: Any = scipy.ndimage.label(points, np.ones((3, 3)))
    few = np.bincount(labelled[0].ravel()) <= _FEW
    few[0] = False
    rim = np.unique(np.concatenate([labelled[0][[0, -1]].ravel(), labelled[0][:, [0, -1]].ravel()]))
    few[rim] = False
    return few[labelled[0]]


def about_piles(name: str, values: np.ndarray, top: float) -> list[str]:
    """Remarks on many values equal to the largest one, or to zero.

    **Arguments:**

    - `name`: the variable's name in the file.
    - `values`: finite values, (n,).
    - `top`: the largest number of its type; infinite for non-integer types.
    """
    levels, counts = np.unique(values, return_counts=True)
    if levels.size < 10:
        return []
    part = counts / values.size
    remarks = []
    if part[-1] > _PILE and (levels[-1] >= top or part[-1] > _TIMES_NEXT * part[-2]):
        of = ", the largest that their type holds" if levels[-1] >= top else ", the largest of all"
        remarks.append(
            f"{part[-1]:.2%} of the values of '{name}' are {levels[-1]:g}{of}: they may be clipped; record with less light or "
            f"gain"
        )
    zero = int(np.searchsorted(levels, 0.0))
    beside = [part[i] for i in (zero - 1, zero + 1) if 0 <= i < levels.size]
    if zero < levels.size and levels[zero] == 0.0 and part[zero] > max(_PILE, _TIMES_NEXT * max(beside)):
        remarks.append(
            f"{part[zero]:.2%} of the values of '{name}' are exactly 0; where that means not measured, write NaN"
        )
    return remarks


def about_drift(name: str, counts: np.ndarray) -> list[str]:
    """Remark on camera counts (time, points) whose mean rises or falls steadily."""
    seen = np.isfinite(counts)
    if len(counts) < _SPREAD or not seen.any(axis=1).all():
        return []
    means = np.mean(counts, axis=1, where=seen)
    number = np.arange(means.size)
    line = np.polyval(np.polyfit(number, means, 1), number)
    change, scatter = line[-1] - line[0], float(np.std(means - line))
    if abs(change) < max(_STEADY * scatter, _DRIFT * abs(float(np.mean(means)))):
        return []
    return [
        f"The mean of '{name}' {'rises' if change > 0 else 'falls'} steadily from {line[0]:.4g} to {line[-1]:.4g} counts; if "
        f"lamp or camera drift, or dye bleaches, divide every frame by it"
    ]


def inner_part(seen: np.ndarray, axes: int) -> tuple[tuple[int, int], ...]:
    """Index ranges with values along the first axes of a frame; empty if these are the full axes.

    **Arguments:** `seen`: the mask of points with a value in any frame; `axes`: the number of axes.
    """
    ends = tuple((int(along.min()), int(along.max()) + 1) for along in np.nonzero(seen)[:axes])
    return () if ends == tuple((0, n) for n in seen.shape[:axes]) else ends
