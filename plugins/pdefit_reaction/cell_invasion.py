"""Cells that move and divide until the dish is full: Fisher's equation, and three generalisations."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractStable, AbstractVerifiable, Example

# share of the capacity below which cells move as at it: powers of a density of zero have no derivative
_LEAST = 1e-4
# days of a lag that is none
_NO_LAG = 1e-9


class State(NamedTuple):
    u: Float[Array, " x"] = pdefit.field(unit="cells/mm^2", doc="density of cells")


class CellInvasion(pdefit.AbstractFieldSystem, AbstractStable, AbstractVerifiable):
    """Invasion of free space by cells: u_t = div(D s^m grad u) + r w u (1 - s^a), where s = u / K is the share of the capacity.

    One class contains four models of the same data. m = 0, a = 1 and no lag is Fisher's equation. m > 0 is the porous
    Fisher equation, in which crowded cells move more and a front has a sharp edge. a is the exponent of Richards'
    growth: above 1 cells divide at their full rate until they are crowded. With a lag, growth starts slowly, w = 1 -
    exp(-t / lag). Cells that stick together, with D decreasing in s, are not covered.

    **Arguments:** `grid`, with lengths in mm; `D` (mm^2/day) at capacity; `r` (1/day); `K` (cells/mm^2); `m`, `a`;
    `lag` (day).

    Sources: W. Jin et al., J. Theor. Biol. 390:136 (2016), doi:10.1016/j.jtbi.2015.10.040; F. J. Richards, J. Exp. Bot. 10:290
    (1959), doi:10.1093/jxb/10.2.290.
    """

    time_unit: ClassVar[str] = "day"
    grid: pdefit.CartesianGrid
    D: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity at capacity")
    r: Array = pdefit.parameter(unit="1/day", positive=True, doc="growth rate of few cells")
    K: Array = pdefit.parameter(unit="cells/mm^2", positive=True, doc="carrying capacity")
    m: Array = pdefit.parameter(default=0.0, doc="exponent of the diffusivity")
    a: Array = pdefit.parameter(default=1.0, positive=True, doc="exponent of crowding")
    lag: Array = pdefit.parameter(default=0.0, unit="day", doc="time after which growth has woken up")

    def vector_field(self, t, y, args):
        share = jnp.maximum(y.u / self.K, _LEAST)
        spread = pdefit.diffuse(self.grid, self.D * share**self.m, y.u)
        awake = -jnp.expm1(-t / jnp.maximum(self.lag, _NO_LAG))
        return State(spread + self.r * awake * y.u * (1 - share**self.a))

    def init(self, key):
        """A scratch: the middle third of the width is nearly empty."""
        x, width = self.grid.mesh()[0], self.grid.extent[0]
        return State(self.K * (0.05 + 0.35 * (jnp.abs(x - self.grid.corner[0] - width / 2) > width / 6)))

    def stable_step(self, y):
        fastest = max(float(jnp.max(y.u / self.K)), 1.0) ** max(float(self.m), 0.0)
        spread = 4 * float(self.D) * fastest * sum(1 / h**2 for h in self.grid.spacing)
        return 2 / (spread + float(self.r) * max(float(self.a), 1.0))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid(shape=(2 * resolution,), extent=(1.9,), length_unit="mm")
        system = cls(grid, *map(jnp.asarray, (0.012, 1.2, 1700.0, 0.5, 1.5, 0.3)))
        # smooth, so that orders can be measured
        y = State(850 * (1 + 0.8 * jnp.cos(2 * jnp.pi * grid.mesh()[0] / 1.9)))
        return Example(
            system, y, np.linspace(0.0, 1.0, 4), 0.2 * grid.spacing[0] ** 2 / 0.012, space_order=2, time_order=4
        )
