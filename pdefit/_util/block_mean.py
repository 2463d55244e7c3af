"""Block averages of cell values, and refinement of cell averages to half the cell width."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def block_mean(x: Array, cells: Sequence[int | float]) -> Array:
    """Averages over blocks of cells.

    **Arguments:**

    - `x`: the field.
    - `cells`: the block size in cells along each axis of `x`; it divides the length of the axis. If it is fractional,
      such as 1.5, a cell between two blocks is weighted by its overlap with each.
    """
    if any(c != int(c) for c in cells):
        for axis, (n, c) in enumerate(zip(x.shape, cells, strict=True)):
            weights = jnp.asarray(_overlaps(n, round(n / c)), jnp.promote_types(x.dtype, jnp.float32))
            # a GPU would otherwise round the averages to three digits
            means = jnp.tensordot(weights, x, (1, axis), precision=jax.lax.Precision.HIGHEST)
            x = jnp.moveaxis(means, 0, axis)
        return x
    blocks = x.reshape([k for n, c in zip(x.shape, cells, strict=True) for k in (n // int(c), int(c))])
    return blocks.mean(axis=tuple(range(1, 2 * x.ndim, 2)))


def _overlaps(fine: int, coarse: int) -> np.ndarray:
    """Overlap weights (coarse, fine): the fraction of each coarse cell covered by each fine cell of the same interval."""
    edges = np.arange(coarse + 1)[:, None] * (fine / coarse)
    # the length of each fine cell that lies before an edge
    before = np.clip(edges - np.arange(fine), 0.0, 1.0)
    return np.diff(before, axis=0) * (coarse / fine)


def prolong(x: np.ndarray, wraps: Sequence[bool]) -> np.ndarray:
    """Cell averages on a grid of half the cell width, from averages on the coarse grid.

    Inside a cell the field is a parabola through the averages of three cells. Its averages over the two halves differ
    from their mean by an eighth of the difference of the neighbours. The slope is limited (monotonized central), so
    that no new extrema arise. The mean of the two halves is the average of the cell, exactly up to round-off.

    **Arguments:**

    - `x`: averages over cells. Axes before the last `len(wraps)` are not spatial and are not refined.
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


def is_whole(x: int | float) -> bool:
    """True if x is an integer to within 1e-6."""
    return abs(x - round(x)) < 1e-6
