"""A network in the equation: the reaction of a front is unknown, and is learnt from a film."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)


class State(NamedTuple):
    u: Array = pdefit.field(doc="density", diffusivity="D")


class Learnt(pdefit.ReactionDiffusion):
    """u_t = D lap u + f(u), with a network f."""

    time_unit = "s"
    D: Array = pdefit.parameter(unit="mm^2/s", positive=True)
    f: Any = pdefit.parameter(doc="reaction")

    def reaction(self, t, y, args):
        # the network maps one number to one number: the density of a cell to its rate
        return State(jax.vmap(self.f)(y.u[:, None])[:, 0])

    def init(self, key):
        return State(jnp.zeros(self.grid.shape))


# a film of a front that grows by f(u) = u (1 - u), with 1 % of noise
grid = pdefit.CartesianGrid(shape=(80,), extent=(40.0,), origin=(-16.0,), length_unit="mm")
truth = FisherKPP(grid, D=1.0, r=1.0, front=-6.0)
start, times = truth.init(None), np.linspace(0.0, 6.0, 25)
film = pdefit.add_noise(pdefit.simulate(truth, start, times, dt=0.02), 0.01, jax.random.key(0))

# f is an untrained network of 25 weights; each of its arrays becomes a control
network = eqx.nn.MLP(1, 1, width_size=8, depth=1, activation=jnp.tanh, key=jax.random.key(0), dtype=float)
problem = pdefit.Problem(Learnt(grid, D=1.0, f=network), State(start.u))
J = pdefit.Functional(problem, film, {"f": pdefit.transforms.Identity()}, dt=0.1)
print("unknowns:", J.controls.size)
found = pdefit.fit(J, [pdefit.Stage(pdefit.optimizers.LBFGS(), 300)])
print(f"chi2 per value {pdefit.judge(found).chi2_per_value:.3f}")

# the network is right where the film has shown it something
u = jnp.linspace(-0.5, 1.5, 9)
learnt = jax.vmap(found.problem.system.f)(u[:, None])[:, 0]
print("    u   f(u)  learnt")
for row in zip(u, u * (1 - u), learnt, strict=True):
    print("{:5.2f} {:6.3f} {:7.3f}".format(*row))
inside = jnp.linspace(0.0, 1.0, 101)
error = jax.vmap(found.problem.system.f)(inside[:, None])[:, 0] - inside * (1 - inside)
print(f"error for u between 0 and 1: {float(jnp.sqrt(jnp.mean(error**2))):.4f} of at most 0.25")
