"""The temperature of a convecting column of water, with a flux that depends on the temperature."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractStable, AbstractVerifiable, Example
from pdefit.terms import AbstractTerm, Formula
from pdefit_reaction._slope import largest_slope


class State(NamedTuple):
    T: Float[Array, " z"] = pdefit.field(doc="temperature")


class BoussinesqColumn(pdefit.AbstractFieldSystem, AbstractStable, AbstractVerifiable):
    """A closure of convection in one dimension: T_t = -F(T)_z + kappa T_zz, with a flux F that falls with T.

    Because F decreases, heat moves down, and the flux through a face is the flux of the cell above it (upwind, of first
    order). At both ends T_z = 0, and the flux of the end cell leaves the column. A constant in F has no effect. A flux
    that rises with T would be unstable here.

    The initial state is a pulse exp(-200 (z - 0.75)^2). Good values: kappa = 0.05, 32 cells on [0, 1], times up to
    1.5.

    **Arguments:**

    - `grid`: the cells along z.
    - `kappa`: the diffusivity.
    - `flux`: the flux, a term of T, in length/time; default cos(sin(T^3)) + sin(cos(T^2)).

    Source: C. Rackauckas et al., arXiv:2001.04385, section 2.5, with other boundary conditions.
    """

    time_unit: ClassVar[str] = "1"
    kappa: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity")
    flux: AbstractTerm = pdefit.parameter(
        default_factory=lambda: Formula("cos(sin(T^3)) + sin(cos(T^2))", ("T",)),
        unit="length/time",
        doc="flux of a temperature",
    )

    def vector_field(self, t, y, args):
        # that of each cell leaves through its lower face; at the top it is what comes in, too
        flux = self.flux(y.T)
        carried = jnp.diff(flux, append=flux[-1:]) / self.grid.spacing[0]
        return State(pdefit.diffuse(self.grid, self.kappa, y.T) - carried)

    def init(self, key):
        return State(jnp.exp(-200 * (self.grid.mesh()[0] - 0.75) ** 2))

    def stable_step(self, y):
        (h,) = self.grid.spacing
        return 2 / (4 * float(self.kappa) / h**2 + 2 * largest_slope(self.flux, y.T) / h)

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid((2 * resolution,), (1.0,))
        system = cls(grid=grid, kappa=jnp.asarray(0.05), flux=Formula("-a * T - b * T^2", ("T",), {"a": 0.2, "b": 0.3}))
        y = State(0.5 + 0.4 * jnp.cos(2 * jnp.pi * grid.mesh()[0]))
        return Example(system, y, np.linspace(0.0, 0.2, 4), 2.0 * grid.spacing[0] ** 2, space_order=1, time_order=4)
