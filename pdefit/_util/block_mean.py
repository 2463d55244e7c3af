"""Averages over blocks of cells, and finer cells from averages."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array


def block_mean(x: Array, cells: Sequence[int]) -> Array:
    """Averages over blocks of cells.

    **Arguments:**

    - `x`: the field.
    - `cells`: the number of cells of a block along each axis of `x`, a divisor of the length of that axis.
    """
    blocks = x.reshape([k for n, c in zip(x.shape, cells, strict=True) for k in (n // c, c)])
    return blocks.mean(axis=tuple(range(1, 2 * x.ndim, 2)))


def prolong(x: np.ndarray, wraps: Sequence[bool]) -> np.ndarray:
    """Averages over cells of half the width, from averages over the cells of a coarser grid.

    Inside a cell the field is a parabola through the averages of three cells. Its averages over the two halves differ
    from their mean by an eighth of the difference of the neighbours. The slope is limited (monotonized central), so
    that no new extrema arise. The mean of the two halves is the average of the cell, exactly up to round-off.

    **Arguments:**

    - `x`: averages over cells. Axes before the last `len(wraps)` are no directions in space and stay as they are.
    - `wraps`: for each of the last axes, whether its first and last cell are neighbours (periodic).

    Source: B. van Leer, J. Comput. Phys. 23:276 (1977), doi:10.1016/0021-9991(77)90095-X.
    """
    for k, wrap in enumerate(wraps):
        x = np.moveaxis(_halved(np.moveaxis(x, x.ndim - len(wraps) + k, 0), wrap), 0, x.ndim - len(wraps) + k)
    return x


def _halved(x: np.ndarray, wrap: bool) -> np.ndarray:
    """`prolong` along the first axis."""
    padded = np.pad(x, [(1, 1), *[(0, 0)] * (x.ndim - 1)], mode="wrap" if wrap else "edge")
    back, ahead = x - padded[:-2], padded[2:] - x
    least = np.minimum(np.abs(back + ahead) / 2, 2 * np.minimum(np.abs(back), np.abs(ahead)))
    slope = np.where(back * ahead > 0, np.sign(ahead) * least, 0.0)
    return np.stack([x - slope / 4, x + slope / 4], axis=1).reshape(2 * x.shape[0], *x.shape[1:])
