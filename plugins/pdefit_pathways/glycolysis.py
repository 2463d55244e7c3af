"""Glycolysis of yeast: oscillations in the conversion of sugar to energy."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractVerifiable, Example
from pdefit.terms import Network


class Metabolites(NamedTuple):
    """The state of the model, in mM.

    **Arguments:**

    - `y1`: glucose. `y2`, `y3`: the pools of three-carbon sugars and of 1,3-bisphosphoglycerate. `y4`: pyruvate and
      acetaldehyde. `y5`: NADH. `y6`: ATP. `y7`: pyruvate and acetaldehyde outside of the cell.
    """

    y1: Float[Array, ""]
    y2: Float[Array, ""]
    y3: Float[Array, ""]
    y4: Float[Array, ""]
    y5: Float[Array, ""]
    y6: Float[Array, ""]
    y7: Float[Array, ""]


class Glycolysis(pdefit.AbstractSystem, AbstractVerifiable):
    """Seven metabolites of yeast, with oscillating concentrations of about a minute's period.

        v = k1 y1 y6 / (1 + (y6 / K1)^q)
        y1' = J0 - v
        y2' = 2 v - k2 y2 (N - y5) - k6 y2 y5
        y3' = k2 y2 (N - y5) - k3 y3 (A - y6)
        y4' = k3 y3 (A - y6) - k4 y4 y5 - kappa (y4 - y7)
        y5' = k2 y2 (N - y5) - k4 y4 y5 - k6 y2 y5
        y6' = -2 v + 2 k3 y3 (A - y6) - k5 y6
        y7' = psi kappa (y4 - y7) - k y7

    Good values: those of the shipped experiment, over six minutes with steps of 0.002 min (`rk4`).

    **Arguments:**

    - `J0`: inflow of glucose.
    - `k1`, `K1`, `q`: the rate of the first reaction, the concentration of ATP that inhibits it, and the exponent.
    - `k2`, `k3`, `k4`, `k5`, `k6`: rates of the remaining reactions; k5 is the consumption of ATP.
    - `N`, `A`: the total of NAD and NADH, and of ADP and ATP.
    - `kappa`, `psi`, `k`: the exchange with the outside, the ratio of the volumes, and the decay outside.
    - `start`: the initial concentrations, (7,).

    Source: P. Ruoff et al., Biophys. Chem. 106:179 (2003), doi:10.1016/S0301-4622(03)00191-1.
    """

    time_unit: ClassVar[str] = "min"

    J0: Array = pdefit.parameter(positive=True, unit="mM/min", doc="inflow of glucose")
    k1: Array = pdefit.parameter(positive=True, unit="1/(mM min)", doc="first reaction")
    K1: Array = pdefit.parameter(positive=True, unit="mM", doc="ATP that inhibits it")
    q: Array = pdefit.parameter(positive=True, doc="steepness of the inhibition")
    k2: Array = pdefit.parameter(positive=True, unit="1/(mM min)", doc="rate of the second reaction")
    N: Array = pdefit.parameter(positive=True, unit="mM", doc="NAD and NADH")
    k6: Array = pdefit.parameter(positive=True, unit="1/(mM min)", doc="to glycerol")
    k3: Array = pdefit.parameter(positive=True, unit="1/(mM min)", doc="rate of the third reaction")
    A: Array = pdefit.parameter(positive=True, unit="mM", doc="ADP and ATP")
    k4: Array = pdefit.parameter(positive=True, unit="1/(mM min)", doc="to ethanol")
    kappa: Array = pdefit.parameter(positive=True, unit="1/min", doc="exchange with the outside")
    k5: Array = pdefit.parameter(positive=True, unit="1/min", doc="use of ATP")
    psi: Array = pdefit.parameter(positive=True, doc="ratio of the volumes")
    k: Array = pdefit.parameter(positive=True, unit="1/min", doc="decay outside")
    start: tuple[float, ...] = (1.6, 2.16, 0.2, 0.35, 0.3, 2.67, 0.1)

    def vector_field(self, t, y, args):
        # a power of less than nothing, which a step may pass through, has no derivative
        v = self.k1 * y.y1 * y.y6 / (1 + (jnp.maximum(y.y6, 0.0) / self.K1) ** self.q)
        second, third = self.k2 * y.y2 * (self.N - y.y5), self.k3 * y.y3 * (self.A - y.y6)
        fourth, glycerol = self.k4 * y.y4 * y.y5, self.k6 * y.y2 * y.y5
        outwards = self.kappa * (y.y4 - y.y7)
        return Metabolites(
            y1=self.glucose(y, v),
            y2=2 * v - second - glycerol,
            y3=second - third,
            y4=third - fourth - outwards,
            y5=second - fourth - glycerol,
            y6=2 * third - 2 * v - self.k5 * y.y6,
            y7=self.psi * outwards - self.k * y.y7,
        )

    def glucose(self, y: Metabolites, v: Array) -> Array:
        """The rate of change of glucose, where v is its consumption by the first reaction."""
        return self.J0 - v

    def init(self, key):
        return Metabolites(*(jnp.asarray(x, float) for x in self.start))

    @classmethod
    def example(cls, resolution):
        """A slower pathway with observable flows."""
        rates = {
            "J0": 1.5,
            "k1": 3.0,
            "K1": 1.0,
            "q": 2.0,
            "k2": 2.0,
            "N": 1.0,
            "k6": 1.5,
            "k3": 2.0,
            "A": 3.0,
            "k4": 3.0,
        }
        rates |= {"kappa": 2.0, "k5": 1.0, "psi": 0.5, "k": 1.2}
        system = cls(**{n: jnp.asarray(x) for n, x in rates.items()}, start=(1.2, 1.4, 0.6, 0.7, 0.4, 1.5, 0.3))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 2.0, 9), 0.0125, space_order=None, time_order=4
        )


class HybridGlycolysis(Glycolysis):
    """The same pathway, with an unknown rate of glucose.

        y1' = net(y1, y6)

    J0 then has no influence. See `HybridApoptosis`.

    **Arguments:** as in `Glycolysis`, and

    - `net`: the network, called with the two states. Default: two hidden layers of eight neurons.
    """

    net: Any = pdefit.parameter(
        default_factory=lambda: Network(("y1", "y6"), (1.0, 1.0), 10.0), unit="mM/min", doc="change of glucose"
    )

    def glucose(self, y, v):
        return self.net(y.y1, y.y6)
