"""Second-order finite differences on a `CartesianGrid`.

Scalar fields have the grid's shape, vector fields one leading axis more. Lengths are in the grid's unit.

Fluxes live on faces, so that the flux out of one cell enters the next. `diffuse` therefore conserves the integral to
round-off with closed boundaries, like `div` and `advect` of `fluxes.py`.
"""

import itertools
import math
from typing import TypeVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit._util.safe import safe_div
from pdefit.systems.boundary import edges
from pdefit.systems.fluxes import face_differences, face_divergence, face_values, neighbours, on_faces, open_faces, pad
from pdefit.systems.grid import CartesianGrid
from pdefit.systems.system import AbstractSystem, parameters

System = TypeVar("System", bound=AbstractSystem)


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


def diffuse(grid: CartesianGrid, D: ArrayLike, u: Array, conducting: Array | None = None) -> Array:
    """Diffusion div(D grad u), at cell centres.

    It also serves for fluxes along another gradient: chemotaxis, div(chi u grad c), is `diffuse(grid, chi * u, c)`.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `D`: the diffusivity, in length squared over time: a number, or a field of the grid's shape; one for each axis,
      (ndim,) or (ndim, \\*shape); or a symmetric tensor, (ndim, ndim) or (ndim, ndim, \\*shape). A face has the mean of
      its two cells. An outer face has their extrapolation, changed by at most half. This is of second order if D is
      smooth. The harmonic mean has no derivative if both are 0. A cell with D = 0 still has half the D of its neighbour
      on the common face: use `conducting` for impermeable regions.
    - `u`: the field, of the grid's shape.
    - `conducting`: 1 in cells that conduct and 0 in blocks, of the grid's shape; no flux crosses the faces of a block.
      By default all cells conduct.

    With a tensor, too, there is no flux through a `NoFlux` end: n . D grad u is 0 there. `Neumann` and `Robin` state
    the slope du/dn, and use the cell's tensor on their faces, which is of first order if it varies.
    """
    D, axes, shape = jnp.asarray(D, jnp.result_type(u, float)), (grid.ndim,), grid.shape
    if D.ndim == 0 and conducting is None:
        return broadcast_scalar(D, u) * laplacian(grid, u)
    tensor, each = D.shape in (axes * 2, axes * 2 + shape), D.shape in (axes, axes + shape)
    if (tensor or each) == (D.shape in ((), shape)):
        what = "may be a field or a tensor" if tensor else "fits neither cells nor axes"
        raise PdefitError(
            f"D of shape {D.shape} {what} on a grid of shape {shape}; give one number for each axis as {axes + shape}, a "
            f"tensor as {axes * 2 + shape}, or any other field of the grid's shape"
        )
    if tensor:
        return _diffuse_tensor(grid, D, u, conducting)
    out = jnp.zeros_like(u)
    for axis in range(grid.ndim):
        flux, along = face_differences(grid, u, axis), D[axis] if each else D
        if along.ndim:
            flux = face_values(grid, along, axis, limited=True) * flux
        if conducting is not None:
            flux = open_faces(grid, axis, conducting) * flux
        spread = face_divergence(grid, flux, axis)
        out = out + (broadcast_scalar(along, u) * spread if each and along.ndim == 0 else spread)
    return out if D.ndim else broadcast_scalar(D, u) * out


def _diffuse_tensor(grid: CartesianGrid, D: Array, u: Array, conducting: Array | None) -> Array:
    """Diffusion by a tensor, minus the derivative of the mean of grad u . D grad u / 2 over all corners of all cells.

    It is therefore symmetric, and negative for positive D. A corner of a cell has a slope along each axis, its face's.
    Behind one closed face it is the slope without flux through that face, and behind several it is 0.

    **Arguments:** as in `diffuse`.
    """
    axes, out = range(grid.ndim), jnp.zeros_like(u)
    passes = [open_faces(grid, axis, conducting) for axis in axes]
    slopes = [face_differences(grid, u, axis) * passes[axis] for axis in axes]
    fluxes = [jnp.zeros_like(slope) for slope in slopes]
    for corner in itertools.product((0, 1), repeat=grid.ndim):
        slope, free = ([neighbours(x[i], i)[corner[i]] for i in axes] for x in (slopes, passes))
        flux = [sum((D[i, j] * slope[j] for j in axes), jnp.zeros_like(u)) for i in axes]
        for i in axes:
            alone = (1 - free[i]) * math.prod(free[j] for j in axes if j != i)
            behind = -alone * safe_div(flux[i], D[i, i])
            flux = [flux[j] + D[j, i] * behind for j in axes]
        fluxes = [total + pad(flux[i], corner[i], 1 - corner[i], i) for i, total in enumerate(fluxes)]
    for axis, flux in enumerate(fluxes):
        # a face between two cells has 2^ndim corners, and an outer one half of them
        first, last = edges(flux, axis)
        outer = (first + last, first + last) if grid.boundaries[axis].wraps else (2 * first, 2 * last)
        flux = on_faces(lax.slice_in_dim(flux, 1, u.shape[axis], axis=axis), outer, axis) * passes[axis]
        out = out + face_divergence(grid, flux, axis) / 2**grid.ndim
    return out


def grad(grid: CartesianGrid, u: Array) -> Array:
    """Gradient (du/dx, du/dy, ...) at cell centres by central differences, with the components on a leading axis.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `u`: the field, of the grid's shape.
    """
    slopes = (face_differences(grid, u, axis) for axis in range(grid.ndim))
    return jnp.stack([jnp.add(*neighbours(slope, axis)) / 2 for axis, slope in enumerate(slopes)])


# --- parameters as rows -------------------------------------------------------------------------------------------------

# The gradient of a sum over a field with respect to a number is one sum over the whole field. With many numbers these sums
# run one after the other. As a row along the last axis the number collects its sums over the other axes in a vector, which
# is summed once. With ten parameters the gradient of a large two-dimensional problem takes two thirds of the time.
# `diffuse` and `ReactionDiffusion` do this by themselves. It is not applied to every system: a vector field may use a
# number where a row of the grid's last axis does not fit, such as beside a Fourier transform or a sum.


def broadcast_scalar(x: Array, u: Array) -> Array:
    """A scalar as an array that broadcasts against a field, with the field's length along the last axis and 1 elsewhere.

    Along a single axis there is no gain, and the scalar is unchanged.

    **Arguments:**

    - `x`: the scalar.
    - `u`: the field.
    """
    if u.ndim < 2:
        return x
    row = jnp.broadcast_to(x, (*(1,) * (u.ndim - 1), *u.shape[-1:]))
    # without a barrier the compiler merges the two sums of the gradient into one again
    return lax.optimization_barrier(row)


def broadcast_scalars(system: System, u: Array) -> System:
    """A system with every scalar parameter as a row that broadcasts against a field.

    For use inside a vector field that combines its parameters with fields point by point.

    **Arguments:**

    - `system`: the equations with their parameters.
    - `u`: a field with which the parameters are combined, of the grid's shape.
    """
    names = [n for n in parameters(system) if eqx.is_inexact_array(x := getattr(system, n)) and x.ndim == 0]
    rows = [broadcast_scalar(getattr(system, n), u) for n in names]
    return eqx.tree_at(lambda s: [getattr(s, n) for n in names], system, rows)
