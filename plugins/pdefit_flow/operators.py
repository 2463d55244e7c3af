"""Differences and averages on a staggered grid: pressure and scalars at centres, each velocity component on its faces.

Component i of a velocity lives on the faces normal to axis i. A periodic axis of n cells has n faces, the lower face of
each cell. Between walls there are the n - 1 inner faces. Walls are impermeable, unless `Edges` state the velocity
on the rim of the box.

Every function takes one axis, and treats any other axis point by point. The averages to faces and to centres are
transposes of each other, and so are minus the slope on faces and the slope at centres. Conservation follows from that.

Source: F. H. Harlow, J. E. Welch (1965), doi:10.1063/1.1761178.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

import pdefit
from pdefit.boundaries import AbstractBoundary, Dirichlet, Ends
from pdefit_flow.shift import shift

# two components, each on its own faces
Velocity = tuple[Array, Array]
# values at the lower and at the upper end of an axis
Pair = tuple[Array, Array]


class Edges(NamedTuple):
    """The velocity on the rim of a box, for each axis at its lower and at its upper end.

    **Arguments:**

    - `through`: the component along the axis on the faces of the rim, (n,) along the other axis.
    - `corners`: both components at the corners of cells between these faces, (n - 1, 2).
    """

    through: tuple[Pair, Pair]
    corners: tuple[Pair, Pair]

    def component(self, axis: int, number: int) -> Pair:
        """One component at the corners along both ends of an axis, each (n - 1,).

        **Arguments:**

        - `axis`: the number of the axis.
        - `number`: the number of the component.
        """
        lower, upper = self.corners[axis]
        return lower[:, number], upper[:, number]


def _pad(u: Array, before: int, after: int, axis: int) -> Array:
    return lax.pad(u, jnp.zeros((), u.dtype), [(before, after, 0) if i == axis else (0, 0, 0) for i in range(u.ndim)])


def _beside_faces(grid: pdefit.CartesianGrid, u: Array, axis: int) -> tuple[Array, Array]:
    """The values at the centres below and above each face."""
    if grid.periodic[axis]:
        return shift(u, 1, axis), u
    n = u.shape[axis]
    return lax.slice_in_dim(u, 0, n - 1, axis=axis), lax.slice_in_dim(u, 1, n, axis=axis)


def _beside_centres(grid: pdefit.CartesianGrid, u: Array, axis: int, ends: Pair | None) -> tuple[Array, Array]:
    """The values on the faces below and above each centre. On walls they are `ends`, or 0 by default."""
    if grid.periodic[axis]:
        return u, shift(u, -1, axis)
    if ends is None:
        return _pad(u, 1, 0, axis), _pad(u, 0, 1, axis)
    first, last = (jnp.expand_dims(x, axis).astype(u.dtype) for x in ends)
    return jnp.concatenate([first, u], axis), jnp.concatenate([u, last], axis)


def mean_on_faces(grid: pdefit.CartesianGrid, u: Array, axis: int) -> Array:
    """The two-point average of values at centres, on the faces between them.

    **Arguments:**

    - `grid`: the cells.
    - `u`: values at the centres along the axis.
    - `axis`: the number of the axis.
    """
    lower, upper = _beside_faces(grid, u, axis)
    return (lower + upper) / 2


def mean_at_centres(grid: pdefit.CartesianGrid, u: Array, axis: int, ends: Pair | None = None) -> Array:
    """The two-point average of values on faces, at the centres between them.

    **Arguments:**

    - `grid`: the cells.
    - `u`: values on the faces normal to the axis.
    - `axis`: the number of the axis.
    - `ends`: the values on the lower and the upper wall, without that axis; default 0.
    """
    lower, upper = _beside_centres(grid, u, axis, ends)
    return (lower + upper) / 2


def slope_on_faces(grid: pdefit.CartesianGrid, u: Array, axis: int) -> Array:
    """The derivative of values at centres, on the faces between them.

    **Arguments:** as in `mean_on_faces`.
    """
    lower, upper = _beside_faces(grid, u, axis)
    return (upper - lower) * (1 / grid.spacing[axis])


def slope_at_centres(grid: pdefit.CartesianGrid, u: Array, axis: int, ends: Pair | None = None) -> Array:
    """The derivative of values on faces, at the centres between them.

    **Arguments:** as in `mean_at_centres`.
    """
    lower, upper = _beside_centres(grid, u, axis, ends)
    return (upper - lower) * (1 / grid.spacing[axis])


def curvature(grid: pdefit.CartesianGrid, u: Array, axis: int, ends: Pair | None = None) -> Array:
    """The second derivative of values at centres. On walls it takes ghost values from a boundary condition.

    **Arguments:**

    - `grid`, `u`, `axis`: as in `mean_on_faces`.
    - `ends`: the values on the lower and the upper wall, without that axis; by default the grid's condition holds.
    """
    inside = slope_at_centres(grid, slope_on_faces(grid, u, axis), axis)
    outer = _condition(grid, axis, ends).outer_differences(u, axis, grid.spacing[axis])
    if grid.periodic[axis] or outer is None:
        return inside
    n, (first, last) = u.shape[axis], outer
    return inside + (_pad(last, n - 1, 0, axis) - _pad(first, 0, n - 1, axis)) * (1 / grid.spacing[axis] ** 2)


def _condition(grid: pdefit.CartesianGrid, axis: int, ends: Pair | None) -> AbstractBoundary:
    """The condition at the ends of an axis: given values, or the grid's condition."""
    return grid.boundaries[axis] if ends is None else Ends(Dirichlet(ends[0]), Dirichlet(ends[1]))


