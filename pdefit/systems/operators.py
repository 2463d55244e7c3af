"""Second-order finite differences on a `CartesianGrid`, and the inverse of an implicit step of diffusion.

Scalar fields have the grid's shape, vector fields one leading axis more. Lengths are in the grid's unit.

Fluxes live on faces, so that what leaves one cell enters the next. `diffuse` therefore conserves the integral to
round-off wherever the boundary lets nothing through.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.systems.boundary import edges
from pdefit.systems.grid import CartesianGrid
from pdefit.systems.system import AbstractSystem, parameters

System = TypeVar("System", bound=AbstractSystem)


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
    - `D`: the diffusivity, in length squared over time: a scalar, or a field of the grid's shape. A face has the mean of
      its two cells, of second order where D is smooth, and linear in D. The harmonic mean has no derivative where both
      are 0. A cell of D = 0 still meets half the D of its neighbour on its faces: where nothing may enter, take
      `conducting`.
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
            first, last = edges(D, axis)
            if grid.boundaries[axis].wraps:
                first = last = (first + last) / 2
            flux = _on_faces((lower + upper) / 2, (first, last), axis) * flux
        if conducting is not None:
            lower, upper = _neighbours(conducting, axis)
            first, last = edges(conducting, axis)
            if grid.boundaries[axis].wraps:
                first = last = first * last
            flux = _on_faces(lower * upper, (first, last), axis) * flux
        out = out + face_divergence(grid, flux, axis)
    return out if D.ndim else broadcast_scalar(D, u) * out


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


# --- parameters as rows -------------------------------------------------------------------------------------------------

# The gradient of a sum over a field with respect to a number is one sum over the whole field. With many numbers these sums
# run one after the other. As a row along the last axis the number collects its sums over the other axes in a vector, which
# is summed once. With ten parameters the gradient of a large two-dimensional problem takes two thirds of the time.
# `diffuse` and `ReactionDiffusion` do this by themselves. It is not applied to every system: a vector field may use a
# number where a row of the grid's last axis does not fit, such as beside a Fourier transform or a sum.


def broadcast_scalar(x: Array, u: Array) -> Array:
    """A scalar as an array that broadcasts against a field: of its extent along the last axis, and 1 along the others.

    Along a single axis there is nothing to gain, and the scalar stays one.

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
    - `u`: a field with which the parameters are combined; its shape is that of the grid.
    """
    names = [n for n in parameters(system) if eqx.is_inexact_array(x := getattr(system, n)) and x.ndim == 0]
    rows = [broadcast_scalar(getattr(system, n), u) for n in names]
    return eqx.tree_at(lambda s: [getattr(s, n) for n in names], system, rows)


# --- the inverse of an implicit step ------------------------------------------------------------------------------------


def diffusion_solve(grid: CartesianGrid, D: Array, h: Array, u: Array) -> Array:
    """The inverse of an implicit step of diffusion: (1 - h D lap)^-1 u, by Fourier transforms.

    It is the exact inverse with the *discrete* `laplacian`, for every mixture of periodic, no-flux, Neumann and
    Dirichlet ends. Robin ends are refused. A boundary value counts as 0, because what it adds is no linear part. The
    result is differentiable in D, h and u.

    A field with no-flux (Dirichlet) conditions, followed by its mirror image (its negative mirror image), is periodic.
    With one of each it is so after the negative of both, too.
    Plane waves diagonalise differences between periodic neighbours: their eigenvalue is sum_axis -(2 / dx)^2 sin^2(pi k
    / m) for wave number k of m points.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `D`: the diffusivity, a scalar, in length squared over time. One that varies in space is refused.
    - `h`: the time of the implicit step, a scalar.
    - `u`: the field, of the grid's shape.
    """
    if D.ndim:
        raise PdefitError(
            f"diffusion_solve expects one diffusivity, but D varies in space with shape {D.shape}; use solver=rkc"
        )
    decay = (h * D).astype(u.dtype) * jnp.asarray(laplacian_eigenvalues(grid), u.dtype)
    return from_modes(grid, to_modes(grid, u) / (1 - decay))


def to_modes(grid: CartesianGrid, u: Array) -> Array:
    """The plane waves of a field that is continued beyond the walls, in which the Laplacian is diagonal.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `u`: the field, of the grid's shape.
    """
    for axis, boundary in enumerate(grid.boundaries):
        u = boundary.period(u, axis)
    return jnp.fft.rfftn(u)


def from_modes(grid: CartesianGrid, modes: Array) -> Array:
    """The field of its plane waves, the inverse of `to_modes`."""
    u = jnp.fft.irfftn(modes, s=_periods(grid))
    for axis, n in enumerate(grid.shape):
        u = lax.slice_in_dim(u, 0, n, axis=axis)
    return u


def laplacian_eigenvalues(grid: CartesianGrid) -> np.ndarray:
    """The eigenvalues of the discrete Laplacian, one for each plane wave of `to_modes`."""
    return -_squared(grid, np.sin)


def squared_wave_numbers(grid: CartesianGrid) -> np.ndarray:
    """The squared wave number of each plane wave of `to_modes`, in one over length squared."""
    return _squared(grid, lambda half: np.minimum(half, np.pi - half))


def _squared(grid: CartesianGrid, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The sum over axes of the squares of 2 of(k dx / 2) / dx, for wave numbers k from 0 to 2 pi / dx."""
    values = np.zeros(())
    for axis, (m, spacing) in enumerate(zip(_periods(grid), grid.spacing, strict=True)):
        # the transform of a real field has only half of the wave numbers along the last axis
        k = np.arange(m // 2 + 1 if axis == grid.ndim - 1 else m)
        values = values[..., None] + (2 / spacing * of(np.pi * k / m)) ** 2
    return values


def _periods(grid: CartesianGrid) -> tuple[int, ...]:
    """The number of cells of one period along every axis."""
    cells = jax.ShapeDtypeStruct(grid.shape, float)
    return tuple(
        jax.eval_shape(lambda u, b=b, i=i: b.period(u, i), cells).shape[i] for i, b in enumerate(grid.boundaries)
    )
