"""The Allen-Cahn equation: two phases that separate."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractVerifiable, Example


class State(NamedTuple):
    u: Float[Array, "*grid"] = pdefit.field(doc="order parameter")


class AllenCahn(pdefit.SpectralSystem, AbstractVerifiable):
    """An order parameter that separates into two phases: u_t = D lap u + a u - b u^3, in a periodic box.

    The phases are +- sqrt(a / b), and walls between them have the width sqrt(2 D / a). The initial state is
    x^2 cos(pi x) along the first axis, with x from -1 to 1 over the box.

    **Arguments:**

    - `grid`: the points, and the periods.
    - `D`: the diffusivity.
    - `a`: the growth rate at u = 0.
    - `b`: the rate of saturation.

    Source: S. M. Allen, J. W. Cahn (1979), doi:10.1016/0001-6160(79)90196-2.
    """

    D: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity")
    a: Array = pdefit.parameter(unit="1/time", positive=True, doc="rate of growth")
    b: Array = pdefit.parameter(unit="1/time", positive=True, doc="rate of saturation")

    def eigenvalues(self):
        return State(self.D * self.grid.laplacian_symbol())

    def nonlinear(self, t, y, args):
        return State(self.grid.to_modes(self.a * y.u - self.b * y.u**3))

    def init(self, key):
        x = 2 * (self.grid.mesh()[0] - self.grid.corner[0]) / self.grid.extent[0] - 1
        return State(x**2 * jnp.cos(jnp.pi * x))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.FourierGrid((4 * resolution,), (2.0,), (-1.0,))
        system = cls(grid, *map(jnp.asarray, (1e-3, 5.0, 5.0)))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 0.4, 5), 0.01, space_order=None, time_order=4
        )
