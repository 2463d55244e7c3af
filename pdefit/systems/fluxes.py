"""Conservative fluxes through the faces of the cells of a `CartesianGrid`."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.systems.boundary import closed_ends, edges
from pdefit.systems.grid import CartesianGrid


class Uncoupled(CartesianGrid):
    """A grid whose cells exchange fluxes, but whose derivatives neglect the exchange: each cell is differentiated alone.

    For derivatives in one cell's unknowns if its neighbours are well known. Values are unchanged.
    """

    @classmethod
    def of_grid(cls, grid: CartesianGrid) -> "Uncoupled":
        """The grid without couplings in its derivatives.

        **Arguments:** `grid`: the cells and their boundary conditions.
        """
        return cls(**{f.name: getattr(grid, f.name) for f in dataclasses.fields(CartesianGrid)})


def face_differences(grid: CartesianGrid, u: Array, axis: int) -> Array:
    """Derivative du/dx on the faces normal to an axis, of which there is one more than cells.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `u`: the field, of the grid's shape.
    - `axis`: the index of the axis.
    """
    u = lax.stop_gradient(u) if isinstance(grid, Uncoupled) else u
    lower, upper = neighbours(u, axis)
    spacing = grid.spacing[axis]
    return on_faces(upper - lower, grid.boundaries[axis].outer_differences(u, axis, spacing), axis) * (1 / spacing)


def face_divergence(grid: CartesianGrid, flux: Array, axis: int) -> Array:
    """Derivative d(flux)/dx at cell centres.

    **Arguments:**

    - `grid`: the cells.
    - `flux`: values on the faces normal to the axis, as in `face_differences`.
    - `axis`: the index of the axis.
    """
    lower, upper = neighbours(flux, axis)
    return (upper - lower) * (1 / grid.spacing[axis])


def neighbours(u: Array, axis: int) -> tuple[Array, Array]:
    """All entries along an axis except the last, and all except the first."""
    n = u.shape[axis]
    return lax.slice_in_dim(u, 0, n - 1, axis=axis), lax.slice_in_dim(u, 1, n, axis=axis)


def on_faces(inner: Array, outer: tuple[Array, Array] | None, axis: int) -> Array:
    """Values on all faces, from inner faces and from the first and the last face (None: 0).

    Padding with zeros and adding compile into one loop with the next operation; concatenation does not.
    """
    faces = pad(inner, 1, 1, axis)
    if outer is None:
        return faces
    n, (first, last) = inner.shape[axis], outer
    return faces + pad(first, 0, n + 1, axis) + pad(last, n + 1, 0, axis)


def pad(u: Array, before: int, after: int, axis: int) -> Array:
    widths = [(before, after, 0) if i == axis else (0, 0, 0) for i in range(u.ndim)]
    return lax.pad(u, jnp.zeros((), u.dtype), widths)


def face_values(grid: CartesianGrid, u: Array, axis: int, limited: bool = False) -> Array:
    """Values on the faces normal to an axis: means of two cells, and extrapolated from the nearest cells at outer faces.

    **Arguments:**

    - `grid`, `u`, `axis`: as in `face_differences`; of boundary conditions only periodicity is used.
    - `limited`: whether an outer value is the linear extrapolation from two cells, changed by at most half of the
      cell's value, so that no sign changes. Otherwise it makes the difference in the outer cell one-sided of second
      order.
    """
    inner, (first, last) = jnp.add(*neighbours(u, axis)) / 2, edges(u, axis)
    if grid.boundaries[axis].wraps:
        return on_faces(inner, ((first + last) / 2, (first + last) / 2), axis)
    beside = edges(inner, axis)
    if limited:
        outer = [x - jnp.clip(y - x, -abs(x) / 2, abs(x) / 2) for x, y in zip((first, last), beside, strict=True)]
    else:
        bends = edges(jnp.diff(u, 2, axis), axis) if u.shape[axis] > 2 else (0.0, 0.0)
        outer = [2 * x - y + z / 2 for x, y, z in zip((first, last), beside, bends, strict=True)]
    return on_faces(inner, (outer[0], outer[1]), axis)


def open_faces(grid: CartesianGrid, axis: int, conducting: Array | None = None) -> Array:
    """Mask of faces normal to an axis that allow a flux: 0 on faces of `NoFlux` ends and of blocks."""
    inside = jnp.ones(grid.shape, bool) if conducting is None else conducting
    (first, last), shut = edges(inside, axis), closed_ends(grid.boundaries[axis])
    if grid.boundaries[axis].wraps:
        first = last = first * last
    outer = (first * (not shut[0]), last * (not shut[1]))
    return on_faces(jnp.multiply(*neighbours(inside, axis)), outer, axis)


def div(grid: CartesianGrid, v: Array | Sequence[ArrayLike]) -> Array:
    """Divergence dv_x/dx + dv_y/dy + ... at cell centres, from fluxes through the faces of a cell.

    A face has the mean of its two cells. At a `NoFlux` end the normal component is 0, whatever v is. Other ends are
    extrapolated from the nearest cells, with second order. So div(grad u) agrees with `laplacian` at every end, but its
    stencil is wider: prefer `diffuse`.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `v`: the vector field, with its components on a leading axis, or as a sequence.
    """
    v = lax.stop_gradient(v) if isinstance(grid, Uncoupled) else v
    parts = [face_divergence(grid, x, axis) for axis, x in enumerate(_through(grid, v, None))]
    return sum(parts[1:], parts[0])


def advect(grid: CartesianGrid, velocity: ArrayLike | Sequence[ArrayLike], u: Array) -> Array:
    """Advection div(velocity u) at cell centres, from central fluxes through faces.

    Nothing is advected through a `NoFlux` end. Other ends have the u of their condition: `Dirichlet` states the inflow,
    and `Neumann(0.0)` is an outflow. In a rate of change it has a minus sign: u_t = div(D grad u) - div(v u) is
    `diffuse(grid, D, u) - advect(grid, v, u)`.

    Not for fronts sharper than the grid: if |v| dx / D is above 2 the result may oscillate. Use more cells there, or
    add the diffusivity |v| dx / 2, which makes the scheme upwind of first order.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `velocity`: one component for each axis, in length over time: numbers, or fields of the grid's shape.
    - `u`: the advected field, of the grid's shape.
    """
    out, held = jnp.zeros_like(u), lax.stop_gradient(u) if isinstance(grid, Uncoupled) else u
    for axis, through in enumerate(_through(grid, velocity, jnp.result_type(u, float))):
        below, above = grid.boundaries[axis].outer_differences(held, axis, grid.spacing[axis]) or (0.0, 0.0)
        first, last = edges(held, axis)
        carried = on_faces(jnp.add(*neighbours(held, axis)) / 2, (first - below / 2, last + above / 2), axis)
        out = out + face_divergence(grid, through * carried, axis)
    return out


def _through(grid: CartesianGrid, v: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None) -> list[Array]:
    """Normal components of a vector field on the faces, for each axis."""
    parts = [jnp.asarray(x, dtype) for x in (v if isinstance(v, Sequence) else jnp.atleast_1d(v))]
    if len(parts) != grid.ndim or any(x.shape not in ((), grid.shape) for x in parts):
        raise PdefitError(
            f"A vector field on a grid of shape {grid.shape} has {grid.ndim} components, each a number or of that shape, "
            f"but got {len(parts)} of shapes {sorted({x.shape for x in parts})}; stack one for each axis"
        )
    fields = [jnp.broadcast_to(x, grid.shape) for x in parts]
    return [face_values(grid, x, axis) * open_faces(grid, axis) for axis, x in enumerate(fields)]
