"""Body forces: modules called with a time and the coordinates along both axes, with a result (nx, ny, 2)."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array


class NoForce(eqx.Module):
    """A force of zero."""

    def __call__(self, t, points):
        x, y = points
        return jnp.zeros((len(x), len(y), 2))


class KolmogorovForce(eqx.Module):
    """A shear force in sine waves: amplitude sin(2 pi wavenumber y / length) along x.

    **Arguments:**

    - `amplitude`: the largest force per mass.
    - `wavenumber`: the number of waves over `length`.
    - `length`: the length along y that holds these waves; default 2 pi.
    """

    amplitude: Array = eqx.field(converter=lambda x: jnp.asarray(x, float))
    wavenumber: int = eqx.field(static=True)
    length: float = eqx.field(default=2 * math.pi, static=True)

    def __call__(self, t, points):
        x, y = (jnp.asarray(p, self.amplitude.dtype) for p in points)
        along = self.amplitude * jnp.sin(2 * jnp.pi * self.wavenumber * y / self.length)
        return jnp.stack([jnp.broadcast_to(along, (x.size, y.size)), jnp.zeros((x.size, y.size), along.dtype)], -1)
