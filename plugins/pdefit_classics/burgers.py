"""Burgers' equation in a box."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.boundaries import Dirichlet
from pdefit.capabilities import AbstractExact, AbstractStable, AbstractVerifiable, Example
from pdefit_classics.cole_hopf import sine_wave

# two cells beyond an end by the cubic through the edge and the three nearest cells: weights of edge and cells
_SECOND, _FIRST = (12.8, -18.0, 8.0, -1.8), (3.2, -3.0, 1.0, -0.2)


class State(NamedTuple):
    u: Float[Array, " n"] = pdefit.field(doc="velocity")


class Burgers(pdefit.AbstractFieldSystem, AbstractExact, AbstractStable, AbstractVerifiable):
    """A wave that steepens and dissipates, between edges: u_t + a u u_x = v u_xx.

    Fluxes on the faces of cells are of fourth order, and conserve the integral of u up to what crosses the edges. The
    initial state is -sin(pi x), with a known solution in the box (-1, 1) with edges at 0.
    A shock has the width 4 v / (a jump), which takes two cells or more.

    **Arguments:**

    - `grid`: the cells, of one axis, with edge values by their boundary condition.
    - `advection`: the coefficient a.
    - `viscosity`: the coefficient v.

    Source of the fluxes: C.-W. Shu, S. Osher (1988), doi:10.1016/0021-9991(88)90177-5.
    """

    time_unit: ClassVar[str] = "1"
    advection: Array = pdefit.parameter(doc="coefficient of u u_x")
    viscosity: Array = pdefit.parameter(positive=True, doc="coefficient of u_xx")

    def vector_field(self, t, y, args):
        h, u = self.grid.spacing[0], self._extended(y.u)
        energy, slope = self.advection * u**2 / 2, u[1:] - u[:-1]
        carried = (7 * (energy[1:-2] + energy[2:-1]) - energy[:-3] - energy[3:]) / 12
        spread = self.viscosity * (15 * slope[1:-1] - (slope[:-2] + slope[1:-1] + slope[2:])) / (12 * h)
        flux = carried - spread
        return State((flux[:-1] - flux[1:]) / h)

    def _extended(self, u):
        """The field with two cells more at each end."""
        if self.grid.periodic[0]:
            return jnp.concatenate([u[-2:], u, u[:2]])
        first, last = self.grid.boundaries[0].outer_differences(u, 0) or (0.0, 0.0)
        lower = jnp.concatenate([u[:1] - first / 2, u[:3]])
        upper = jnp.concatenate([u[-1:] + last / 2, u[-1:-4:-1]])
        ghosts = jnp.asarray([_SECOND, _FIRST], u.dtype)
        return jnp.concatenate([ghosts @ lower, u, ghosts[::-1] @ upper])

    def stable_step(self, y):
        h, speed = self.grid.spacing[0], float(jnp.max(jnp.abs(self.advection * y.u)))
        return 2 / (6.5 * float(self.viscosity) / h**2 + 1.4 * speed / h)

    def init(self, key):
        return self.exact(jnp.asarray(0.0))

    def exact(self, t):
        return State(sine_wave(self.grid.mesh()[0], t, self.advection, self.viscosity))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid((6 * resolution,), (2.0,), (-1.0,), Dirichlet())
        system = cls(grid, jnp.asarray(1.0), jnp.asarray(0.05))
        y0, ts, dt = system.init(None), np.linspace(0.0, 0.4, 5), 5 * grid.spacing[0] ** 2
        return Example(system, y0, ts, dt, space_order=4, time_order=4)
