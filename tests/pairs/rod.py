"""A heated rod, and an instrument of its own: the equations of every run of the table of pairs."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

import pdefit


class State(NamedTuple):
    u: Array = pdefit.field(doc="counts of a thermometer", diffusivity="D")


class Rod(pdefit.ReactionDiffusion):
    """u_t = D lap u - k u + heat(t), with one wave along x at the start."""

    time_unit = "s"
    D: Array = pdefit.parameter(unit="mm^2/s", positive=True, doc="diffusivity")
    k: Array = pdefit.parameter(unit="1/s", positive=True, doc="rate of cooling")

    def reaction(self, t, y, args):
        return State(-self.k * y.u + (0.0 if args is None else args.heat(t)))

    def stiffness(self, y):
        return self.k

    def init(self, key):
        return State(1e4 * (1 + 0.5 * jnp.cos(2 * jnp.pi * self.grid.mesh()[0])))


class Neighbours(pdefit.instruments.AbstractObservationOperator):
    """Each cell with a part of its neighbour, on the same number of points under the same name."""

    share: float = 0.25

    def __call__(self, t, y, args):
        return {"u": y.u + self.share * jnp.roll(y.u, 1)}
