"""The SIR equations: an epidemic among people who mix."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractConservative, AbstractVerifiable, Example


class State(NamedTuple):
    """The state of the model.

    **Arguments:**

    - `susceptible`, `infected`: the numbers of people who can be infected, and who are ill, above 0.
    """

    susceptible: Float[Array, ""]
    infected: Float[Array, ""]


class SIR(pdefit.AbstractSystem, AbstractVerifiable, AbstractConservative):
    """An epidemic among N people who mix evenly and stay immune.

        S' = -beta S I / N
        I' = beta S I / N - gamma I

    One ill person infects R0 = beta / gamma people at first, and is ill for 1 / gamma. Along a solution

        V = S + I - N gamma / beta ln S

    is constant, from which the final size follows. Good for outbreaks of weeks in a closed group. Not for long ones, in
    which people are born, become susceptible again, or change how they behave.

    Time is in days, and rates are in 1/day.

    **Arguments:**

    - `beta`: the rate at which an ill person infects people who are all susceptible.
    - `gamma`: the rate at which ill people recover.
    - `begin`: the number of ill people at the start; the rest are susceptible.
    - `people`: the number N of people; default 1000.

    Source: W. O. Kermack, A. G. McKendrick, Proc. R. Soc. A 115:700 (1927), doi:10.1098/rspa.1927.0118.
    """

    time_unit: ClassVar[str] = "day"

    beta: Array = pdefit.parameter(unit="1/day", positive=True, doc="infections by one ill person")
    gamma: Array = pdefit.parameter(unit="1/day", positive=True, doc="recovery")
    begin: Array = pdefit.parameter(default=1.0, positive=True, doc="ill people at the start")
    people: float = 1000.0

    def vector_field(self, t, y, args):
        new = self.beta * y.susceptible * y.infected / self.people
        return State(-new, new - self.gamma * y.infected)

    def init(self, key):
        return State(jnp.asarray(self.people - self.begin), jnp.asarray(self.begin))

    def invariants(self, y):
        """V, which is constant."""
        return {"V": y.susceptible + y.infected - self.people * self.gamma / self.beta * jnp.log(y.susceptible)}

    @classmethod
    def example(cls, resolution):
        system = cls(beta=jnp.asarray(1.5), gamma=jnp.asarray(0.5), begin=jnp.asarray(5.0), people=500.0)
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 6.0, 6), 0.1, space_order=None, time_order=4
        )
