"""The FitzHugh-Nagumo equations: pulses and spiral waves of an excitable medium."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractVerifiable, Example


class State(NamedTuple):
    """The state of the model, two dimensionless fields of the grid's shape."""

    u: Float[Array, "*grid"] = pdefit.field(doc="activator", diffusivity="D")
    v: Float[Array, "*grid"] = pdefit.field(doc="recovery")


class FitzHughNagumo(pdefit.ReactionDiffusion, AbstractVerifiable):
    """An excitable medium: an activator u that diffuses, and a recovery v that follows it and ends each pulse.

        u_t = D lap u + excitation (u - u^3 / 3 - v)
        v_t = recovery (u + beta - gamma v)

    At rest u is about -1.03 and v about -0.67. Initially the half of small x is excited. In two dimensions the half of
    small y has not recovered, so the front curls into a spiral wave. Good values: D = 0.0015 mm^2/s, excitation 0.8
    1/s, recovery 0.072 1/s, beta = 0.7, gamma = 0.5. Winfree's time unit is 1 / sqrt(excitation recovery), and his eps
    is sqrt(recovery / excitation), here 0.3. A front is 0.06 mm wide, and needs cells of a third of that.

    **Observed in u alone**, all five numbers are determined: the cubic term sets the scale of u, and v enters u_t with
    the factor of u.

    **Arguments:**

    - `grid`: the cells.
    - `D`: the diffusivity of the activator.
    - `excitation`: the rate of the activator.
    - `recovery`: the rate of the recovery, smaller than `excitation`.
    - `beta`: the distance from the threshold; a smaller one lets the medium oscillate, and a larger one makes it inexcitable.
    - `gamma`: the decay of v within its rate.

    Source: A. T. Winfree, Chaos 1:303 (1991), doi:10.1063/1.165844; R. FitzHugh, Biophys. J. 1:445 (1961),
    doi:10.1016/S0006-3495(61)86902-6.
    """

    time_unit: ClassVar[str] = "s"

    D: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity of the activator")
    excitation: Array = pdefit.parameter(unit="1/time", positive=True, doc="rate of the activator")
    recovery: Array = pdefit.parameter(unit="1/time", positive=True, doc="rate of the recovery")
    beta: Array = pdefit.parameter(doc="distance from the threshold")
    gamma: Array = pdefit.parameter(positive=True, doc="decay of the recovery")

    def reaction(self, t, y, args):
        return State(
            self.excitation * (y.u - y.u**3 / 3 - y.v),
            self.recovery * (y.u + self.beta - self.gamma * y.v),
        )

    def init(self, key):
        low = [np.indices(self.grid.shape)[i] < n / 2 for i, n in enumerate(self.grid.shape[:2])]
        u = np.where(low[0], 1.8, -1.03)
        v = np.where(low[1], 0.9, -0.67) if len(low) > 1 else np.full(u.shape, -0.67)
        return State(*(jnp.asarray(x, jnp.asarray(self.D).dtype) for x in (u, v)))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid((2 * resolution,), (1.28,), length_unit="mm")
        system = cls(grid, *map(jnp.asarray, (0.0015, 0.8, 0.072, 0.7, 0.5)))
        # a front, and every phase of recovery: each parameter matters somewhere
        x = grid.axis(0)
        y0 = State(*map(jnp.asarray, (0.3 - 1.5 * np.tanh((x - 0.64) / 0.1), 0.15 + 0.75 * np.cos(5 * x))))
        return Example(system, y0, np.linspace(0.0, 4.0, 5), 0.1, space_order=2, time_order=4)
