"""Fields that are constant except in some boxes or ellipses."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import pdefit
from pdefit_cardiac.boxes import as_boxes, averages

# points along every edge of a cell at which an ellipse is looked up
_POINTS = 4


def _numbers(values: Any) -> Array:
    return values if isinstance(values, jax.Array) else jnp.asarray(values, float)


class Patches(eqx.Module):
    """A field that is `values[i]` inside box i and `background` elsewhere: scar, slow conduction, another cell type.

    A partly covered cell takes the average over it. So the same patches fit every grid, and averaging them from a finer
    to a coarser grid is exact. Boxes end at the edge of the grid, even if it is periodic.

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


class Ellipses(eqx.Module):
    """A field that is `values[i]` inside ellipse i and `background` elsewhere: a round scar.

    For regions with a round border. For straight borders use `Patches`, whose averages are exact.

    A partly covered cell takes the average over 4 points along each of its edges. So the same ellipses fit every grid.

    **Arguments:**

    - `background`: the value outside of all ellipses.
    - `centres`: the centre of each, in length units, (ellipses, axes).
    - `radii`: the half axes of each along the axes of the grid, in length units, (ellipses, axes).
    - `values`: one number, or one for each ellipse. Where ellipses overlap the last one counts.
    """

    background: Float[Array, ""] = eqx.field(converter=_numbers)
    centres: Float[Array, "ellipses axes"] = eqx.field(converter=_numbers)
    radii: Float[Array, "ellipses axes"] = eqx.field(converter=_numbers)
    values: Array = eqx.field(converter=_numbers)

    def __check_init__(self):
        count = self.centres.shape[:1]
        if self.centres.ndim != 2 or self.radii.shape != self.centres.shape or self.values.shape not in ((), count):
            raise ValueError(
                f"Ellipses expects centres [[x, y], ...], as many radii, and one value or one for each, but got shapes "
                f"{self.centres.shape}, {self.radii.shape} and {self.values.shape}"
            )

    def on(self, grid: pdefit.CartesianGrid) -> Array:
        """The field on a grid, of its shape."""
        if self.centres.shape[1] != grid.ndim:
            raise ValueError(f"Ellipses have {self.centres.shape[1]} axes, but the grid has {grid.ndim}")
        fine = dataclasses.replace(grid, shape=tuple(_POINTS * n for n in grid.shape))
        places = jnp.stack(fine.mesh(), axis=-1)
        field = jnp.broadcast_to(self.background, fine.shape)
        for i in range(self.centres.shape[0]):
            away = jnp.linalg.norm((places - self._row(self.centres, i)) / self._row(self.radii, i), axis=-1)
            field = jnp.where(away < 1, jnp.broadcast_to(self.values, self.centres.shape[:1])[i], field)
        return fine.coarsen(field, _POINTS)

    def _row(self, numbers: Array, i: int) -> Array:
        """Row i of `numbers`, (ellipses, axes), shaped (1, ..., 1, axes) to broadcast against positions."""
        return numbers[i].reshape((1,) * numbers.shape[1] + (-1,))
