"""A network in the equation: an unknown reaction is learnt from a film of a front."""

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
        # the profile that the film starts from, which is known here
        return State((1 + jnp.exp((self.grid.mesh()[0] + 6.0) / np.sqrt(6.0))) ** -2)


# a film of a front that grows by f(u) = u (1 - u), with 1 % of noise
grid = pdefit.CartesianGrid(
    shape=(80,), extent=(40.0,), origin=(-16.0,), length_unit="mm"
)
truth = FisherKPP(grid, D=1.0, r=1.0, front=-6.0)
times = np.linspace(0.0, 6.0, 25)
clean = pdefit.simulate(truth, truth.init(None), times, dt=0.02)
film = pdefit.add_noise(clean, 0.01, jax.random.key(0))

# f is an untrained network of 25 weights, each of them a control. The prior keeps
# weights small that the film says nothing of.
network = eqx.nn.MLP(1, 1, 8, 1, jnp.tanh, key=jax.random.key(1), dtype=float)
weights = pdefit.Control(prior=pdefit.priors.Normal(0.0, 1.0))
guess = Learnt(grid, D=1.0, f=network)
problem = pdefit.Problem(guess, guess.init(None))
J = pdefit.Functional(problem, film, {"f": weights}, dt=0.1)
# weights may change together without changing f: the last digits of J are not worth it
method = pdefit.optimizers.LBFGS(value_tolerance=1e-7)
found = pdefit.fit(J, [pdefit.Stage(method, 500)])
print(f"{J.controls.size} weights; {pdefit.judge(found)}")

# the network is right where the film has shown it something: densities from 0 to 1
learnt = jax.vmap(found.problem.system.f)
u = jnp.linspace(-0.5, 1.5, 9)
print("    u   f(u) learnt")
for row in zip(u, u * (1 - u), learnt(u[:, None])[:, 0], strict=True):
    print("{:5.2f} {:6.2f} {:6.2f}".format(*row))
seen = jnp.linspace(0.0, 1.0, 101)
error = learnt(seen[:, None])[:, 0] - seen * (1 - seen)
largest = float(jnp.max(jnp.abs(error)))
print(f"largest error between 0 and 1: {largest:.2f}, where f reaches 0.25")
