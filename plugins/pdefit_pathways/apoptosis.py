"""Programmed cell death: two caspases, their inhibitors and complexes."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractConservative, AbstractVerifiable, Example
from pdefit.terms import Network


class Molecules(NamedTuple):
    """The state of the model, in units of 100,000 molecules in a cell.

    **Arguments:**

    - `y1`: procaspase 8, activated by `y4`; `y2`: active caspase 8, which cleaves `y3`, procaspase 3.
    - `y4`: active caspase 3; `y7` its inhibitor.
    - `y5`, `y6`, `y8`: the complexes of y1 with y4, of y2 with y3, and of y4 with y7.
    """

    y1: Float[Array, ""]
    y2: Float[Array, ""]
    y3: Float[Array, ""]
    y4: Float[Array, ""]
    y5: Float[Array, ""]
    y6: Float[Array, ""]
    y7: Float[Array, ""]
    y8: Float[Array, ""]


class Apoptosis(pdefit.AbstractSystem, AbstractVerifiable, AbstractConservative):
    """Two caspases that activate each other, and an inhibitor of one of them.

        y1' = -k1 y4 y1 + kd1 y5
        y2' = kd2 y5 - k3 y2 y3 + (kd3 + kd4) y6
        y3' = -k3 y2 y3 + kd3 y6
        y4' = kd4 y6 - k1 y4 y1 + kd1 y5 - k5 y7 y4 + kd5 y8 + kd2 y5
        y5' = -kd2 y5 + k1 y4 y1 - kd1 y5
        y6' = -kd4 y6 + k3 y2 y3 - kd3 y6
        y7' = -k5 y7 y4 + (kd5 + kd6) y8
        y8' = -y7'

    The inhibitor y7 binds active caspase 3 within a second, which takes hours to form, so the equations are stiff: take
    an implicit solver with adaptive steps (`kvaerno3`). y1 + y2 + y5 + y6 and y7 + y8 are constant. With little
    inhibitor the cell dies within hours.

    Good values: those of the shipped experiment, over 16 hours. Molecules are counted in units of 100,000.

    **Arguments:**

    - `k1`, `k3`, `k5`: binding rates.
    - `kd1`, `kd3`, `kd5`: dissociation rates of complexes.
    - `kd2`, `kd4`: activation rates of caspase 8 and 3.
    - `kd6`: the decay rate of caspase 3 in its complex.
    - `start`: the initial molecules, (8,).

    Source: B. Aldridge et al., IEE Proc. Syst. Biol. 153:425 (2006); these numbers after S. Giampiccolo et al., npj Syst.
    Biol. Appl. 10:139 (2024).
    """

    time_unit: ClassVar[str] = "h"

    k1: Array = pdefit.parameter(positive=True, unit="1/h", doc="binding of procaspase 8 by caspase 3")
    kd1: Array = pdefit.parameter(positive=True, unit="1/h", doc="its reverse")
    kd2: Array = pdefit.parameter(positive=True, unit="1/h", doc="activation of caspase 8")
    k3: Array = pdefit.parameter(positive=True, unit="1/h", doc="binding of procaspase 3 by caspase 8")
    kd3: Array = pdefit.parameter(positive=True, unit="1/h", doc="its reverse")
    kd4: Array = pdefit.parameter(positive=True, unit="1/h", doc="activation of caspase 3")
    k5: Array = pdefit.parameter(positive=True, unit="1/h", doc="binding of caspase 3 by its inhibitor")
    kd5: Array = pdefit.parameter(positive=True, unit="1/h", doc="its reverse")
    kd6: Array = pdefit.parameter(positive=True, unit="1/h", doc="decay of bound caspase 3")
    start: tuple[float, ...] = (1.34, 1.0, 2.67, 0.0, 0.0, 0.0, 0.029, 0.0)

    def vector_field(self, t, y, args):
        bound1, bound3 = self.k1 * y.y4 * y.y1 - self.kd1 * y.y5, self.k3 * y.y2 * y.y3 - self.kd3 * y.y6
        freed = (self.kd5 + self.kd6) * y.y8 - self.k5 * y.y7 * y.y4
        return Molecules(
            y1=-bound1,
            y2=self.kd2 * y.y5 - bound3 + self.kd4 * y.y6,
            y3=-bound3,
            y4=self.activation(y),
            y5=bound1 - self.kd2 * y.y5,
            y6=bound3 - self.kd4 * y.y6,
            y7=freed,
            y8=-freed,
        )

    def activation(self, y: Molecules) -> Array:
        """The rate of change of active caspase 3."""
        bound = self.k1 * y.y4 * y.y1 - self.kd1 * y.y5 + self.k5 * y.y7 * y.y4 - self.kd5 * y.y8
        return self.kd4 * y.y6 + self.kd2 * y.y5 - bound

    def init(self, key):
        return Molecules(*(jnp.asarray(x, float) for x in self.start))

    def invariants(self, y):
        """Caspase 8 in all its forms, and the inhibitor, free and bound."""
        return {"caspase 8": y.y1 + y.y2 + y.y5 + y.y6, "inhibitor": y.y7 + y.y8}

    @classmethod
    def example(cls, resolution):
        """A cell with rates of similar size and all molecules present initially."""
        rates = {
            "k1": 0.9,
            "kd1": 0.7,
            "kd2": 0.8,
            "k3": 1.1,
            "kd3": 0.6,
            "kd4": 0.9,
            "k5": 1.2,
            "kd5": 0.5,
            "kd6": 0.6,
        }
        system = cls(**{n: jnp.asarray(x) for n, x in rates.items()}, start=(1.3, 1.0, 1.5, 0.5, 0.4, 0.6, 0.8, 0.3))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 3.0, 7), 0.025, space_order=None, time_order=4
        )


class HybridApoptosis(Apoptosis):
    """The same pathway, with an unknown rate of active caspase 3.

        y4' = net(y1, y4, y5, y6, y7, y8)

    With such a network some rates may be undetermined, since it can compensate them: `pdefit identify` tells which. A
    network with few data explains much, so use it only if the mechanism is really unknown.

    **Arguments:** as in `Apoptosis`, and

    - `net`: the network, called with the six states. Default: two hidden layers of eight neurons.
    """

    net: Any = pdefit.parameter(
        default_factory=lambda: Network(("y1", "y4", "y5", "y6", "y7", "y8"), (1.0, 0.01, 0.01, 0.01, 0.03, 0.03)),
        doc="change of caspase 3",
    )

    def activation(self, y):
        return self.net(y.y1, y.y4, y.y5, y.y6, y.y7, y.y8)
