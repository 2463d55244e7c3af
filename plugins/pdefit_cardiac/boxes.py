"""Boxes in length units, `[[x0, x1], [y0, y1], ...]`, as fractions of the cells of any grid."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

import pdefit

_FORM = "a box is [[x0, x1], [y0, y1], ...] with x0 < x1, one pair for each axis of the grid"


def as_boxes(boxes: Any) -> Float[Array, "boxes axes 2"]:
    """An array of boxes from one box or several, all with the same number of axes."""
    try:
        array = boxes if isinstance(boxes, jax.Array) else np.asarray(boxes, float)
    except (TypeError, ValueError):
        raise ValueError(f"boxes expects boxes with as many axes each, but got {boxes}; {_FORM}") from None
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[-1] != 2 or not array.size:
        raise ValueError(f"boxes expects one box or a list of boxes, but got {boxes}; {_FORM}")
    if isinstance(array, np.ndarray) and not np.all(array[..., 0] < array[..., 1]):
        raise ValueError(f"boxes expects edges in ascending order, but got {boxes}; {_FORM}")
    return jnp.asarray(array)


def covers(boxes: Float[Array, "boxes axes 2"], grid: pdefit.CartesianGrid) -> list[Float[Array, "boxes cells"]]:
    """For each axis, the fraction of every cell's edge inside each box, (boxes, cells).

    The fraction of a cell inside a box is the product over the axes.

    **Arguments:**

    - `boxes`: the boxes, in length units.
    - `grid`: the cells.
    """
    if boxes.shape[1] != grid.ndim:
        raise ValueError(f"boxes have {boxes.shape[1]} axes, but the grid has {grid.ndim}; {_FORM}")
    return [_overlap(boxes[:, i], grid, i) for i in range(grid.ndim)]


def _overlap(spans: Float[Array, "spans 2"], grid: pdefit.CartesianGrid, axis: int) -> Float[Array, "spans cells"]:
    edges = grid.corner[axis] + np.arange(grid.shape[axis] + 1, dtype=spans.dtype) * grid.spacing[axis]
    first, last = (jnp.clip(spans[:, i, None], edges[None, :-1], edges[None, 1:]) for i in (0, 1))
    return (last - first) / grid.spacing[axis]


def weighted_sum(weights: Float[Array, "boxes"], parts: list[Float[Array, "boxes cells"]]) -> Array:
    """The field sum_i weights_i parts_x,i parts_y,i ... of the grid's shape.

    **Arguments:**

    - `weights`: one number for each box.
    - `parts`: the fractions of `covers` for each axis.
    """
    cells = "xyz"[: len(parts)]
    return _einsum(f"b,{','.join('b' + c for c in cells)}->{cells}", weights, *parts)


def averages(
    background: Float[Array, ""], boxes: Float[Array, "boxes axes 2"], values: Array, grid: pdefit.CartesianGrid
) -> Array:
    """Cell averages of a function equal to values_i inside box i, and to the background elsewhere.

    Where boxes overlap, the last one counts. The edges of the boxes cut the grid into blocks of constant value, so that
    averages are exact even if several boxes share a cell.

    **Arguments:**

    - `background`: the value outside of all boxes.
    - `boxes`: the boxes, in length units.
    - `values`: one number for each box.
    - `grid`: the cells.
    """
    covers(boxes, grid)
    parts, painted = [], jnp.zeros((2 * boxes.shape[0] + 1,) * grid.ndim, values.dtype)
    inside = jnp.ones((boxes.shape[0], *painted.shape), bool)
    for i, (corner, extent) in enumerate(zip(grid.corner, grid.extent, strict=True)):
        ends = jnp.asarray([corner, corner + extent], boxes.dtype)
        cuts = jnp.sort(jnp.clip(jnp.concatenate([boxes[:, i].ravel(), ends]), ends[0], ends[1]))
        parts.append(_overlap(jnp.stack([cuts[:-1], cuts[1:]], axis=1), grid, i))
        middle = ((cuts[:-1] + cuts[1:]) / 2)[None]
        within = (middle > boxes[:, i, :1]) & (middle < boxes[:, i, 1:])
        inside &= jnp.expand_dims(within, [1 + j for j in range(grid.ndim) if j != i])
    for i in range(boxes.shape[0]):
        painted = jnp.where(inside[i], values[i] - background, painted)
    blocks, cells = "abc"[: grid.ndim], "xyz"[: grid.ndim]
    pairs = ",".join(b + c for b, c in zip(blocks, cells, strict=True))
    return background + _einsum(f"{blocks},{pairs}->{cells}", painted, *parts)


def _einsum(subscripts: str, *arrays: Array) -> Array:
    # by default an accelerator multiplies in fewer digits
    return jnp.einsum(subscripts, *arrays, precision=lax.Precision.HIGHEST)
