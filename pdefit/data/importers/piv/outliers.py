"""Outliers among vectors by the normalised median test."""

import numpy as np

# neighbours that a median needs, and the limit of the normalised deviation from it
_NEIGHBOURS, LIMIT = 5, 2.0


def outliers(u: np.ndarray, v: np.ndarray, noise: float | None, limit: float = LIMIT) -> np.ndarray:
    """Vectors that differ from the median of their 3 x 3 neighbours by more than those differ among themselves.

    Missing neighbours do not count, and a vector with less than five is kept. Beyond the rim the field is continued linearly,
    since neighbours on one side differ from a vector by the gradient.

    Source: Westerweel & Scarano (2005), doi:10.1007/s00348-005-0016-6.

    **Arguments:**

    - `u`, `v`: components (nx, ny); NaN means missing.
    - `noise`: velocity that counts as noise, such as 0.1 pixel/frame; by default a tenth of the median speed.
    - `limit`: of the normalised deviation.
    """
    noise = 0.1 * float(np.nanmedian(np.hypot(u, v))) if noise is None and np.any(np.isfinite(u + v)) else noise
    deviation = np.zeros(u.shape)
    for part in (u, v):
        padded = np.pad(part, 1, mode="reflect", reflect_type="odd")
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).reshape(*part.shape, 9)
        near = np.delete(windows, 4, axis=-1)
        enough = np.isfinite(near).sum(axis=-1) >= _NEIGHBOURS
        near = np.where(enough[..., None], near, 0.0)
        middle = np.nanmedian(near, axis=-1)
        spread = np.nanmedian(np.abs(near - middle[..., None]), axis=-1) + (noise or 0.0)
        off = np.where(enough, np.abs(part - middle), 0.0)
        deviation = np.hypot(deviation, off / np.where(spread > 0, spread, np.inf))
    return deviation > limit