def laplacian(grid: pdefit.CartesianGrid, u: Array, normal: int | None = None, edges: Edges | None = None) -> Array:
    """The Laplacian of a scalar at centres, or of a velocity component.

    **Arguments:**

    - `grid`: the cells and boundary conditions of the differentiated field.
    - `u`: a scalar at centres, or the component on its faces.
    - `normal`: the axis along which the component points; None for a scalar.
    - `edges`: the velocity on the rim; by default the velocity of the walls.
    """
    total = jnp.zeros_like(u)
    for axis in range(2):
        if axis == normal:
            ends = None if edges is None else edges.through[axis]
            total = total + slope_on_faces(grid, slope_at_centres(grid, u, axis, ends), axis)
        else:
            ends = None if edges is None or normal is None else edges.component(axis, normal)
            total = total + curvature(grid, u, axis, ends)
    return total


def squared_gradient(grid: pdefit.CartesianGrid, u: Array, normal: int, edges: Edges | None = None) -> Array:
    """The mean square of the gradient of a velocity component over the box.

    Between walls at rest it is minus the mean of the component times its Laplacian.

    **Arguments:** as in `laplacian`.
    """
    # on walls the component through them is 0, on a rim it is left out
    lines = grid.shape[normal] if edges is None else u.shape[normal]
    other = 1 - normal
    ends, along = (None, None) if edges is None else (edges.through[normal], edges.component(other, normal))
    across = jnp.sum(slope_on_faces(grid, u, other) ** 2)
    outer = _condition(grid, other, along).outer_differences(u, other, grid.spacing[other])
    if not grid.periodic[other] and outer is not None:
        # half of the cells beside a wall have the slope on it
        across = across + sum(jnp.sum(x**2) for x in outer) / (2 * grid.spacing[other] ** 2)
    return jnp.mean(slope_at_centres(grid, u, normal, ends) ** 2) + across / (lines * grid.shape[other])


def divergence(grid: pdefit.CartesianGrid, velocity: Velocity, edges: Edges | None = None) -> Array:
    """The divergence of a velocity, at centres.

    **Arguments:**

    - `grid`: the cells.
    - `velocity`: its two components, each on its faces.
    - `edges`: the velocity on the rim; by default walls are impermeable.
    """
    through = (None, None) if edges is None else edges.through
    return slope_at_centres(grid, velocity[0], 0, through[0]) + slope_at_centres(grid, velocity[1], 1, through[1])


def gradient(grid: pdefit.CartesianGrid, u: Array) -> Velocity:
    """The gradient of a scalar at centres, each component on its faces.

    **Arguments:**

    - `grid`: the cells.
    - `u`: the scalar, of the grid's shape.
    """
    return slope_on_faces(grid, u, 0), slope_on_faces(grid, u, 1)


def transport(grid: pdefit.CartesianGrid, velocity: Velocity, u: Array) -> Array:
    """The divergence of the flux of an advected scalar, at centres.

    **Arguments:**

    - `grid`: the cells.
    - `velocity`: its two components, each on its faces.
    - `u`: the scalar at centres, of the grid's shape.
    """
    return divergence(grid, (velocity[0] * mean_on_faces(grid, u, 0), velocity[1] * mean_on_faces(grid, u, 1)))


def self_transport(grid: pdefit.CartesianGrid, velocity: Velocity, edges: Edges | None = None) -> Velocity:
    """The divergence of the momentum flux, each component on its faces.

    Between walls it conserves momentum. For a divergence-free velocity its product with the velocity sums to zero.

    **Arguments:**

    - `grid`: the cells.
    - `velocity`: its two components, each on its faces.
    - `edges`: the velocity on the rim; by default walls are impermeable.
    """
    u, v = velocity
    through, fluxes = (None, None), (None, None)
    if edges is not None:
        through = edges.through
        fluxes = tuple((lower[:, 0] * lower[:, 1], upper[:, 0] * upper[:, 1]) for lower, upper in edges.corners)
    # at the corners of cells, where both components have neighbours
    corner = mean_on_faces(grid, u, 1) * mean_on_faces(grid, v, 0)
    along_u = slope_on_faces(grid, mean_at_centres(grid, u, 0, through[0]) ** 2, 0)
    along_v = slope_on_faces(grid, mean_at_centres(grid, v, 1, through[1]) ** 2, 1)
    return along_u + slope_at_centres(grid, corner, 1, fluxes[1]), along_v + slope_at_centres(
        grid, corner, 0, fluxes[0]
    )


def vorticity(grid: pdefit.CartesianGrid, velocity: Velocity) -> Array:
    """The vorticity dv/dx - du/dy at the corners of cells, except on walls.

    **Arguments:**

    - `grid`: the cells.
    - `velocity`: its two components, each on its faces.
    """
    return slope_on_faces(grid, velocity[1], 0) - slope_on_faces(grid, velocity[0], 1)
