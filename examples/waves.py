"""Two coefficients of a wave equation, from a film of its height."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array, Float

jax.config.update("jax_enable_x64", True)


# --8<-- [start:system]


class State(NamedTuple):
    u: Float[Array, "*grid"] = pdefit.field(doc="height")


class Waves(pdefit.SpectralSystem):
    """Waves that steepen and disperse: u_t + a u u_x + b u_xxx = 0."""

    a: Array = pdefit.parameter(doc="steepening")
    b: Array = pdefit.parameter(doc="dispersion")

    def eigenvalues(self):
        return State(-self.b * self.grid.symbol(3))

    def nonlinear(self, t, y, args):
        square = self.grid.dealias(self.grid.to_modes(y.u**2))
        return State(-self.a / 2 * self.grid.symbol(1) * square)

    def init(self, key):
        return State(jnp.cos(jnp.pi * self.grid.mesh()[0]))


# --8<-- [end:system]
# --8<-- [start:fit]
grid = pdefit.FourierGrid(shape=(128,), extent=(2.0,), origin=(-1.0,))
truth, model = Waves(grid, a=1.0, b=0.0025), Waves(grid, a=0.8, b=0.003)
steps = {"solver": pdefit.solvers.ETDRK4(), "dt": 2e-3}
film = pdefit.simulate(truth, truth.init(None), np.linspace(0.0, 0.8, 9), **steps)
film = pdefit.add_noise(film, 0.01, jax.random.key(1))

J = pdefit.Functional(
    pdefit.Problem(model, model.init(None)),
    film,
    {"a": pdefit.transforms.Log(), "b": pdefit.transforms.Log()},
    **steps,
)
found = pdefit.fit(J)
print(pdefit.intervals(found.functional, found.theta))
# --8<-- [end:fit]
