"""An unknown heat source on knots in time and space, from a noisy film of temperature."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array

jax.config.update("jax_enable_x64", True)


# --8<-- [start:system]
class State(NamedTuple):
    u: Array


class Heated(pdefit.AbstractSystem):
    """du/dt = D u'' + f(t, x) on a ring of length 1."""

    time_unit = "s"
    f: pdefit.Interpolant = pdefit.parameter(unit="K/s")

    def vector_field(self, t, y, args):
        x = np.arange(32) / 32
        bent = jnp.roll(y.u, 1) - 2 * y.u + jnp.roll(y.u, -1)
        return State(0.02 * 32**2 * bent + self.f(t, (x,)))

    def init(self, key):
        return State(jnp.zeros(32))


# --8<-- [end:system]
# --8<-- [start:fit]
f = pdefit.Interpolant.zeros((5, 8), extent=(1.0,), times=(0.0, 1.0), periodic=True)
t, x = np.meshgrid(f.times, f.axes[0], indexing="ij")
true = pdefit.Interpolant(
    np.sin(2 * np.pi * (x - t / 2)), f.times, f.axes, periods=f.periods
)
film = pdefit.simulate(
    Heated(true), State(jnp.zeros(32)), np.linspace(0, 1, 21), dt=0.02
)
film = pdefit.add_noise(film, 0.02, jax.random.key(1))

J = pdefit.Functional(
    pdefit.Problem(Heated(f), State(jnp.zeros(32))),
    film,
    {"f": pdefit.transforms.Identity()},
    dt=0.02,
    regularizers=(
        pdefit.regularizers.H1("f.values", 1.0, axes=(0,), spacing=0.25),
        pdefit.regularizers.H1("f.values", 0.1, 1 / 8, (1,), periodic=True),
    ),
)
stage = pdefit.Stage(pdefit.optimizers.LBFGS(), stop=pdefit.stopping.Noise())
found = pdefit.fit(J, [stage])
error = found.problem.system.f.values - true.values
print(found.events[0])
print(f"error of the force: {np.sqrt(np.mean(error**2)):.2f} K/s")
# --8<-- [end:fit]
