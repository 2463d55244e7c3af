"""A potassium channel under voltage clamp: rates and conductance from its current.

The same channel from the command line:
pdefit fit examples/voltage_clamp.py examples/voltage_clamp.yaml
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array


# --8<-- [start:channel]
class Gates(NamedTuple):
    a: Array
    r: Array


class Channel(pdefit.AbstractSystem):
    """An activation gate a and an inactivation gate r, opened and closed by the voltage.

    da/dt = p1 exp(p2 V) (1 - a) - p3 exp(-p4 V) a
    dr/dt = p7 exp(-p8 V) (1 - r) - p5 exp(p6 V) r
    """

    time_unit = "ms"
    p1: Array = pdefit.parameter(unit="1/ms", positive=True, doc="opening of a at 0 mV")
    p2: Array = pdefit.parameter(unit="1/mV", positive=True)
    p3: Array = pdefit.parameter(unit="1/ms", positive=True, doc="closing of a at 0 mV")
    p4: Array = pdefit.parameter(unit="1/mV", positive=True)
    p5: Array = pdefit.parameter(unit="1/ms", positive=True, doc="closing of r at 0 mV")
    p6: Array = pdefit.parameter(unit="1/mV", positive=True)
    p7: Array = pdefit.parameter(unit="1/ms", positive=True, doc="opening of r at 0 mV")
    p8: Array = pdefit.parameter(unit="1/mV", positive=True)

    def vector_field(self, t, y, args):
        v = args.voltage(t)
        opens, closes = self.p1 * jnp.exp(self.p2 * v), self.p3 * jnp.exp(-self.p4 * v)
        wakes, sleeps = self.p7 * jnp.exp(-self.p8 * v), self.p5 * jnp.exp(self.p6 * v)
        return Gates(opens * (1 - y.a) - closes * y.a, wakes * (1 - y.r) - sleeps * y.r)

    def init(self, key):
        return Gates(jnp.asarray(0.0), jnp.asarray(0.6))


# --8<-- [end:channel]
# --8<-- [start:current]
class ClampCurrent(pdefit.instruments.AbstractObservationOperator):
    """The current g a r (V(t) - E) that the amplifier supplies to hold the voltage."""

    g: Array = pdefit.parameter(unit="nS", positive=True, doc="largest conductance")
    reversal: float = -88.0  # mV

    def __call__(self, t, y, args):
        return {"current": self.g * y.a * y.r * (args.voltage(t) - self.reversal)}

    def moved(self, coords):
        return {"current": pdefit.capabilities.FieldCoords((), {}, unit="pA")}


# --8<-- [end:current]
# --8<-- [start:fit]
if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    here = Path(__file__)
    clamp = pdefit.load_experiment(here.with_suffix(".yaml"), equations=here)
    found = clamp.fit()
    known = pdefit.intervals(found.functional, found.theta)
    units = {c.path: c.unit for c in found.functional.controls.items}
    print("          estimate   95 % interval")
    names = found.functional.controls.names()
    for name, *row in zip(names, known.estimate, known.low, known.high, strict=True):
        best, low, high = np.asarray(row)
        print(f"{name:9} {best:.3g} ({low:.3g} to {high:.3g}) {units[name]}")
# --8<-- [end:fit]
