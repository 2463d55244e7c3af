"""Burgers' equation in a box."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.boundaries import Dirichlet
from pdefit.capabilities import AbstractExact, AbstractStable, AbstractVerifiable, Example
from pdefit_classics.cole_hopf import sine_wave

# Differences of eighth order written as fluxes: the weight of the j-th cell beside a face. A slope takes them with signs.
_VALUE = np.cumsum((-1 / 280, 4 / 105, -1 / 5, 4 / 5))[::-1].tolist()
_SLOPE = np.cumsum((-1 / 560, 8 / 315, -1 / 5, 8 / 5))[::-1].tolist()
# four cells beyond an end, the farthest first, on the cubic through the edge and the three nearest cells
_BEYOND = ((64.0, -105.0, 56.0, -14.0), (32.0, -50.0, 25.0, -6.0), (12.8, -18.0, 8.0, -1.8), (3.2, -3.0, 1.0, -0.2))


class State(NamedTuple):
    u: Float[Array, " n"] = pdefit.field(unit="length/time", doc="velocity")


class Burgers(pdefit.AbstractFieldSystem, AbstractExact, AbstractStable, AbstractVerifiable):
    """A wave that steepens and dissipates, between edges: u_t + a u u_x = v u_xx.

    Fluxes through the faces of cells conserve the integral of u. They are of eighth order, and of fourth near an edge.
    The initial state is -sin(pi x), with a known solution in the box (-1, 1) with edges at 0. A shock has the width 4 v
    / (a jump), which needs at least two cells.

    **Arguments:**

    - `grid`: the cells, of one axis, with values at cell centres. Edge values are `Dirichlet` conditions.
    - `advection`: the coefficient a.
    - `viscosity`: the coefficient v.

    Source of the fluxes: C.-W. Shu, S. Osher (1988), doi:10.1016/0021-9991(88)90177-5.
    """

    time_unit: ClassVar[str] = "1"
    advection: Array = pdefit.parameter(doc="coefficient of u u_x")
    viscosity: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="coefficient of u_xx")

    def vector_field(self, t, y, args):
        h, n, u = self.grid.spacing[0], y.u.size, self._extended(self.grid.at(t, args), y.u)
        flux = jnp.zeros(n + 1, y.u.dtype)
        for j in range(1, 5):
            upper, lower = u[3 + j : n + 4 + j], u[4 - j : n + 5 - j]
            carried = self.advection / 2 * (upper**2 + lower**2)
            flux = flux + _VALUE[j - 1] * carried - _SLOPE[j - 1] / h * self.viscosity * (upper - lower)
        return State((flux[:-1] - flux[1:]) / h)

    def _extended(self, grid, u):
        """The field extended by four cells at each end."""
        if grid.periodic[0]:
            return jnp.concatenate([u[-4:], u, u[:4]])
        first, last = grid.boundaries[0].outer_differences(u, 0, grid.spacing[0]) or (jnp.zeros(1), jnp.zeros(1))
        lower = jnp.concatenate([u[:1] - first / 2, u[:3]])
        upper = jnp.concatenate([u[-1:] + last / 2, u[-1:-4:-1]])
        ghosts = jnp.asarray(_BEYOND, u.dtype)
        return jnp.concatenate([ghosts @ lower, u, jnp.flip(ghosts, 0) @ upper])

    def stable_step(self, y):
        h, speed = self.grid.spacing[0], float(jnp.max(jnp.abs(self.advection * y.u)))
        return 2 / (6.9 * float(self.viscosity) / h**2 + 1.75 * speed / h)

    def init(self, key):
        return self.exact(jnp.asarray(0.0))

    def exact(self, t):
        return State(sine_wave(self.grid.mesh()[0], t, self.advection, self.viscosity))

    @classmethod
    def example(cls, resolution):
        # -sin(pi x) is odd at the edges, which gains an order
        grid = pdefit.CartesianGrid((2 * resolution,), (2.0,), (-1.0,), boundary=Dirichlet())
        system = cls(grid, jnp.asarray(1.0), jnp.asarray(0.3))
        y0, ts, dt = system.init(jax.random.key(0)), np.linspace(0.0, 0.4, 5), grid.spacing[0] ** 2
        return Example(system, y0, ts, dt, space_order=5, time_order=4)
