"""Cucker-Smale particles: birds that align with their neighbours, attract and repel each other."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import pdefit
from pdefit_particles.bodies import State


class CuckerSmale(
    pdefit.AbstractSystem,
    pdefit.capabilities.AbstractVerifiable,
    pdefit.capabilities.AbstractConservative,
):
    """n particles in the plane, each of which aligns its velocity with the rest, most with its neighbours.

        x_i' = v_i
        v_i' = 1/n sum_j (1 + r^2)^-gamma (v_j - v_i) - 1/n sum_j grad U(r)
        U(r) = -ca exp(-r / la) + cr exp(-r / lr)

    with r = |x_i - x_j|. Velocities become equal from any start if gamma <= 1/2. With a faster fall-off a flock may
    break up, unless attraction (ca, la) holds it together. Repulsion (cr, lr) keeps particles apart: with cr > ca and
    lr < la they settle at the distance of least U.

    The momentum is constant. The force of a pair does not vanish as r goes to 0, and its direction jumps when two
    particles meet: the closest encounter limits the step, so more than about 20 particles need adaptive steps.
    Coincident particles exert no force on each other. All quantities are dimensionless.

    Good values: gamma 0.8, ca 1, cr 1.5, la 2, lr 0.5, with a start of `init` and times up to 10.

    **Arguments:**

    - `gamma`: the exponent with which alignment falls off with the distance.
    - `ca`, `cr`: strengths of attraction and repulsion.
    - `la`, `lr`: the ranges of attraction and repulsion.
    - `n`: the number of particles in `init`; default 5.

    Source: F. Cucker and S. Smale, IEEE Trans. Autom. Control 52:852 (2007), doi:10.1109/TAC.2007.895842; the potential
    of M. R. D'Orsogna et al., Phys. Rev. Lett. 96:104302 (2006), doi:10.1103/PhysRevLett.96.104302.
    """

    time_unit: ClassVar[str] = "1"

    gamma: Array = pdefit.parameter(positive=True, doc="fall-off of alignment")
    ca: Array = pdefit.parameter(positive=True, doc="strength of attraction")
    cr: Array = pdefit.parameter(positive=True, doc="strength of repulsion")
    la: Array = pdefit.parameter(positive=True, doc="range of attraction")
    lr: Array = pdefit.parameter(positive=True, doc="range of repulsion")
    n: int = eqx.field(static=True, default=5)

    def __check_init__(self):
        if not self.n > 0:
            raise ValueError(f"CuckerSmale expects one particle or more, but got n = {self.n}")

    def vector_field(self, t, y, args):
        # components first: loops over the pairs are then long enough to vectorise
        x, v = y.position.T, y.velocity.T
        apart, relative = x[:, None, :] - x[:, :, None], v[:, None, :] - v[:, :, None]
        squared = jnp.sum(apart**2, axis=0)
        distance = pdefit.safe_sqrt(squared)
        # not as a power, whose tangents take twice as long
        alignment = jnp.exp(-self.gamma * jnp.log1p(squared))
        # dU/dr: positive where particles attract each other
        slope = self.ca / self.la * jnp.exp(-distance / self.la) - self.cr / self.lr * jnp.exp(-distance / self.lr)
        attraction = pdefit.safe_div(slope, distance)
        rate = jnp.mean(alignment[None] * relative + attraction[None] * apart, axis=-1)
        return State(y.velocity, rate.T)

    def init(self, key):
        """Positions uniform in a square whose area grows with n, from -1 to 1 for five, and normal velocities."""
        places, speeds = jax.random.split(key)
        edge = float(np.sqrt(self.n / 5))
        position = jax.random.uniform(places, (self.n, 2), self.gamma.dtype, -edge, edge)
        return State(position, jax.random.normal(speeds, (self.n, 2), self.gamma.dtype))

    def invariants(self, y):
        return {"momentum": jnp.sum(y.velocity, axis=0)}

    def coords(self):
        labels = {"body": np.asarray([f"bird{i + 1}" for i in range(self.n)]), "axis": np.asarray(("x", "y"))}
        return {name: pdefit.capabilities.FieldCoords(("body", "axis"), labels, "1", name) for name in State._fields}

    @classmethod
    def example(cls, resolution):
        good = {"gamma": 0.8, "ca": 1.0, "cr": 1.5, "la": 2.0, "lr": 0.5}
        system = cls(**jax.tree.map(jnp.asarray, good), n=resolution)
        y0 = system.init(jax.random.key(0))
        return pdefit.capabilities.Example(system, y0, np.linspace(0.0, 0.5, 6), 5e-3, space_order=None, time_order=4)
