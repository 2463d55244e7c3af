"""The Lorenz equations: the simplest model of convection, and chaotic."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractVerifiable, Example


class State(NamedTuple):
    x: Float[Array, ""]
    y: Float[Array, ""]
    z: Float[Array, ""]


class Lorenz(pdefit.AbstractSystem, AbstractVerifiable):
    """Three modes of convection: x' = sigma (y - x), y' = x (rho - z) - y, z' = x y - beta z.

    At sigma = 10, rho = 28 and beta = 8/3 errors grow by a factor e in a time of 1.1 on average.

    **Arguments:**

    - `sigma`: the Prandtl number.
    - `rho`: the Rayleigh number over its critical value.
    - `beta`: the geometric factor.
    - `start`: the initial (x, y, z), (3,); default (-8, 7, 27).

    Source: E. N. Lorenz, J. Atmos. Sci. 20:130 (1963), doi:10.1175/1520-0469(1963)020<0130:DNF>2.0.CO;2.
    """

    time_unit: ClassVar[str] = "1"
    sigma: Array = pdefit.parameter(positive=True, doc="Prandtl number")
    rho: Array = pdefit.parameter(positive=True, doc="Rayleigh number over its critical value")
    beta: Array = pdefit.parameter(positive=True, doc="geometric factor")
    start: tuple[float, float, float] = (-8.0, 7.0, 27.0)

    def vector_field(self, t, y, args):
        return State(self.sigma * (y.y - y.x), y.x * (self.rho - y.z) - y.y, y.x * y.y - self.beta * y.z)

    def init(self, key):
        return State(*(jnp.asarray(x, float) for x in self.start))

    @classmethod
    def example(cls, resolution):
        system = cls(jnp.asarray(10.0), jnp.asarray(28.0), jnp.asarray(8 / 3))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 1.0, 6), 0.005, space_order=None, time_order=4
        )
