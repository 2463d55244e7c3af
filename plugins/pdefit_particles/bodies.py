"""The state of moving bodies, and the methods shared by all systems of bodies."""

from typing import NamedTuple

from jaxtyping import Array, Float

import pdefit


class State(NamedTuple):
    """The state of n bodies in d dimensions.

    **Arguments:**

    - `position`: their positions, (n, d), in length units.
    - `velocity`: their velocities, (n, d).
    """

    position: Float[Array, "n d"]
    velocity: Float[Array, "n d"]


class AbstractBodies(pdefit.AbstractSystem, pdefit.capabilities.AbstractMechanical):
    """n bodies in d dimensions. A subclass gives their `acceleration` (n, d)."""

    def vector_field(self, t, y, args):
        return State(y.velocity, self.acceleration(t, y.position, args))

    def positions(self, y):
        return y.position

    def velocities(self, y):
        return y.velocity

    def assemble(self, x, v):
        return State(x, v)
