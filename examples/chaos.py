"""Chaos: one long trajectory loses the data, many short ones do not."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array

jax.config.update("jax_enable_x64", True)


class State(NamedTuple):
    u: Array


class Lorenz(pdefit.AbstractSystem):
    """E. Lorenz, J. Atmos. Sci. 20:130 (1963). Errors grow e-fold in 1.1 time units."""

    time_unit = "1"
    sigma: Array = pdefit.parameter(positive=True)
    rho: Array = pdefit.parameter(positive=True)
    beta: Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        x, y, z = y.u
        rates = self.sigma * (y - x), x * (self.rho - z) - y, x * y - self.beta * z
        return State(jnp.stack(rates))

    def init(self, key):
        return State(jnp.array([1.0, 1.0, 20.0]))


# ten time units, in which an initial error grows by e^9; noise of 1 % of the range
truth = Lorenz(10.0, 28.0, 8 / 3)
times = np.linspace(0.0, 10.0, 201)
clean = pdefit.simulate(truth, truth.init(None), times, dt=0.0025)
data = pdefit.add_noise(clean, 0.01, jax.random.key(0))

guess = Lorenz(8.0, 32.0, 2.0)
positive = pdefit.transforms.Log()
numbers = {"sigma": positive, "rho": positive, "beta": positive}
problem = pdefit.Problem(guess, State(data.values["u"][0]))
method = pdefit.optimizers.LevenbergMarquardt()


def report(name, J):
    found = pdefit.fit(J, [pdefit.Stage(method, 40)])
    sigma, rho, beta = (float(getattr(found.problem.system, n)) for n in numbers)
    print(f"{name}: sigma {sigma:.3f}, rho {rho:.3f}, beta {beta:.4f}")
    print(f"  {pdefit.judge(found)}")
    return found


# single shooting: one trajectory from the initial state, which is unknown too
unknown = {**numbers, "y0": {"u": pdefit.Control()}}
single = pdefit.Functional(problem, data, unknown, dt=0.01)
alone = report("single shooting", single)

# multiple shooting: windows of half a time unit, each from an initial state of its own.
# The gaps between them are a penalty.
windows = pdefit.formulations.Segments(length=0.5, continuity=0.01)
unknown = {**numbers, "nodes": {"u": pdefit.Control()}}
multiple = pdefit.Functional(problem, data, unknown, dt=0.01, formulation=windows)
found = report("multiple shooting", multiple)
known = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
for name, low, high in zip(numbers, known.low, known.high, strict=False):
    print(f"  95 % interval of {name}: {low:.3f} to {high:.3f}")
