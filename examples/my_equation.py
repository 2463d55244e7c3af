"""The bistable equation: one of two stable states conquers the other."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array
from pdefit.capabilities import AbstractVerifiable, Example


class State(NamedTuple):
    u: Array = pdefit.field(doc="excitation", diffusivity="D")


class Bistable(pdefit.ReactionDiffusion, AbstractVerifiable):
    """u_t = D lap u + r u (1 - u) (u - 1/4), with a front along x at the start."""

    time_unit = "s"
    D: Array = pdefit.parameter(unit="mm^2/s", positive=True, doc="diffusivity")
    r: Array = pdefit.parameter(unit="1/s", positive=True, doc="reaction rate")
    front: float = 0.0

    def reaction(self, t, y, args):
        return State(self.r * y.u * (1 - y.u) * (y.u - 0.25))

    def init(self, key):
        x = self.grid.mesh()[0] - self.front
        return State(1 / (1 + jnp.exp(x / jnp.sqrt(2 * self.D / self.r))))

    @classmethod
    def example(cls, resolution):
        """A short run on which `pdefit verify` tests everything."""
        grid = pdefit.CartesianGrid((8 * resolution,), (24.0,), (-12.0,))
        system, ts = cls(grid, D=1.0, r=8.0, front=-1.0), np.linspace(0.0, 1.0, 5)
        dt, y0 = 0.3 * grid.spacing[0] ** 2, system.init(None)
        return Example(system, y0, ts, dt, space_order=2, time_order=4)
