"""The Fisher-KPP equation: the simplest travelling front."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit


class State(NamedTuple):
    """u: density, from 0 (empty) to 1 (full), of the grid's shape."""

    u: Float[Array, "*grid"]


class FisherKPP(
    pdefit.AbstractSystem,
    pdefit.AbstractVerifiable,
    pdefit.AbstractGridded,
    pdefit.AbstractRefinable,
    pdefit.AbstractExact,
    pdefit.AbstractStable,
    pdefit.AbstractSplit,
):
    """Logistic growth that spreads by diffusion, in one, two or three dimensions.

        u_t = D lap u + r u (1 - u)

    Any front from full to empty runs at 2 sqrt(r D) or faster. One of them has a closed form: a plane front at speed
    c = 5 sqrt(r D / 6), `u = (1 + exp((x - front - c t) / (sqrt(6) l)))^-2` with the length l = sqrt(D / r). It runs
    along the first axis and is the initial state. Good values: D = 1, r = 1, cells no larger than l / 4, and boundaries
    at least 30 l away from the front.

    Sources: R. A. Fisher, Ann. Eugen. 7:355 (1937), doi:10.1111/j.1469-1809.1937.tb02153.x; M. J. Ablowitz and
    A. Zeppetella, Bull. Math. Biol. 41:835 (1979), doi:10.1007/BF02462380.
    """

    time_unit: ClassVar[str] = "s"

    grid: pdefit.CartesianGrid
    D: Array = pdefit.parameter(unit="mm^2/s", positive=True, doc="diffusivity")
    r: Array = pdefit.parameter(unit="1/s", positive=True, doc="growth rate")
    front: float = 0.0

    def vector_field(self, t, y, args):
        return State(pdefit.diffuse(self.grid, self.D, y.u) + self.r * y.u * (1 - y.u))

    def explicit(self, t, y, args):
        return State(self.r * y.u * (1 - y.u) + self._wall(y.u))

    def linear(self, y):
        return State(pdefit.diffuse(self.grid, self.D, y.u) - self._wall(y.u))

    def linear_solve(self, y, h):
        return State(pdefit.diffusion_solve(self.grid, self.D, h, y.u))

    def _wall(self, u: Array) -> Array:
        """What a Dirichlet value brings in, whatever u is."""
        return pdefit.diffuse(self.grid, self.D, jnp.zeros_like(u))

    def init(self, key):
        return self.exact(jnp.asarray(0.0))

    def exact(self, t):
        length = jnp.sqrt(self.D / self.r)
        speed = 5 * jnp.sqrt(self.r * self.D / 6)
        x = self.grid.mesh()[0]
        return State((1 + jnp.exp((x - self.front - speed * t) / (jnp.sqrt(6.0) * length))) ** -2)

    def stable_step(self, y):
        stiffness = 4 * float(self.D) * sum(1 / h**2 for h in self.grid.spacing) + float(self.r)
        return 2 / stiffness

    def coords(self):
        return {"u": self.grid.coords(unit="1", long_name="density")}

    def coarsen(self, y, factor):
        return State(self.grid.coarsen(y.u, factor))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid(shape=(4 * resolution,), extent=(80.0,), origin=(-40.0,), length_unit="mm")
        system = cls(grid=grid, D=jnp.asarray(1.0), r=jnp.asarray(1.0), front=-4.0)
        y0 = system.exact(jnp.asarray(0.0))
        # a fixed number of steps for each cell crossing keeps the time error below the space error
        dt = 0.15 * grid.spacing[0] ** 2
        return pdefit.Example(system, y0, np.linspace(0.0, 2.0, 5), dt, space_order=2, time_order=4)
