"""Implicit diffusion steps by Fourier transforms, and the modes of the discrete Laplacian."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.systems.grid import CartesianGrid


def diffusion_solve(grid: CartesianGrid, D: Array, h: Array, u: Array) -> Array:
    """Solution of an implicit diffusion step, (1 - h D lap)^-1 u, by Fourier transforms.

    It is the exact inverse for the *discrete* `laplacian`, with every mixture of periodic, no-flux, Neumann and
    Dirichlet ends. Robin ends are refused. A boundary value counts as 0, because its contribution is not linear. The
    result is differentiable in D, h and u.

    A field with no-flux (Dirichlet) conditions, extended by its even (odd) mirror image, is periodic. With one
    condition of each kind it is periodic after its negative is appended, too. Plane waves diagonalise differences
    between periodic neighbours: their eigenvalue is sum_axis -(2 / dx)^2 sin^2(pi k / m) for wave number k of m points.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `D`: the diffusivity, a scalar, in length squared over time. A spatially varying one is refused.
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
    """Plane-wave coefficients of a field extended beyond the walls, in which the Laplacian is diagonal.

    **Arguments:**

    - `grid`: the cells and their boundary conditions.
    - `u`: the field, of the grid's shape.
    """
    for axis, boundary in enumerate(grid.boundaries):
        u = boundary.period(u, axis)
    return jnp.fft.rfftn(u)


def from_modes(grid: CartesianGrid, modes: Array) -> Array:
    """Field from its plane-wave coefficients, the inverse of `to_modes`."""
    u = jnp.fft.irfftn(modes, s=_periods(grid))
    for axis, n in enumerate(grid.shape):
        u = lax.slice_in_dim(u, 0, n, axis=axis)
    return u


def laplacian_eigenvalues(grid: CartesianGrid) -> np.ndarray:
    """Eigenvalues of the discrete Laplacian, one for each plane wave of `to_modes`."""
    return -_squared(grid, np.sin)


def squared_wave_numbers(grid: CartesianGrid) -> np.ndarray:
    """Squared wave number of each plane wave of `to_modes`, in one over length squared."""
    return _squared(grid, lambda half: np.minimum(half, np.pi - half))


def _squared(grid: CartesianGrid, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Sum over axes of the squares of 2 of(k dx / 2) / dx, for wave numbers k from 0 to 2 pi / dx."""
    values = np.zeros(())
    for axis, (m, spacing) in enumerate(zip(_periods(grid), grid.spacing, strict=True)):
        # the transform of a real field has only half of the wave numbers along the last axis
        k = np.arange(m // 2 + 1 if axis == grid.ndim - 1 else m)
        values = values[..., None] + (2 / spacing * of(np.pi * k / m)) ** 2
    return values


def _periods(grid: CartesianGrid) -> tuple[int, ...]:
    """Number of cells of one period along every axis."""
    cells = jax.ShapeDtypeStruct(grid.shape, float)
    return tuple(
        jax.eval_shape(lambda u, b=b, i=i: b.period(u, i), cells).shape[i] for i, b in enumerate(grid.boundaries)
    )
