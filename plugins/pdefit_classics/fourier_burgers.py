"""Burgers' equation in a periodic box."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractExact, AbstractVerifiable, Example
from pdefit_classics.cole_hopf import sine_wave


class State(NamedTuple):
    u: Float[Array, " n"] = pdefit.field(unit="length/time", doc="velocity")


class FourierBurgers(pdefit.SpectralSystem, AbstractExact, AbstractVerifiable):
    """A periodic wave that steepens and dissipates: u_t + a u u_x = v u_xx, by Fourier modes.

    The initial state is -sin(pi x), with a known solution of period 2.

    **Arguments:**

    - `grid`: the points, and the period.
    - `advection`: the coefficient a.
    - `viscosity`: the coefficient v.
    """

    advection: Array = pdefit.parameter(doc="coefficient of u u_x")
    viscosity: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="coefficient of u_xx")

    def eigenvalues(self):
        return State(self.viscosity * self.grid.symbol(2))

    def nonlinear(self, t, y, args):
        return State(-self.advection / 2 * self.grid.symbol(1) * self.grid.dealias(self.grid.to_modes(y.u**2)))

    def init(self, key):
        return self.exact(jnp.asarray(0.0))

    def exact(self, t):
        return State(sine_wave(self.grid.mesh()[0], t, self.advection, self.viscosity))

    @classmethod
    def example(cls, resolution):
        system = cls(pdefit.FourierGrid((4 * resolution,), (2.0,), (-1.0,)), jnp.asarray(1.0), jnp.asarray(0.2))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 0.3, 4), 8e-4, space_order=None, time_order=2
        )
