"""A density with a three-point stencil as spatial operator, and growth as a function of the density."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.boundaries import Periodic
from pdefit.capabilities import AbstractStable, AbstractVerifiable, Example
from pdefit.terms import AbstractTerm, Formula
from pdefit_reaction._slope import largest_slope


class State(NamedTuple):
    u: Float[Array, " x"] = pdefit.field(doc="density")


class StencilGrowth(pdefit.AbstractFieldSystem, AbstractStable, AbstractVerifiable):
    """Spread by a stencil and growth by a function: u_i' = (left (u_{i-1} - u_i) + right (u_{i+1} - u_i)) / h^2 + growth(u_i).

    Fisher's equation with unknown operator and growth, on a ring of cells of size h. The weight of the cell itself is
    minus the sum of both weights: a free weight could not be told from the linear part of the growth. left = right = D
    is diffusion; their difference is a drift of velocity (left - right) / h. Data and model need the same cell size,
    unless both weights are equal.

    The initial state is a pulse of density 1 from 0.4 to 0.6 of the width. Good values: left = right = 0.01, 25 cells
    of 0.04, growth u (1 - u), times up to 5.

    **Arguments:**

    - `grid`: a periodic row of cells.
    - `left`, `right`: the weights of the neighbours, times h^2.
    - `growth`: the growth, a term of u, in 1/time; default u (1 - u).

    Source: C. Rackauckas et al., arXiv:2001.04385, equations 7 and 8.
    """

    time_unit: ClassVar[str] = "1"
    left: Array = pdefit.parameter(unit="length^2/time", doc="weight of the left neighbour")
    right: Array = pdefit.parameter(unit="length^2/time", doc="weight of the right neighbour")
    growth: AbstractTerm = pdefit.parameter(
        default_factory=lambda: Formula("u * (1 - u)", ("u",)), unit="1/time", doc="growth of a density"
    )

    def __check_init__(self):
        if self.grid.ndim != 1 or self.grid.periodic != (True,):
            raise ValueError("StencilGrowth expects one periodic axis; set grid.boundary={name: periodic}")

    def vector_field(self, t, y, args):
        (h,) = self.grid.spacing
        spread = self.left * (jnp.roll(y.u, 1) - y.u) + self.right * (jnp.roll(y.u, -1) - y.u)
        return State(spread / h**2 + self.growth(y.u))

    def init(self, key):
        part = (self.grid.mesh()[0] - self.grid.corner[0]) / self.grid.extent[0]
        return State((jnp.tanh((part - 0.4) / 0.02) - jnp.tanh((part - 0.6) / 0.02)) / 2)

    def stable_step(self, y):
        (h,) = self.grid.spacing
        return 2 / (2 * float(jnp.abs(self.left) + jnp.abs(self.right)) / h**2 + largest_slope(self.growth, y.u))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid((2 * resolution,), (1.0,), boundary=Periodic())
        growth = Formula("r * u - s * u^2", ("u",), {"r": 1.2, "s": 0.9})
        system = cls(grid=grid, left=jnp.asarray(0.011), right=jnp.asarray(0.011), growth=growth)
        y = State(0.4 + 0.3 * jnp.cos(2 * jnp.pi * grid.mesh()[0]) + 0.1 * jnp.sin(4 * jnp.pi * grid.mesh()[0]))
        return Example(system, y, np.linspace(0.0, 1.0, 4), 24.0 * grid.spacing[0] ** 2, space_order=2, time_order=4)
