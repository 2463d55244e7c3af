"""Robertson's three reactions, a classic stiff problem."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractConservative, AbstractVerifiable, Example


class Species(NamedTuple):
    """The state of the model: the fractions `y1`, `y2` and `y3` of three species, with sum 1."""

    y1: Float[Array, ""]
    y2: Float[Array, ""]
    y3: Float[Array, ""]


class Robertson(pdefit.AbstractSystem, AbstractVerifiable, AbstractConservative):
    """Three reactions whose rates differ by nine orders of magnitude.

        y1' = -k1 y1 + k3 y2 y3
        y2' = k1 y1 - k3 y2 y3 - k2 y2^2
        y3' = k2 y2^2

    y1 + y2 + y3 stays 1. y2 never exceeds 4e-5: observe it with a sigma of that size, or it has no weight. Take an
    implicit solver with adaptive steps (`kvaerno5`).

    Good values: k1 = 0.04, k2 = 3e7, k3 = 1e4 from (1, 0, 0).

    **Arguments:**

    - `k1`, `k2`, `k3`: the three rates.

    Source: H. H. Robertson, in Numerical Analysis, ed. J. Walsh (Academic Press, 1966), p. 178.
    """

    time_unit: ClassVar[str] = "s"

    k1: Array = pdefit.parameter(positive=True, unit="1/s", doc="the slow reaction")
    k2: Array = pdefit.parameter(positive=True, unit="1/s", doc="the fastest reaction")
    k3: Array = pdefit.parameter(positive=True, unit="1/s", doc="the fast reaction")

    def vector_field(self, t, y, args):
        made, used = self.k1 * y.y1 - self.k3 * y.y2 * y.y3, self.k2 * y.y2**2
        return Species(-made, made - used, used)

    def init(self, key):
        return Species(jnp.asarray(1.0), jnp.asarray(0.0), jnp.asarray(0.0))

    def invariants(self, y):
        """The sum of all fractions."""
        return {"sum": y.y1 + y.y2 + y.y3}

    @classmethod
    def example(cls, resolution):
        """Rates of similar size, with all species present initially."""
        system = cls(k1=jnp.asarray(0.9), k2=jnp.asarray(1.6), k3=jnp.asarray(1.2))
        start = Species(*map(jnp.asarray, (0.7, 0.2, 0.1)))
        return Example(system, start, np.linspace(0.0, 3.0, 7), 0.1, space_order=None, time_order=4)


class TwoSpecies(NamedTuple):
    """The fractions `y1` and `y2` of two species; the third is the remainder."""

    y1: Float[Array, ""]
    y2: Float[Array, ""]


class ReducedRobertson(pdefit.AbstractSystem, AbstractVerifiable):
    """The reactions of `Robertson` in two species, with the third as the remainder to 1.

        y1' = -k1 y1 + k3 y2 (1 - y1 - y2)
        y2' = k1 y1 - k3 y2 (1 - y1 - y2) - k2 y2^2

    For unknown rates under the known constraint y1 + y2 + y3 = 1: set every k to zero, and add terms to y1 and y2.

    **Arguments:** as in `Robertson`.
    """

    time_unit: ClassVar[str] = "s"

    k1: Array = pdefit.parameter(positive=True, unit="1/s", doc="the slow reaction")
    k2: Array = pdefit.parameter(positive=True, unit="1/s", doc="the fastest reaction")
    k3: Array = pdefit.parameter(positive=True, unit="1/s", doc="the fast reaction")

    def vector_field(self, t, y, args):
        made = self.k1 * y.y1 - self.k3 * y.y2 * (1.0 - y.y1 - y.y2)
        return TwoSpecies(-made, made - self.k2 * y.y2**2)

    def init(self, key):
        return TwoSpecies(jnp.asarray(1.0), jnp.asarray(0.0))

    @classmethod
    def example(cls, resolution):
        """The example of `Robertson` without the third species."""
        system = cls(k1=jnp.asarray(0.9), k2=jnp.asarray(1.6), k3=jnp.asarray(1.2))
        start = TwoSpecies(jnp.asarray(0.7), jnp.asarray(0.2))
        return Example(system, start, np.linspace(0.0, 3.0, 7), 0.1, space_order=None, time_order=4)
