"""The inverse of an implicit step of diffusion, by Fourier transforms."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.systems.grid import CartesianGrid


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
    whole = u
    for axis, boundary in enumerate(grid.boundaries):
        whole = boundary.period(whole, axis)
    decay = np.zeros(())
    for axis, (m, spacing) in enumerate(zip(whole.shape, grid.spacing, strict=True)):
        # the transform of a real field has only half of the wave numbers along the last axis
        k = np.arange(m // 2 + 1 if axis == grid.ndim - 1 else m)
        of_axis = (2 / spacing * np.sin(np.pi * k / m)) ** 2
        decay = decay[..., None] + of_axis
    spectrum = jnp.fft.rfftn(whole) / (1 + (h * D).astype(u.dtype) * jnp.asarray(decay, u.dtype))
    solved = jnp.fft.irfftn(spectrum, s=whole.shape)
    for axis, n in enumerate(grid.shape):
        solved = lax.slice_in_dim(solved, 0, n, axis=axis)
    return solved
