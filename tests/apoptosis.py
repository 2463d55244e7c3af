"""A stiff problem from biology that tests share: how a cell decides to die."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

import pdefit


class Cell(NamedTuple):
    """Molecules in a cell: caspases 8 and 3, inactive and active, their inhibitors BAR (CARP) and IAP, and the complexes."""

    C8: jax.Array
    C8a: jax.Array
    C3: jax.Array
    C3a: jax.Array
    BAR: jax.Array
    IAP: jax.Array
    C8aBAR: jax.Array
    C3aIAP: jax.Array


# of the published model, per minute and per molecule and minute
RATES = {
    "k1": 5.8e-5, "k2": 1e-5, "k3": 5e-4, "km3": 0.21, "k4": 3e-4, "k5": 5.8e-3, "k6": 5.8e-3, "k7": 1.73e-2,
    "k8": 1.16e-2, "km8": 464.0, "k9": 3.9e-3, "km9": 507.0, "k10": 3.9e-3, "km10": 81.9, "k11": 5e-4, "km11": 0.21,
    "k12": 1e-3, "km12": 40.0, "k13": 1.16e-2,
}  # fmt: skip


class Apoptosis(pdefit.AbstractSystem):
    """Caspases 8 and 3 activate each other and are bound by their inhibitors: two stable states, life and death, between
    which a cell switches hours after the stimulus, within minutes. Rates span seven decades.

    Source: T. Eissing et al., J. Biol. Chem. 279:36892 (2004), doi:10.1074/jbc.M404893200.
    """

    time_unit: ClassVar[str] = "min"
    k1: jax.Array = pdefit.parameter(positive=True)
    k2: jax.Array = pdefit.parameter(positive=True)
    k3: jax.Array = pdefit.parameter(positive=True)
    km3: jax.Array = pdefit.parameter(positive=True)
    k4: jax.Array = pdefit.parameter(positive=True)
    k5: jax.Array = pdefit.parameter(positive=True)
    k6: jax.Array = pdefit.parameter(positive=True)
    k7: jax.Array = pdefit.parameter(positive=True)
    k8: jax.Array = pdefit.parameter(positive=True)
    km8: jax.Array = pdefit.parameter(positive=True)
    k9: jax.Array = pdefit.parameter(positive=True)
    km9: jax.Array = pdefit.parameter(positive=True)
    k10: jax.Array = pdefit.parameter(positive=True)
    km10: jax.Array = pdefit.parameter(positive=True)
    k11: jax.Array = pdefit.parameter(positive=True)
    km11: jax.Array = pdefit.parameter(positive=True)
    k12: jax.Array = pdefit.parameter(positive=True)
    km12: jax.Array = pdefit.parameter(positive=True)
    k13: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        eight, three = self.k2 * y.C3a * y.C8, self.k1 * y.C8a * y.C3
        bound3 = self.k3 * y.C3a * y.IAP - self.km3 * y.C3aIAP
        bound8 = self.k11 * y.C8a * y.BAR - self.km11 * y.C8aBAR
        return Cell(
            C8=self.km9 - self.k9 * y.C8 - eight,
            C8a=eight - self.k5 * y.C8a - bound8,
            C3=self.km10 - self.k10 * y.C3 - three,
            C3a=three - self.k6 * y.C3a - bound3,
            BAR=self.km12 - self.k12 * y.BAR - bound8,
            IAP=self.km8 - self.k8 * y.IAP - bound3 - self.k4 * y.C3a * y.IAP,
            C8aBAR=bound8 - self.k13 * y.C8aBAR,
            C3aIAP=bound3 - self.k7 * y.C3aIAP,
        )

    def init(self, key):
        """A cell with a stimulus of active caspase 8 that is just enough."""
        return Cell(*(jnp.asarray(x) for x in (1.3e5, 3000.0, 2.1e4, 0.0, 4e4, 4e4, 0.0, 0.0)))


def apoptosis(**changes):
    return Apoptosis(**{**RATES, **changes})
