"""The Fisher-KPP equation: the simplest travelling front."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractExact, AbstractVerifiable, Example


class State(NamedTuple):
    u: Float[Array, "*grid"] = pdefit.field(doc="density", diffusivity="D")


class FisherKPP(pdefit.ReactionDiffusion, AbstractExact, AbstractVerifiable):
    """Logistic growth that spreads by diffusion: u_t = D lap u + r u (1 - u).

    Fronts move at 2 sqrt(r D) or faster. The initial state is the plane front with the closed form (1 + exp(z))^-2,
    where z = (x - front - c t) / sqrt(6 D / r) and c = 5 sqrt(r D / 6). Good values: D = r = 1, cells of at most 0.25.

    **Arguments:** `grid`; `D` (length^2/s); `r` (1/s); `front`: the position at t = 0, in the unit of the grid.

    Sources: R. A. Fisher (1937), doi:10.1111/j.1469-1809.1937.tb02153.x; M. Ablowitz, A. Zeppetella, doi:10.1007/BF02462380.
    """

    time_unit: ClassVar[str] = "s"
    D: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity")
    r: Array = pdefit.parameter(unit="1/s", positive=True, doc="growth rate")
    front: float = 0.0

    def reaction(self, t, y, args):
        return State(self.r * y.u * (1 - y.u))

    def stiffness(self, y):
        return self.r

    def init(self, key):
        return self.exact(jnp.asarray(0.0))

    def exact(self, t):
        length, speed = jnp.sqrt(self.D / self.r), 5 * jnp.sqrt(self.r * self.D / 6)
        return State((1 + jnp.exp((self.grid.mesh()[0] - self.front - speed * t) / (jnp.sqrt(6.0) * length))) ** -2)

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid(shape=(4 * resolution,), extent=(80.0,), origin=(-40.0,), length_unit="mm")
        system, dt = cls(grid, jnp.asarray(1.0), jnp.asarray(1.0), -4.0), 0.15 * grid.spacing[0] ** 2
        return Example(system, system.exact(jnp.zeros(())), np.linspace(0.0, 2.0, 5), dt, space_order=2, time_order=4)
