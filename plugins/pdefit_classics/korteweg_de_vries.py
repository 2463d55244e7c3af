"""The Korteweg-de Vries equation: waves in shallow water, and solitons."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractConservative, AbstractVerifiable, Example


class State(NamedTuple):
    u: Float[Array, " n"] = pdefit.field(doc="height")


class KortewegDeVries(pdefit.SpectralSystem, AbstractConservative, AbstractVerifiable):
    """Long waves that steepen and disperse: u_t + a u u_x + d u_xxx = 0, in a periodic box.

    The initial state is one soliton, 3 c / a sech(sqrt(c / d) (x - x_0 - c t) / 2)^2. It keeps its shape if the box is
    much longer than sqrt(d / c), and is only shifted by collisions with other solitons.

    **Arguments:**

    - `grid`: the points, and the period.
    - `advection`: the coefficient a.
    - `dispersion`: the coefficient d.
    - `speed`: the soliton's speed c; default 1.
    - `place`: its position x_0 at t = 0; default 0.

    Source: D. J. Korteweg, G. de Vries (1895), doi:10.1080/14786449508620739.
    """

    advection: Array = pdefit.parameter(unit="length/time", doc="coefficient of u u_x")
    dispersion: Array = pdefit.parameter(unit="length^3/time", positive=True, doc="coefficient of u_xxx")
    speed: float = 1.0
    place: float = 0.0

    def eigenvalues(self):
        return State(-self.dispersion * self.grid.symbol(3))

    def nonlinear(self, t, y, args):
        return State(-self.advection / 2 * self.grid.symbol(1) * self.grid.dealias(self.grid.to_modes(y.u**2)))

    def init(self, key):
        return self.soliton(jnp.asarray(0.0))

    def soliton(self, t: Float[Array, ""]) -> State:
        """The soliton at time t, exact in an infinite box."""
        ahead, period = self.grid.mesh()[0] - self.place - self.speed * t, self.grid.extent[0]
        nearest = ahead - period * jnp.round(ahead / period)
        return State(
            3 * self.speed / self.advection / jnp.cosh(jnp.sqrt(self.speed / self.dispersion) / 2 * nearest) ** 2
        )

    def invariants(self, y):
        return {"mass": jnp.mean(y.u)}

    @classmethod
    def example(cls, resolution):
        # explicit steps of second order: at third and higher order errors in time are those of round-off
        system = cls(pdefit.FourierGrid((6 * resolution,), (40.0,), (-20.0,)), jnp.asarray(1.0), jnp.asarray(1.0))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 0.6, 4), 5e-4, space_order=None, time_order=2
        )
