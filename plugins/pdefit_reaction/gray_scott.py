"""The Gray-Scott equations: spots that divide, stripes, labyrinths."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.boundaries import Periodic
from pdefit.capabilities import AbstractVerifiable, Example


class State(NamedTuple):
    """The state of the model, two concentrations of the grid's shape."""

    u: Float[Array, "*grid"] = pdefit.field(doc="substrate", diffusivity="D_u")
    v: Float[Array, "*grid"] = pdefit.field(doc="activator", diffusivity="D_v")


class GrayScott(pdefit.ReactionDiffusion, AbstractVerifiable):
    """An activator v that consumes a substrate u, u + 2 v -> 3 v, both fed and washed out.

        u_t = D_u lap u - u v^2 + feed (1 - u)
        v_t = D_v lap v + u v^2 - (feed + kill) v

    Initially u = 1 and v = 0 except in five spots, placed by the seed. All quantities are dimensionless. Good values
    (Pearson): D_u = 2e-5, D_v = 1e-5, feed 0.01 to 0.07, kill 0.05 to 0.07, cells of 0.01 in a periodic box.

    **Arguments:**

    - `grid`: the cells.
    - `D_u`, `D_v`: the diffusivities of substrate and activator.
    - `feed`: the feed rate of the substrate, and the outflow rate of both.
    - `kill`: the additional removal rate of the activator.

    Source: J. E. Pearson, Science 261:189 (1993), doi:10.1126/science.261.5118.189.
    """

    D_u: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity of the substrate")
    D_v: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity of the activator")
    feed: Array = pdefit.parameter(unit="1/time", positive=True, doc="feed rate")
    kill: Array = pdefit.parameter(unit="1/time", positive=True, doc="removal rate of the activator")

    def reaction(self, t, y, args):
        eaten = self.eaten(y)
        return State(self.feed * (1 - y.u) - eaten, eaten - (self.feed + self.kill) * y.v)

    def eaten(self, y: State) -> Array:
        """The rate at which the activator converts substrate into activator."""
        return y.u * y.v**2

    def init(self, key):
        edges, corner = jnp.asarray([self.grid.extent]), jnp.asarray([self.grid.corner])
        places = corner + edges * jax.random.uniform(key, (5, self.grid.ndim))
        squares = [sum((x - p) ** 2 for x, p in zip(self.grid.mesh(), place, strict=True)) for place in places]
        v = 0.3 * jnp.sum(jnp.exp(-jnp.stack(squares) / 0.04**2), axis=0)
        return State(1 - v, v)

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid((2 * resolution,), (0.64,), boundary=Periodic())
        system = cls(grid, *map(jnp.asarray, (2e-5, 1e-5, 0.04, 0.06)))
        y0, ts = system.init(jax.random.key(0)), np.linspace(0.0, 20.0, 5)
        return Example(system, y0, ts, 1.0, space_order=2, time_order=4)
