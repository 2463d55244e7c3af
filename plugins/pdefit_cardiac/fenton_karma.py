"""The three-variable model of Fenton and Karma in one paced cell."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractVerifiable, Example

# sharpness of the switches at u_c and u_v
_SHARP = 100.0
# width of a pulse: sin^500 is above a half for 1/30 of a period
_POWER = 500


class State(NamedTuple):
    """The state of a cell.

    **Arguments:**

    - `u`: scaled voltage, 0 at rest and about 1 at the peak.
    - `v`, `w`: gates of the fast and of the slow inward current, from 0 to 1.
    """

    u: Float[Array, ""]
    v: Float[Array, ""]
    w: Float[Array, ""]


def _step(x: Array, sharpness: Any) -> Array:
    """A smooth switch from 0 to 1 at x = 0."""
    return (1 + jnp.tanh(sharpness * x)) / 2


class FentonKarma(pdefit.AbstractSystem, AbstractVerifiable):
    """One paced heart cell: three currents, two gates, and a periodic stimulus.

        u' = I(t) + v a (1 - u) (u - u_c) / tau_d - (b u / tau_o + a / tau_r) + w H(u - u_c_si; k) / tau_si
        v' = b (1 - v) / (tau_v1 H(u_v - u; 100) + tau_v2 H(u - u_v; 100)) - a v / tau_v_plus
        w' = b (1 - w) / tau_w_minus - a w / tau_w_plus
        I(t) = amplitude H(t - t0; 1) sin(pi (t - t0) / period)^500

    with H(x; k) = (1 + tanh(k x)) / 2, a = H(u - u_c; 100) and b = 1 - a. The currents are the fast inward one, the slow
    outward one and the slow inward one. A stimulus comes at t0 + period / 2, and again after each period. It lasts for
    about a thirtieth of the period.

    At rest u is nearly 0, and both gates are open. An optical recording shows u alone, up to its scale. v closes within
    milliseconds of an upstroke and opens slowly: a record determines it only if the next upstroke comes early, and
    determines w in the plateau. All switches are smooth, so gradients are exact. The sharp ones have a width of 0.01,
    which an upstroke passes in less than 0.1 ms.

    Good values: the defaults with tau_si = 67 and tau_w_plus = 300 give action potentials of 200 ms, at a period of 500
    ms. The defaults themselves are a first guess for fits; their slow inward current holds u above 1 for 500 ms. Steps of
    RK4 of 0.25 ms err by 1e-3.

    **Arguments:**

    - `tau_si` to `u_c_si`: the parameters of the equations, times in ms. `pdefit.parameters(FentonKarma)` has the
      meaning of each.
    - `t0`, `period`: the times of the stimulus, in ms.
    - `amplitude`: its height, in 1/ms; default 0.16.

    Source: F. Fenton and A. Karma, Chaos 8:20 (1998), doi:10.1063/1.166311. Default values and the stimulus are those
    from which C. Marcotte fits canine recordings, https://github.com/cmarcotte/fenkar_fittings.
    """

    time_unit: ClassVar[str] = "ms"

    tau_si: Array = pdefit.parameter(unit="ms", positive=True, default=29.0, doc="slow inward current")
    tau_v1: Array = pdefit.parameter(unit="ms", positive=True, default=19.6, doc="v opens, u below u_v")
    tau_v2: Array = pdefit.parameter(unit="ms", positive=True, default=1250.0, doc="v opens, u between u_v and u_c")
    tau_v_plus: Array = pdefit.parameter(unit="ms", positive=True, default=3.33, doc="v closes, u above u_c")
    tau_w_minus: Array = pdefit.parameter(unit="ms", positive=True, default=41.0, doc="w opens, u below u_c")
    tau_w_plus: Array = pdefit.parameter(unit="ms", positive=True, default=870.0, doc="w closes, u above u_c")
    tau_d: Array = pdefit.parameter(unit="ms", positive=True, default=0.25, doc="fast inward current")
    tau_o: Array = pdefit.parameter(unit="ms", positive=True, default=12.5, doc="slow outward current, u below u_c")
    tau_r: Array = pdefit.parameter(unit="ms", positive=True, default=33.3, doc="slow outward current, u above u_c")
    k: Array = pdefit.parameter(positive=True, default=10.0, doc="sharpness of the slow inward current's switch")
    u_c: Array = pdefit.parameter(default=0.13, doc="threshold of the fast inward current")
    u_v: Array = pdefit.parameter(default=0.04, doc="threshold of v's recovery")
    u_c_si: Array = pdefit.parameter(default=0.85, doc="threshold of the slow inward current")
    t0: Array = pdefit.parameter(unit="ms", default=0.0, doc="half a period before a stimulus")
    period: Array = pdefit.parameter(unit="ms", positive=True, default=300.0, doc="time between stimuli")
    amplitude: Array = pdefit.parameter(unit="1/ms", default=0.16, doc="height of a stimulus")

    def stimulus(self, t: Array) -> Array:
        """The current I at a time, in 1/ms."""
        elapsed = t - self.t0
        return self.amplitude * _step(elapsed, 1.0) * jnp.sin(jnp.pi * elapsed / self.period) ** _POWER

    def vector_field(self, t, y, args):
        u, v, w = y
        above = _step(u - self.u_c, _SHARP)
        below = 1 - above
        fast = v * above * (1 - u) * (u - self.u_c) / self.tau_d
        outward = u * below / self.tau_o + above / self.tau_r
        slow = w * _step(u - self.u_c_si, self.k) / self.tau_si
        opening = self.tau_v1 * _step(self.u_v - u, _SHARP) + self.tau_v2 * _step(u - self.u_v, _SHARP)
        return State(
            self.stimulus(t) + fast - outward + slow,
            below * (1 - v) / opening - above * v / self.tau_v_plus,
            below * (1 - w) / self.tau_w_minus - above * w / self.tau_w_plus,
        )

    def init(self, key):
        """A cell at rest."""
        return State(*(jnp.asarray(x, float) for x in (0.0, 1.0, 1.0)))

    @classmethod
    def example(cls, resolution):
        # quick gates, so that a short run shows all: an upstroke, a pulse in the plateau, and recovery
        currents = {"tau_d": 1.0, "tau_si": 8.0, "tau_o": 6.0, "tau_r": 12.0, "k": 5.0, "u_c_si": 0.5}
        gates = {"tau_v1": 10.0, "tau_v2": 30.0, "tau_w_minus": 15.0, "tau_w_plus": 20.0}
        stimulus = {"t0": -20.0, "period": 60.0, "amplitude": 0.1}
        system = cls(**jax.tree.map(jnp.asarray, currents | gates | stimulus))
        y0 = State(*(jnp.asarray(x, float) for x in (0.6, 0.9, 0.9)))
        return Example(system, y0, np.linspace(0.0, 60.0, 121), 0.1, space_order=None, time_order=4)
