"""Second-order finite differences on a `CartesianGrid`.

Scalar fields have the grid's shape, vector fields one leading axis more. Lengths are in the grid's unit.

Fluxes live on faces, so that what leaves one cell enters the next. `diffuse` therefore conserves the integral to
round-off wherever the boundary lets nothing through.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from pdefit.systems.broadcast import broadcast_scalar
from pdefit.systems.grid import CartesianGrid


def face_differences(grid: CartesianGrid, u: Array, axis: int) -> Array:
    """The derivative du/dx on the faces normal to an axis, of which there is one more than cells.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `u`: the field, of the grid's shape.
    - `axis`: the number of the axis.
    """
    lower, upper = _neighbours(u, axis)
    spacing = grid.spacing[axis]
    return _on_faces(upper - lower, grid.boundaries[axis].outer_differences(u, axis, spacing), axis) * (1 / spacing)


def face_divergence(grid: CartesianGrid, flux: Array, axis: int) -> Array:
    """The derivative d(flux)/dx at cell centres.

    **Arguments:**

    - `grid`: the cells.
    - `flux`: values on the faces normal to the axis, as of `face_differences`.
    - `axis`: the number of the axis.
    """
    lower, upper = _neighbours(flux, axis)
    return (upper - lower) * (1 / grid.spacing[axis])


def _neighbours(u: Array, axis: int) -> tuple[Array, Array]:
    """All entries along an axis but the last, and all but the first."""
    n = u.shape[axis]
    return lax.slice_in_dim(u, 0, n - 1, axis=axis), lax.slice_in_dim(u, 1, n, axis=axis)


def _on_faces(inner: Array, outer: tuple[Array, Array] | None, axis: int) -> Array:
    """Values on all faces, from those between cells and those on the first and the last face (None: 0).

    Zeros padded and added compile into one loop with whatever comes next; a concatenation does not.
    """
    faces = _pad(inner, 1, 1, axis)
    if outer is None:
        return faces
    n, (first, last) = inner.shape[axis], outer
    return faces + _pad(first, 0, n + 1, axis) + _pad(last, n + 1, 0, axis)


def _pad(u: Array, before: int, after: int, axis: int) -> Array:
    widths = [(before, after, 0) if i == axis else (0, 0, 0) for i in range(u.ndim)]
    return lax.pad(u, jnp.zeros((), u.dtype), widths)


def laplacian(grid: CartesianGrid, u: Array) -> Array:
    """The Laplacian div grad u, at cell centres.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `u`: the field, of the grid's shape.
    """
    out = face_divergence(grid, face_differences(grid, u, 0), 0)
    for axis in range(1, grid.ndim):
        out = out + face_divergence(grid, face_differences(grid, u, axis), axis)
    return out


def diffuse(grid: CartesianGrid, D: Array, u: Array, conducting: Array | None = None) -> Array:
    """Diffusion div(D grad u), at cell centres.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `D`: the diffusivity, in length squared over time: a scalar, or a field of the grid's shape, which is averaged to
      the faces.
    - `u`: the field, of the grid's shape.
    - `conducting`: 1 in cells that conduct and 0 in blocks, of the grid's shape; nothing crosses the faces of a block.
      By default all cells conduct.
    """
    if D.ndim == 0 and conducting is None:
        return broadcast_scalar(D, u) * laplacian(grid, u)
    out = jnp.zeros_like(u)
    for axis in range(grid.ndim):
        flux = face_differences(grid, u, axis)
        if D.ndim:
            lower, upper = _neighbours(D, axis)
            first, last = _ends(D, axis)
            if grid.boundaries[axis].wraps:
                first = last = (first + last) / 2
            flux = _on_faces((lower + upper) / 2, (first, last), axis) * flux
        if conducting is not None:
            lower, upper = _neighbours(conducting, axis)
            first, last = _ends(conducting, axis)
            if grid.boundaries[axis].wraps:
                first = last = first * last
            flux = _on_faces(lower * upper, (first, last), axis) * flux
        out = out + face_divergence(grid, flux, axis)
    return out if D.ndim else broadcast_scalar(D, u) * out


def _ends(u: Array, axis: int) -> tuple[Array, Array]:
    """The first and the last entry along an axis, each of extent 1."""
    n = u.shape[axis]
    return lax.slice_in_dim(u, 0, 1, axis=axis), lax.slice_in_dim(u, n - 1, n, axis=axis)


def grad(grid: CartesianGrid, u: Array) -> Array:
    """The gradient (du/dx, du/dy, ...) at cell centres by central differences, with the components on a leading axis.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `u`: the field, of the grid's shape.
    """
    components = []
    for axis in range(grid.ndim):
        faces = face_differences(grid, u, axis)
        lower, upper = _neighbours(faces, axis)
        components.append((upper + lower) / 2)
    return jnp.stack(components)


def div(grid: CartesianGrid, v: Array) -> Array:
    """The divergence dv_x/dx + dv_y/dy + ... at cell centres, by central differences.

    div(grad u) has a wider stencil than `laplacian`, which is another approximation of the same.

    **Arguments:**

    - `grid`: the cells and their boundary conditions, which each component obeys.
    - `v`: the vector field, with its components on a leading axis.
    """
    out = grad(grid, v[0])[0]
    for axis in range(1, grid.ndim):
        out = out + grad(grid, v[axis])[axis]
    return out
