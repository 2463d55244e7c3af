"""Second-order finite differences on a `CartesianGrid`. Fields have the grid's shape, vectors one leading axis more.

Fluxes live on faces, so that what leaves one cell enters the next and `diffuse` conserves the integral to round-off
wherever the boundary lets nothing through.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from pdefit.systems.grid import CartesianGrid


def face_differences(grid: CartesianGrid, u: Array, axis: int) -> Array:
    """du/dx on the faces normal to `axis`: one face more than cells."""
    before, after = grid.boundaries[axis].ghosts(u, axis)
    padded = jnp.concatenate([before, u, after], axis=axis)
    n = padded.shape[axis]
    upper = lax.slice_in_dim(padded, 1, n, axis=axis)
    lower = lax.slice_in_dim(padded, 0, n - 1, axis=axis)
    return (upper - lower) / grid.spacing[axis]


def face_divergence(grid: CartesianGrid, flux: Array, axis: int) -> Array:
    """d(flux)/dx at centres, from values on the faces normal to `axis`."""
    n = flux.shape[axis]
    upper = lax.slice_in_dim(flux, 1, n, axis=axis)
    lower = lax.slice_in_dim(flux, 0, n - 1, axis=axis)
    return (upper - lower) / grid.spacing[axis]


def laplacian(grid: CartesianGrid, u: Array) -> Array:
    """div grad u."""
    out = face_divergence(grid, face_differences(grid, u, 0), 0)
    for axis in range(1, grid.ndim):
        out = out + face_divergence(grid, face_differences(grid, u, axis), axis)
    return out


def diffuse(grid: CartesianGrid, D: Array, u: Array) -> Array:
    """div(D grad u) for a diffusivity D that is a scalar or a field (averaged to the faces)."""
    if D.ndim == 0:
        return D * laplacian(grid, u)
    out = jnp.zeros_like(u)
    for axis in range(grid.ndim):
        first, last = (
            lax.slice_in_dim(D, 0, 1, axis=axis),
            lax.slice_in_dim(D, D.shape[axis] - 1, D.shape[axis], axis=axis),
        )
        if grid.boundaries[axis].wraps:
            first, last = last, first
        padded = jnp.concatenate([first, D, last], axis=axis)
        n = padded.shape[axis]
        on_faces = (lax.slice_in_dim(padded, 1, n, axis=axis) + lax.slice_in_dim(padded, 0, n - 1, axis=axis)) / 2
        out = out + face_divergence(grid, on_faces * face_differences(grid, u, axis), axis)
    return out


def grad(grid: CartesianGrid, u: Array) -> Array:
    """(du/dx, du/dy, ...) at centres, stacked on a leading axis, by central differences."""
    components = []
    for axis in range(grid.ndim):
        faces = face_differences(grid, u, axis)
        n = faces.shape[axis]
        upper, lower = lax.slice_in_dim(faces, 1, n, axis=axis), lax.slice_in_dim(faces, 0, n - 1, axis=axis)
        components.append((upper + lower) / 2)
    return jnp.stack(components)


def div(grid: CartesianGrid, v: Array) -> Array:
    """dv_x/dx + dv_y/dy + ... at centres, by central differences; each component obeys the grid's boundary conditions."""
    out = grad(grid, v[0])[0]
    for axis in range(1, grid.ndim):
        out = out + grad(grid, v[axis])[axis]
    return out
