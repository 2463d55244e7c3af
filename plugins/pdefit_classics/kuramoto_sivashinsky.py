"""The Kuramoto-Sivashinsky equation: chaos in space and time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractVerifiable, Example


class State(NamedTuple):
    u: Float[Array, " n"] = pdefit.field(doc="velocity of a flame front")


class KuramotoSivashinsky(pdefit.SpectralSystem, AbstractVerifiable):
    """Long waves that grow and short ones that decay: u_t + a u u_x + g u_xx + d u_xxxx = 0, in a periodic box.

    Waves longer than 2 pi sqrt(d / g) grow. With a = g = d = 1 states are chaotic in a box much longer than that. The
    initial state is cos(q x) (1 + sin(q x)), with q = 2 pi over the box.

    **Arguments:**

    - `grid`: the points, and the period.
    - `advection`: the coefficient a.
    - `growth`: the coefficient g, a negative viscosity.
    - `damping`: the coefficient d.

    Sources: Y. Kuramoto, T. Tsuzuki (1976), doi:10.1143/PTP.55.356; A.-K. Kassam, L. N. Trefethen (2005),
    doi:10.1137/S1064827502410633, for the initial state.
    """

    advection: Array = pdefit.parameter(unit="length/time", doc="coefficient of u u_x")
    growth: Array = pdefit.parameter(unit="length^2/time", doc="coefficient of u_xx")
    damping: Array = pdefit.parameter(unit="length^4/time", positive=True, doc="coefficient of u_xxxx")

    def eigenvalues(self):
        return State(-self.growth * self.grid.symbol(2) - self.damping * self.grid.symbol(4))

    def nonlinear(self, t, y, args):
        return State(-self.advection / 2 * self.grid.symbol(1) * self.grid.dealias(self.grid.to_modes(y.u**2)))

    def init(self, key):
        phase = 2 * jnp.pi * (self.grid.mesh()[0] - self.grid.corner[0]) / self.grid.extent[0]
        return State(jnp.cos(phase) * (1 + jnp.sin(phase)))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.FourierGrid((2 * resolution,), (22.0,))
        system = cls(grid, *map(jnp.asarray, (1.0, 1.0, 1.0)))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 2.0, 5), 4e-3, space_order=None, time_order=3
        )
