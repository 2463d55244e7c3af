"""Small spectral systems: a wave with complex and a front with real eigenvalues."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

import pdefit


class State(NamedTuple):
    u: Float[Array, "*grid"] = pdefit.field(doc="height")


class Waves(pdefit.SpectralSystem):
    """u_t = -a u u_x - b u_xxx."""

    a: Array = pdefit.parameter(default=1.0)
    b: Array = pdefit.parameter(default=0.01)

    def eigenvalues(self):
        return State(-self.b * self.grid.symbol(3))

    def nonlinear(self, t, y, args):
        return State(-self.a / 2 * self.grid.symbol(1) * self.grid.dealias(self.grid.to_modes(y.u**2)))

    def init(self, key):
        return State(jnp.cos(jnp.pi * self.grid.mesh()[0]))


def waves(n=32, **parameters):
    return Waves(pdefit.FourierGrid((n,), (2.0,), (-1.0,)), **parameters)
