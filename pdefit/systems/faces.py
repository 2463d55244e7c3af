"""Differences, means and sums on the faces of the cells of a `CartesianGrid`."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from pdefit.systems.boundary import closed_ends, edges
from pdefit.systems.grid import CartesianGrid


class Uncoupled(CartesianGrid):
    """A grid whose cells exchange what they do, with derivatives that leave this out: each cell is a system of its own.

    For derivatives of one cell's unknowns where neighbours are known well. Not for values, which are the same.
    """

    @classmethod
    def of_grid(cls, grid: CartesianGrid) -> "Uncoupled":
        """The same grid without its couplings.

        **Arguments:** `grid`: the cells and their boundary conditions.
        """
        return cls(**{f.name: getattr(grid, f.name) for f in dataclasses.fields(CartesianGrid)})


def face_differences(grid: CartesianGrid, u: Array, axis: int) -> Array:
    """The derivative du/dx on the faces normal to an axis, of which there is one more than cells.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `u`: the field, of the grid's shape.
    - `axis`: the number of the axis.
    """
    u = lax.stop_gradient(u) if isinstance(grid, Uncoupled) else u
    lower, upper = neighbours(u, axis)
    spacing = grid.spacing[axis]
    return on_faces(upper - lower, grid.boundaries[axis].outer_differences(u, axis, spacing), axis) * (1 / spacing)


def face_divergence(grid: CartesianGrid, flux: Array, axis: int) -> Array:
    """The derivative d(flux)/dx at cell centres.

    **Arguments:**

    - `grid`: the cells.
    - `flux`: values on the faces normal to the axis, as of `face_differences`.
    - `axis`: the number of the axis.
    """
    lower, upper = neighbours(flux, axis)
    return (upper - lower) * (1 / grid.spacing[axis])


def neighbours(u: Array, axis: int) -> tuple[Array, Array]:
    """All entries along an axis but the last, and all but the first."""
    n = u.shape[axis]
    return lax.slice_in_dim(u, 0, n - 1, axis=axis), lax.slice_in_dim(u, 1, n, axis=axis)


def on_faces(inner: Array, outer: tuple[Array, Array] | None, axis: int) -> Array:
    """Values on all faces, from those between cells and those on the first and the last face (None: 0).

    Zeros padded and added compile into one loop with whatever comes next; a concatenation does not.
    """
    faces = pad(inner, 1, 1, axis)
    if outer is None:
        return faces
    n, (first, last) = inner.shape[axis], outer
    return faces + pad(first, 0, n + 1, axis) + pad(last, n + 1, 0, axis)


def pad(u: Array, before: int, after: int, axis: int) -> Array:
    widths = [(before, after, 0) if i == axis else (0, 0, 0) for i in range(u.ndim)]
    return lax.pad(u, jnp.zeros((), u.dtype), widths)


def mean(lower: Array, upper: Array) -> Array:
    return (lower + upper) / 2


def values_on_faces(grid: CartesianGrid, u: Array, axis: int, limited: bool = False) -> Array:
    """Values on the faces normal to an axis: the mean of two cells, and at an outer face what the nearest cells say.

    **Arguments:**

    - `grid`, `u`, `axis`: as of `face_differences`; no boundary condition is used but whether the axis is periodic.
    - `limited`: an outer face lies on the line through two cells, and differs by at most half from its own, so that no sign
      changes. Otherwise it makes the difference in the outer cell the one-sided one of second order.
    """
    inner, (first, last), n = mean(*neighbours(u, axis)), edges(u, axis), u.shape[axis]
    if grid.boundaries[axis].wraps:
        return on_faces(inner, (mean(first, last), mean(first, last)), axis)
    steps = [(x, y - x) for x, y in zip((first, last), edges(inner, axis), strict=True)]
    if limited:
        outer = [x - jnp.clip(step, -jnp.abs(x) / 2, jnp.abs(x) / 2) for x, step in steps]
    else:
        bends = edges(jnp.diff(u, 2, axis), axis) if n > 2 else (0.0, 0.0)
        outer = [x - step + bend / 2 for (x, step), bend in zip(steps, bends, strict=True)]
    return on_faces(inner, (outer[0], outer[1]), axis)


def open_faces(grid: CartesianGrid, axis: int, conducting: Array | None = None) -> Array:
    """Whether something may cross the faces normal to an axis: not those of `NoFlux` ends, nor those of blocks."""
    n, ends = grid.shape[axis], closed_ends(grid.boundaries[axis])
    faces = np.ones([n + 1 if i == axis else 1 for i in range(grid.ndim)], bool)
    np.moveaxis(faces, axis, 0)[[0, n]] = ~np.reshape(ends, [2] + [1] * (grid.ndim - 1))
    if conducting is None:
        return jnp.asarray(faces)
    first, last = edges(conducting, axis)
    outer = (first * last, first * last) if grid.boundaries[axis].wraps else (first, last)
    return on_faces(jnp.multiply(*neighbours(conducting, axis)), outer, axis) * faces
