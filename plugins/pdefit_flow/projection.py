"""Projection of a velocity onto divergence-free fields, exact to round-off."""

import functools
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import fft
from jaxtyping import Array

import pdefit
from pdefit_flow.operators import Edges, Velocity, divergence, gradient

# cells along the longer axis above which fast transforms take over: of a periodic box, and of one with walls
_PERIODIC, _WALLS = 64, 384


def project(
    grid: pdefit.CartesianGrid,
    velocity: Velocity,
    transforms: Literal["auto", "dense", "fft"] = "auto",
    edges: Edges | None = None,
) -> Velocity:
    """The nearest divergence-free velocity. Between walls the projection is linear, symmetric and idempotent.

    The gradient of `potential` is subtracted. The velocity on the rim of a box is unchanged.

    **Arguments:** as in `potential`.
    """
    pressure = gradient(grid, potential(grid, velocity, transforms, edges))
    return velocity[0] - pressure[0], velocity[1] - pressure[1]


def potential(
    grid: pdefit.CartesianGrid,
    velocity: Velocity,
    transforms: Literal["auto", "dense", "fft"] = "auto",
    edges: Edges | None = None,
) -> Array:
    """The potential, at centres and of zero mean, whose gradient a projection subtracts. For a rate it is the pressure.

    Its Laplacian is diagonal in real Fourier modes along a periodic axis, and in cosines between walls.

    Fast transforms are faster above 64 cells along the longer axis of a periodic box, and above 384 with walls. Times
    on two cores of a CPU, with matrices and with fast transforms, in ms:

    | cells | float32, periodic | float32, walls | float64, periodic | float64, walls |
    |---|---|---|---|---|
    | 64 x 64 | 0.03, 0.05 | 0.03, 0.10 | 0.05, 0.04 | 0.05, 0.14 |
    | 128 x 128 | 0.13, 0.09 | 0.13, 0.29 | 0.37, 0.18 | 0.31, 0.56 |
    | 256 x 256 | 1.0, 0.6 | 1.0, 1.6 | 2.1, 0.8 | 2.1, 2.5 |
    | 384 x 384 | 2.9, 1.2 | 3.0, 3.4 | 5.7, 2.0 | 6.4, 6.0 |
    | 512 x 512 | 8.2, 2.6 | 4.8, 5.5 | 15.5, 3.1 | 13.9, 11.9 |

    **Arguments:**

    - `grid`: the cells, and which axes are periodic.
    - `velocity`: its two components, each on its faces.
    - `transforms`: matrices ("dense") or fast transforms ("fft"), with the same result to round-off. "auto" takes the
      faster one.
    - `edges`: the velocity on the rim, with zero net flux; by default walls are impermeable.
    """
    source = divergence(grid, velocity, edges)
    few = max(grid.shape) <= (_PERIODIC if all(grid.periodic) else _WALLS)
    dense = transforms == "dense" or (transforms == "auto" and few)
    return (_dense_solve if dense else _fast_solve)(grid, source)


def _dense_solve(grid: pdefit.CartesianGrid, source: Array) -> Array:
    name = source.dtype.name
    x, y = (_modes(n, wraps, name) for n, wraps in zip(grid.shape, grid.periodic, strict=True))
    inverse = _inverse(grid.shape, grid.spacing, grid.periodic, False, name)
    # HIGHEST: the matrix units of a GPU would leave a divergence of 1e-3
    product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    return product(x.T, product(inverse * product(x, product(source, y.T)), y))


def _fast_solve(grid: pdefit.CartesianGrid, source: Array) -> Array:
    waves = tuple(axis for axis in range(2) if grid.periodic[axis])
    walls = tuple(axis for axis in range(2) if not grid.periodic[axis])
    modes = source
    for axis in walls:
        modes = fft.dct(modes, axis=axis, norm="ortho")
    shape = tuple(grid.shape[axis] for axis in waves)
    modes = jnp.fft.rfftn(modes, axes=waves) if waves else modes
    modes = modes * _inverse(grid.shape, grid.spacing, grid.periodic, True, source.dtype.name)
    modes = jnp.fft.irfftn(modes, shape, axes=waves) if waves else modes
    for axis in walls:
        modes = fft.idct(modes, axis=axis, norm="ortho")
    return modes


@functools.lru_cache
def _modes(n: int, wraps: bool, dtype: str) -> np.ndarray:
    """The modes of the Laplacian along an axis, as orthonormal rows, (n, n)."""
    place, mode = np.arange(n) + 0.5, np.arange(n)[:, None]
    if wraps:
        # 1, then cosine and sine of each wave, and the alternating mode where n is even
        angle = 2 * np.pi * ((mode + 1) // 2) * place / n
        rows = np.where(mode % 2, np.sin(angle), np.cos(angle))
    else:
        rows = np.cos(np.pi * mode * place / n)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


@functools.lru_cache
def _inverse(
    shape: tuple[int, int], spacing: tuple[float, float], periodic: tuple[bool, bool], fast: bool, dtype: str
) -> np.ndarray:
    """Inverse eigenvalues of the Laplacian in the order of the modes, 0 for the constant mode."""
    axes = []
    # of a real transform along two axes the last is the shorter one
    half = [axis for axis in range(2) if periodic[axis]][-1:] if fast else []
    for axis, (n, h, wraps) in enumerate(zip(shape, spacing, periodic, strict=True)):
        mode = np.arange(n // 2 + 1 if axis in half else n)
        angle = 2 * np.pi * (mode if fast else (mode + 1) // 2) / n if wraps else np.pi * mode / n
        axes.append((2 * np.cos(angle) - 2) / h**2)
    total = axes[0][:, None] + axes[1]
    total[0, 0] = np.inf
    return (1 / total).astype(dtype)
