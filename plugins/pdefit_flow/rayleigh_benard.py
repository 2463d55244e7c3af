"""Rayleigh-Benard convection between two plates."""

from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

import pdefit
from pdefit.boundaries import Dirichlet, Periodic
from pdefit.capabilities import AbstractVerifiable, Example
from pdefit_flow.operators import laplacian, mean_at_centres, mean_on_faces, self_transport, transport
from pdefit_flow.pressure import AbstractPressure
from pdefit_flow.projection import project

# the Rayleigh number below which nothing moves between no-slip plates, whatever the width
_ONSET = 1707.762


class State(NamedTuple):
    """Temperature at centres, and a velocity on faces."""

    T: Float[Array, "x z"] = pdefit.field(doc="temperature deviation")
    u: Float[Array, "x_face z"] = pdefit.field(doc="velocity along x")
    w: Float[Array, "x z_face"] = pdefit.field(doc="velocity along z")


class RayleighBenard(AbstractPressure, AbstractVerifiable):
    """A fluid heated from below and cooled from above, in the Oberbeck-Boussinesq approximation.

        T_t + div (u T) = w + kappa lap T
        u_t + div (u u) = - grad p + nu lap u + buoyancy T e_z,   div u = 0

    T is the deviation of the temperature from the conductive profile, which falls from 1/2 to -1/2. The plates at z = 0
    and 1 are at rest and at constant temperature. The box is periodic along x, and has height 1.

    - Units "diffusive": time is the diffusion time of heat over the height, kappa = 1, nu = Pr, buoyancy = Ra Pr.
    - Units "free_fall": time is the free-fall time over the height, kappa = (Ra Pr)^(-1/2), nu = (Pr / Ra)^(1/2),
      buoyancy = 1.

    The initial state is at rest, with a temperature disturbed by a few random waves.

    **Arguments:**

    - `grid`: the cells, periodic along x and with `Dirichlet()` along z, of height 1.
    - `rayleigh`: the Rayleigh number Ra, buoyancy over dissipation.
    - `prandtl`: the Prandtl number Pr, viscosity over thermal diffusivity.
    - `units`: the units of time and velocity, "diffusive" or "free_fall"; default "diffusive".

    Source of the scheme: F. H. Harlow, J. E. Welch (1965), doi:10.1063/1.1761178.
    """

    axes: ClassVar[tuple[str, str]] = ("x", "z")
    components: ClassVar[tuple[str, str]] = ("u", "w")
    rayleigh: Array = pdefit.parameter(positive=True, doc="Rayleigh number")
    prandtl: Array = pdefit.parameter(positive=True, doc="Prandtl number")
    units: Literal["diffusive", "free_fall"] = eqx.field(default="diffusive", static=True)

    def __check_init__(self):
        for name in ("rayleigh", "prandtl"):
            value = getattr(self, name)
            if not isinstance(value, Tracer) and not np.all(np.asarray(value) > 0):
                raise ValueError(f"RayleighBenard expects {name} above 0, but got {np.asarray(value)}")
        if self.units not in ("diffusive", "free_fall"):
            raise ValueError(f"RayleighBenard expects units 'diffusive' or 'free_fall', but got '{self.units}'")
        if self.grid.ndim != 2 or abs(self.grid.extent[1] - 1) > 1e-9 or self.grid.corner[1] != 0:
            raise ValueError(
                f"RayleighBenard expects a grid (x, z) with z from 0 to 1, of height 1, but got extent {self.grid.extent} "
                f"from {self.grid.corner}"
            )
        x, z = self.grid.boundaries
        if not isinstance(x, Periodic) or not (isinstance(z, Dirichlet) and np.ndim(z.value) == 0 and z.value == 0):
            raise ValueError(
                f"RayleighBenard expects boundaries periodic along x and dirichlet (0, no slip) along z, but got "
                f"{type(x).__name__} and {type(z).__name__}"
            )

    @property
    def scales(self) -> tuple[Array, Array, Array]:
        """Thermal diffusivity, viscosity and buoyancy in the units of this system."""
        if self.units == "diffusive":
            return jnp.ones_like(self.prandtl), self.prandtl, self.rayleigh * self.prandtl
        kappa = 1 / jnp.sqrt(self.rayleigh * self.prandtl)
        return kappa, self.prandtl * kappa, jnp.ones_like(kappa)

    def rates(self, t, y):
        grid, (_, nu, buoyancy) = self.grid, self.scales
        along_u, along_w = self_transport(grid, (y.u, y.w))
        u = nu * laplacian(grid, y.u, 0) - along_u
        return u, nu * laplacian(grid, y.w, 1) - along_w + buoyancy * mean_on_faces(grid, y.T, 1)

    def vector_field(self, t, y, args):
        grid, flow, (kappa, _, _) = self.grid, (y.u, y.w), self.scales
        heating = mean_at_centres(grid, y.w, 1) + kappa * laplacian(grid, y.T) - transport(grid, flow, y.T)
        return State(heating, *project(grid, self.rates(t, y)))

    def stable_step(self, y):
        kappa, nu, buoyancy = self.scales
        # A fluid at rest with its heat at the bottom will soon move. The share of potential energy that is left to gain is
        # 1 in conduction and 0 in a mixed fluid. First plumes reach 1.25 times the speed of a free fall.
        below = 0.5 - self.grid.mesh()[1]
        share = jnp.maximum(1 + 12 * self.mean(y.T * below.astype(y.T.dtype)), 0)
        speed = 1.25 * jnp.max(jnp.sqrt(buoyancy * share))
        return self._stable_step(y, jnp.maximum(kappa, nu), speed)

    def init(self, key):
        x, z = self.grid.mesh()
        length = self.grid.extent[0]
        waves = 2 * jnp.pi / length * jnp.arange(1, 1 + max(2, round(2 * length)))
        phase, size = 2 * jnp.pi * jax.random.uniform(key, waves.shape), 0.02 / jnp.sqrt(waves.size)
        disturbance = sum(jnp.cos(wave * x + p) for wave, p in zip(waves, phase, strict=True))
        u, w = (jnp.zeros((self.grid.shape[0], n), x.dtype) for n in (self.grid.shape[1], self.grid.shape[1] - 1))
        return State(size * jnp.sin(jnp.pi * z) * disturbance, u, w)

    def background(self):
        # traced only: its values are not needed
        drawn = eqx.filter_eval_shape(self.init, jax.random.key(0))
        zero = jax.tree.map(lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)), drawn)
        return zero._replace(T=zero.T + self.well_mixed()[None])

    def diagnostics(self, t, y):
        kappa, nu, buoyancy = self.scales
        convected = self.mean(y.w * mean_on_faces(self.grid, y.T, 1))
        spread = -self.mean(y.T * laplacian(self.grid, y.T))
        strain = -self.mean(y.u * laplacian(self.grid, y.u, 0)) - self.mean(y.w * laplacian(self.grid, y.w, 1))
        slope = 2 / self.grid.spacing[1]
        common = super().diagnostics(t, y)
        return {
            "nusselt_bottom": 1 - slope * jnp.mean(y.T[:, 0]),
            "nusselt_top": 1 + slope * jnp.mean(y.T[:, -1]),
            "nusselt_volume": 1 + convected / kappa,
            "nusselt_thermal": 1 + spread,
            "nusselt_viscous": 1 + nu * strain / (buoyancy * kappa),
            "energy_thermal": self.mean(y.T * y.T) / 2,
            "kinetic_production": buoyancy * convected,
            "kinetic_dissipation": nu * strain,
            "thermal_production": convected,
            "thermal_dissipation": kappa * spread,
            "reynolds": pdefit.safe_sqrt(2 * common["energy_kinetic"]) / nu,
            **common,
        }

    def well_mixed(self) -> Float[Array, " z"]:
        """The profile of the temperature deviation of a fluid that is isothermal except in two boundary layers.

        Their thickness is d = 1 / (2 Nu), with the Nusselt number Nu = 0.138 Ra^0.285 of convection in the plane. Without
        convection the deviation is 0.

        Source: H. Johnston, C. R. Doering (2009), doi:10.1103/PhysRevLett.102.064501, for the Nusselt number.
        """
        z = jnp.asarray(self.grid.axis(1), self.rayleigh.dtype)
        layer = 0.5 / jnp.maximum(0.138 * self.rayleigh**0.285, 1.0)
        profile = z - 0.5 + jnp.exp(-z / layer) / 2 - jnp.exp(-(1 - z) / layer) / 2
        return jnp.where(self.rayleigh > _ONSET, profile, 0.0)

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid((resolution, resolution), (2.0, 1.0), boundary=(Periodic(), Dirichlet()))
        system = cls(grid, jnp.asarray(1e4), jnp.asarray(0.7))
        x, z = grid.mesh()
        y0 = system.init(jax.random.key(0))
        y0 = y0._replace(T=0.2 * jnp.sin(jnp.pi * z) * (jnp.cos(jnp.pi * x) + 0.3 * jnp.sin(jnp.pi * (2 * x + z))))
        return Example(system, y0, np.linspace(0.0, 0.04, 5), 5e-4, space_order=2, time_order=4)
