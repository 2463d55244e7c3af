"""Gravity between point masses, Newtonian and with the first post-Newtonian order."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

import pdefit
from pdefit_particles.bodies import AbstractBodies, State
from pdefit_particles.kepler import kepler_forecast
from pdefit_particles.pleiades import pleiades
from pdefit_particles.preliminary_orbit import velocities


def _optional(x: Any) -> Array | None:
    return None if x is None else jnp.asarray(x, float)


class Pairs(NamedTuple):
    """The geometry of all pairs of bodies, components first, so that loops over pairs are long enough to vectorise.

    **Arguments:**

    - `separation`: from body i to body j, (d, n, n).
    - `inverse`: the inverse distance, 0 for coincident bodies, (n, n).
    """

    separation: Array
    inverse: Array

    @classmethod
    def of(cls, x: Array) -> "Pairs":
        """The pairs of positions (n, d)."""
        separation = x.T[:, None, :] - x.T[:, :, None]
        squared = jnp.sum(separation**2, axis=0)
        apart = squared > 0
        return cls(separation, jnp.where(apart, lax.rsqrt(jnp.where(apart, squared, 1.0)), 0.0))

    def attraction(self, gm: Array) -> Array:
        """Newton's accelerations, (n, d)."""
        return jnp.sum((gm[None, :] * self.inverse**3)[None] * self.separation, axis=-1).T


class AbstractGravity(
    pdefit.AbstractSystem,
    pdefit.capabilities.AbstractVerifiable,
    pdefit.capabilities.AbstractBaseline,
    pdefit.capabilities.AbstractDataState,
):
    """Point masses that attract each other. A subclass gives their equation of motion.

    Only the products GM enter: a common factor of all masses is a change of units. A planet's own mass acts only on
    other bodies, so its control needs float64: 1 % of Mercury's mass moves a body by 1e-7 au in 600 days. Time is
    in `day`. Coincident bodies exert no force on each other. If only positions were observed, initial velocities come
    from two-body orbits about body 0 through neighbouring frames.
    """

    time_unit: ClassVar[str] = "day"
    baseline_name: ClassVar[str] = "Kepler orbits"

    gm: Array = pdefit.parameter(
        unit="length^3/time^2", positive=True, doc="gravitational parameter G M", dims=("body",)
    )
    names: tuple[str, ...] = eqx.field(converter=tuple, static=True, default=())
    position: Array | None = pdefit.constant(converter=_optional, default=None)
    velocity: Array | None = pdefit.constant(converter=_optional, default=None)
    length_unit: str = eqx.field(static=True, default="au")

    def __check_init__(self):
        if self.names and len(self.names) != self.gm.size:
            raise ValueError(f"Gravity expects a name for each of its {self.gm.size} bodies, but got {len(self.names)}")

    def init(self, key):
        if self.position is None or self.velocity is None:
            raise ValueError("Gravity has no initial state: give position and velocity, or take the state from data")
        return State(self.position, self.velocity)

    def init_from_data(self, observations, index=0):
        values = observations.values
        if "position" not in values:
            raise pdefit.PdefitError("Gravity starts from positions, but the data lack position")
        whole = {
            f: np.logical_and.reduce(np.asarray(observations.mask[f]), axis=(1, 2))
            for f in State._fields
            if f in values
        }
        if not whole["position"][index]:
            raise pdefit.PdefitError(f"Gravity starts from a whole frame, but position is missing in frame {index}")
        position = values["position"][index]
        if "velocity" in values and whole["velocity"][index]:
            return State(position, values["velocity"][index])
        frames = np.flatnonzero(whole["position"])
        if frames.size < 3:
            raise pdefit.PdefitError(
                f"Gravity starts from velocities or from three whole frames of positions, but the data have {frames.size}"
            )
        found = velocities(observations.ts[frames], values["position"][frames], int(np.searchsorted(frames, index)))
        return State(position, found.astype(position.dtype))

    def coords(self):
        names = self.names or tuple(f"body{i + 1}" for i in range(self.gm.size))
        axes = ("x", "y", "z")[: 3 if self.position is None else self.position.shape[1]]
        labels = {"body": np.asarray(names), "axis": np.asarray(axes)}
        dims, unit = ("body", "axis"), self.length_unit
        return {
            "position": pdefit.capabilities.FieldCoords(dims, labels, unit, "position"),
            "velocity": pdefit.capabilities.FieldCoords(
                dims, labels, f"{unit}/day" if unit != "1" else "1", "velocity"
            ),
        }

    def baseline(self, t0, y0, ts):
        return kepler_forecast(self.gm, y0.position, y0.velocity, jnp.asarray(ts - t0))


