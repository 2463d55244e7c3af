"""The Sobolev variable of a field: a search variable in which a smooth change is a shorter way than a rough one."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.fft import dctn, idctn
from jaxtyping import Array


def smooth(z: Array, length: float) -> Array:
    """The field S z with S = 1 / (1 + length^2 k^2), by cosine transforms (reflecting boundaries).

    **Arguments:**

    - `z`: a field.
    - `length`: the length over which it is smoothed, in grid cells.
    """
    return idctn(dctn(z, norm="ortho") / _stiffness(z.shape, length), norm="ortho")


def unsmooth(x: Array, length: float) -> Array:
    """The field z with S z = x, the inverse of `smooth`."""
    return idctn(dctn(x, norm="ortho") * _stiffness(x.shape, length), norm="ortho")


def _stiffness(shape: tuple[int, ...], length: float) -> Array:
    """1 + length^2 k^2 for the wave numbers k = pi n / N of every mode."""
    waves = np.meshgrid(*(np.pi * np.arange(n) / n for n in shape), indexing="ij")
    return jnp.asarray(1 + length**2 * sum(k**2 for k in waves))
