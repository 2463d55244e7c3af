"""A field that is the same everywhere but in some boxes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import pdefit
from pdefit_cardiac.boxes import as_boxes, averages


def _numbers(values: Any) -> Array:
    return values if isinstance(values, jax.Array) else jnp.asarray(values, float)


class Patches(eqx.Module):
    """A field that is `background`, but `values[i]` inside box i: scar, a region of slow conduction, another cell type.

    A cell that is covered in part takes the average over it. So the same patches fit every grid, and those on a finer
    grid average to those on a coarser one. Boxes end at the edge of the grid, also where it is periodic.

    **Arguments:**

    - `background`: the value outside of all boxes.
    - `boxes`: boxes `[[x0, x1], [y0, y1], ...]` in length units, (boxes, axes, 2).
    - `values`: one number, or one for each box. Where boxes overlap the last one counts.
    """

    background: Float[Array, ""] = eqx.field(converter=_numbers)
    boxes: Float[Array, "boxes axes 2"] = eqx.field(converter=as_boxes)
    values: Array = eqx.field(converter=_numbers)

    def __check_init__(self):
        if self.background.ndim or self.values.shape not in ((), self.boxes.shape[:1]):
            raise ValueError(
                f"Patches expects one background and one value, or one for each of its {self.boxes.shape[0]} boxes, but "
                f"got shapes {self.background.shape} and {self.values.shape}"
            )

    def on(self, grid: pdefit.CartesianGrid) -> Array:
        """The field on a grid, of its shape."""
        return averages(self.background, self.boxes, jnp.broadcast_to(self.values, self.boxes.shape[:1]), grid)