class Gravity(AbstractGravity, AbstractBodies, pdefit.capabilities.AbstractConservative):
    """n bodies under their mutual Newtonian attraction.

        x_i'' = sum_j GM_j (x_j - x_i) / |x_j - x_i|^3

    Relativity, oblateness and moons are not modelled. For the inner planets over years see `RelativisticGravity`.

    **Arguments:**

    - `gm`: the gravitational parameters G M, (n,), in length^3/day^2.
    - `names`: names of the bodies; by default `body1`, `body2`, ...
    - `position`, `velocity`: an initial state, (n, d), in length units and length units per day; by default there is none.
    - `length_unit`: the unit of length; default "au".
    """

    def acceleration(self, t, x, args):
        return Pairs.of(x).attraction(self.gm)

    def invariants(self, y):
        x, v, gm = y.position, y.velocity, self.gm
        distance = pdefit.safe_norm(x[None, :, :] - x[:, None, :], axis=-1)
        potential = -jnp.sum(pdefit.safe_div(gm[:, None] * gm[None, :], distance)) / 2
        rotation = x[:, :, None] * v[:, None, :] - v[:, :, None] * x[:, None, :]
        return {
            "energy": jnp.sum(gm[:, None] * v**2) / 2 + potential,
            "momentum": jnp.sum(gm[:, None] * v, axis=0),
            "angular_momentum": jnp.sum(gm[:, None, None] * rotation, axis=0),
        }

    @classmethod
    def example(cls, resolution):
        system, y0 = pleiades(cls)
        dt = 0.02 / max(resolution / 16, 1)
        return pdefit.capabilities.Example(system, y0, np.linspace(0.0, 0.5, 6), dt, space_order=None, time_order=4)


class RelativisticGravity(AbstractGravity):
    """n bodies under their mutual attraction in the first post-Newtonian order, as used for ephemerides.

        x_i'' = sum_j GM_j r_ij / r_ij^3 (1 + (-4 U_i - U_j + v_i^2 + 2 v_j^2 - 4 v_i . v_j - 3/2 (n_ij . v_j)^2
                + 1/2 r_ij . a_j) / c^2) + sum_j GM_j / r_ij^3 (-r_ij . (4 v_i - 3 v_j)) (v_i - v_j) / c^2
                + 7/2 sum_j GM_j a_j / (r_ij c^2)

    r_ij = x_j - x_i, n_ij its direction, U_i = sum_j GM_j / r_ij, and a_j is Newton's acceleration (Einstein, Infeld
    and Hoffmann). Positions are barycentric, in harmonic coordinates. The acceleration depends on velocities, so
    symplectic solvers are excluded. For slow bodies `Gravity` gives the same in a third of the time.

    **Arguments:**

    - `gm`, `names`, `position`, `velocity`: as in `Gravity`, in au and days.
    - `speed_of_light`: in au/day; default 173.1446326846693.

    Source: R. S. Park et al., Astron. J. 161:105 (2021), doi:10.3847/1538-3881/abd414, equation 1.
    """

    speed_of_light: Array = pdefit.parameter(
        default=173.1446326846693, unit="au/day", positive=True, doc="speed of light"
    )

    def vector_field(self, t, y, args):
        gm, v, pairs = self.gm[None, :], y.velocity.T, Pairs.of(y.position)
        away, inverse = pairs.separation, pairs.inverse
        newton, pull = pairs.attraction(self.gm).T, gm * inverse**3
        mine, other = v[:, :, None], v[:, None, :]
        depth, square = jnp.sum(gm * inverse, axis=1), jnp.sum(v**2, axis=0)
        along = jnp.sum(away * other, axis=0)
        factor = (
            square[:, None] + 2 * square[None, :] - 4 * jnp.sum(mine * other, axis=0) - 1.5 * (along * inverse) ** 2
        )
        factor += jnp.sum(away * newton[:, None, :], axis=0) / 2 - 4 * depth[:, None] - depth[None, :]
        crossing = 3 * along - 4 * jnp.sum(away * mine, axis=0)
        first = (pull * factor)[None] * away + (pull * crossing)[None] * (mine - other)
        change = jnp.sum(first + 3.5 * (gm * inverse)[None] * newton[:, None, :], axis=-1) / self.speed_of_light**2
        return State(y.velocity, (newton + change).T)

    @classmethod
    def example(cls, resolution):
        # light is so slow that the first order is a tenth
        system, y0 = pleiades(lambda gm, **rest: cls(gm=gm, speed_of_light=jnp.asarray(8.0), **rest))
        dt = 0.02 / max(resolution / 16, 1)
        return pdefit.capabilities.Example(system, y0, np.linspace(0.0, 0.5, 6), dt, space_order=None, time_order=4)
