"""The Lotka-Volterra equations: a predator and its prey."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractConservative, AbstractVerifiable, Example


class State(NamedTuple):
    """The state of the model.

    **Arguments:**

    - `prey`, `predator`: their numbers or densities, above 0.
    """

    prey: Float[Array, ""]
    predator: Float[Array, ""]


class LotkaVolterra(pdefit.AbstractSystem, AbstractVerifiable, AbstractConservative):
    """A predator y that feeds on its prey x.

        x' = alpha x - beta x y + c1 x^2
        y' = -gamma y + delta x y + c2 y^2

    Without c1 and c2 these are the equations of Lotka and Volterra. Every solution is then a closed orbit about x = gamma
    / delta, y = alpha / beta, along which

        V = delta x - gamma ln x + beta y - alpha ln y

    is constant. Small orbits have the period 2 pi / sqrt(alpha gamma). Large orbits are slower: between outbreaks both
    numbers are small, and there their logarithms are more informative. With c1 < 0 the prey has a capacity of -alpha /
    c1, and orbits spiral inwards; with c1 > 0 it may diverge in finite time.

    Long records have local minima with a wrong number of periods. To avoid them, fit short windows first and then the
    whole record. If the data contain no crowding, c1 and c2 are redundant, and a fit finds intervals around 0.

    Good values: rates and initial values between 0.1 and 1, over times up to 40. Time and numbers have no unit; rates
    are inverse times in the time unit of the data.

    **Arguments:**

    - `alpha`: the growth rate of the prey.
    - `beta`: the rate at which one predator removes prey.
    - `gamma`: the death rate of the predator.
    - `delta`: the rate at which prey feeds a predator.
    - `c1`, `c2`: the crowding of prey and predator, negative if it slows growth; default 0.
    - `start`: the initial (x, y), (2,); default (0.5, 0.5).

    Source: A. J. Lotka, Proc. Natl. Acad. Sci. 6:410 (1920), doi:10.1073/pnas.6.7.410; V. Volterra, Nature 118:558
    (1926), doi:10.1038/118558a0.
    """

    time_unit: ClassVar[str] = "1"

    alpha: Array = pdefit.parameter(positive=True, doc="growth of the prey")
    beta: Array = pdefit.parameter(positive=True, doc="loss of prey to a predator")
    gamma: Array = pdefit.parameter(positive=True, doc="death of the predator")
    delta: Array = pdefit.parameter(positive=True, doc="growth of the predator from prey")
    c1: Array = pdefit.parameter(default=0.0, doc="crowding of the prey")
    c2: Array = pdefit.parameter(default=0.0, doc="crowding of the predator")
    start: tuple[float, float] = (0.5, 0.5)

    def vector_field(self, t, y, args):
        x, y = y
        return State(
            x * (self.alpha - self.beta * y + self.c1 * x),
            y * (-self.gamma + self.delta * x + self.c2 * y),
        )

    def init(self, key):
        return State(*(jnp.asarray(x, float) for x in self.start))

    def invariants(self, y):
        """V, which is constant if c1 = c2 = 0."""
        of_prey = self.delta * y.prey - self.gamma * jnp.log(y.prey)
        return {"V": of_prey + self.beta * y.predator - self.alpha * jnp.log(y.predator)}

    @classmethod
    def example(cls, resolution):
        rates = {"alpha": 0.7, "beta": 0.9, "gamma": 0.5, "delta": 0.6}
        system = cls(**jax.tree.map(jnp.asarray, rates), start=(0.4, 0.3))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 8.0, 6), 0.1, space_order=None, time_order=4
        )


def _two_rates() -> eqx.nn.MLP:
    """A small network of both numbers with small initial weights."""
    net = eqx.nn.MLP(2, 2, 8, 1, jnp.tanh, key=jax.random.key(0), dtype=float)
    return eqx.tree_at(lambda n: [layer.weight for layer in n.layers], net, replace_fn=lambda w: 0.3 * w)


class HybridLotkaVolterra(LotkaVolterra):
    """The Lotka-Volterra equations with a network in place of the encounters.

        x' = alpha x + net_1(x, y)
        y' = -gamma y + net_2(x, y)

    The network can replace alpha, which data then cannot determine: `pdefit identify` reports it. beta, delta and
    crowding have no influence.

    **Arguments:** as in `LotkaVolterra`, and

    - `net`: the network from (x, y) to two rates. Default: one hidden layer of eight neurons.

    Source: S. Giampiccolo et al., npj Syst. Biol. Appl. 10:139 (2024).
    """

    net: Any = pdefit.parameter(default_factory=_two_rates, doc="what encounters do to both")

    def vector_field(self, t, y, args):
        of_prey, of_predator = self.net(jnp.stack(y))
        return State(self.alpha * y.prey + of_prey, of_predator - self.gamma * y.predator)
