"""Lennard-Jones spheres between walls."""

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit_particles.bodies import AbstractBodies, State


class LennardJones(
    AbstractBodies,
    pdefit.capabilities.AbstractVerifiable,
    pdefit.capabilities.AbstractConservative,
    pdefit.capabilities.AbstractDataGuess,
):
    """n spheres in a box that repel each other on contact and attract each other a little further away.

        m_i x_i'' = -dU / dx_i
        U = sum_{i<j} 4 epsilon ((s_ij / d_ij)^12 - (s_ij / d_ij)^6) + sum_{i, walls} epsilon (r_i / d_iw)^12

    with s_ij = r_i + r_j, the distance d_ij of two centres and the distance d_iw of a centre from a wall. All quantities are
    dimensionless. The motion is chaotic: deviations grow by a factor e in about 0.7 time units, so a fit needs segments of at
    most 1 to 2. Collisions set the step. With masses of 1 to 10 and speeds of 2 the energy of velocity Verlet errs by up to
    0.2 % with steps of 4e-3, and by a quarter of that with half the step.

    **Arguments:** `box`: its edges, (d,), with a corner at 0; `mass`, `radius`, (n,).

    Source: J. E. Jones, Proc. R. Soc. A 106:463 (1924), doi:10.1098/rspa.1924.0082.
    """

    time_unit: ClassVar[str] = "1"

    box: tuple[float, ...] = eqx.field(converter=tuple, static=True)
    mass: Float[Array, " n"] = pdefit.parameter(positive=True, doc="mass", dims=("body",))
    radius: Float[Array, " n"] = pdefit.parameter(positive=True, doc="radius", dims=("body",))
    epsilon: Array = pdefit.parameter(positive=True, default=1.0, doc="depth of the attraction")

    def acceleration(self, t, x, args):
        # all pairs, components first: long loops without gathering, which vectorise
        apart = x.T[:, :, None] - x.T[:, None, :]
        squared, sixth = self._pairs(x)
        force = self.epsilon * pdefit.safe_div(24 * (2 * sixth**2 - sixth), squared)
        pairs = jnp.sum(force[None] * apart, axis=-1).T
        low, high = x, jnp.asarray(self.box, x.dtype)[None] - x
        walls = 12 * self.epsilon * (pdefit.safe_div(self._touch(low), low) - pdefit.safe_div(self._touch(high), high))
        return (pairs + walls) / self.mass[:, None]

    def _pairs(self, x: Float[Array, "n d"]) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
        """Squared distances, and (s / d)^6, which is 0 on the diagonal and for coincident centres."""
        squared = jnp.sum((x.T[:, :, None] - x.T[:, None, :]) ** 2, axis=0)
        return squared, pdefit.safe_div((self.radius[:, None] + self.radius[None]) ** 2, squared) ** 3

    def _touch(self, distance: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """(r / d)^12 for distances from walls."""
        return pdefit.safe_div(self.radius[:, None] ** 2, distance**2) ** 6

    def potential(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """The energy of spheres at the positions x."""
        _, sixth = self._pairs(x)
        walls = self._touch(x) + self._touch(jnp.asarray(self.box, x.dtype)[None] - x)
        return self.epsilon * (2 * jnp.sum(sixth**2 - sixth) + jnp.sum(walls))

    def init(self, key):
        """Spheres on a square lattice with normal velocities, truncated at 2."""
        n, box = self.mass.size, np.asarray(self.box)
        counts = np.ones(box.size, int)
        while counts.prod() < n:
            counts[np.argmax(box / counts)] += 1
        sites = np.stack(np.unravel_index(np.arange(n), counts), axis=1)
        velocity = jax.random.truncated_normal(key, -2.0, 2.0, (n, box.size), self.mass.dtype)
        return State(jnp.asarray((sites + 0.5) * box / counts, self.mass.dtype), velocity)

    def guess_from_data(self, parameter, observations):
        """Largest radii without overlap: half of the smallest distance to another sphere, or the distance to a wall.

        A start with overlaps fails: forces grow with the 13th power of a radius.
        """
        if parameter != "radius" or "position" not in observations.values:
            return None
        x = np.asarray(observations.values["position"])
        apart = np.linalg.norm(x[:, :, None] - x[:, None], axis=-1)
        apart = np.nanmin(np.where(np.eye(x.shape[1], dtype=bool), np.inf, apart), axis=(0, 1))
        walls = np.nanmin(np.minimum(x, np.asarray(self.box) - x), axis=(0, 2))
        return np.minimum(apart / 2, walls)

    def invariants(self, y):
        return {"energy": jnp.sum(self.mass[:, None] * y.velocity**2) / 2 + self.potential(y.position)}

    def coords(self):
        labels = {
            "body": np.asarray([f"sphere{i + 1}" for i in range(self.mass.size)]),
            "axis": np.asarray(("x", "y", "z")[: len(self.box)]),
        }
        return {name: pdefit.capabilities.FieldCoords(("body", "axis"), labels, "1", name) for name in State._fields}

    @classmethod
    def example(cls, resolution):
        system = cls((3.0, 3.0), jnp.asarray([1.0, 4.0, 2.0, 7.0]), jnp.asarray([0.3, 0.5, 0.6, 0.4]))
        y0 = system.init(jax.random.key(0))
        return pdefit.capabilities.Example(system, y0, np.linspace(0.0, 0.5, 6), 5e-3, space_order=None, time_order=4)


def random_spheres(n: int, box: Sequence[float], seed: int = 0) -> LennardJones:
    """n spheres with masses drawn uniformly from 1 to 10 and radii from 0.2 to 0.7.

    **Arguments:** `n`; `box`: its edges, at least 1.6 for each sphere along an edge, so that none overlap initially;
    `seed` of the draw.
    """
    masses, radii = jax.random.split(jax.random.key(seed))
    return LennardJones(
        tuple(box),
        jax.random.uniform(masses, (n,), minval=1.0, maxval=10.0),
        jax.random.uniform(radii, (n,), minval=0.2, maxval=0.7),
    )
