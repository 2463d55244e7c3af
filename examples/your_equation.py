"""Your own equation: a dye spreads in a gel and fades. How fast does it do either?"""

from typing import NamedTuple

import jax
import numpy as np
import pdefit
from jaxtyping import Array

jax.config.update("jax_enable_x64", True)


# --- the equation: u_t = D lap u - k u ------------------------------------------------


class State(NamedTuple):
    u: Array = pdefit.field(doc="dye", diffusivity="D")


class Dye(pdefit.ReactionDiffusion):
    time_unit = "s"
    D: Array = pdefit.parameter(unit="mm^2/s", positive=True, doc="diffusivity")
    k: Array = pdefit.parameter(unit="1/s", positive=True, doc="rate of fading")

    def reaction(self, t, y, args):
        return State(-self.k * y.u)

    def init(self, key):
        # a drop of standard deviation 0.5 mm
        return State(jax.numpy.exp(-(self.grid.mesh()[0] ** 2) / (2 * 0.5**2)))


grid = pdefit.CartesianGrid(
    shape=(80,), extent=(12.0,), origin=(-6.0,), length_unit="mm"
)

# --- the data: an array of times x points, here the exact solution with noise ---------

times, x, sigma = np.linspace(0.0, 10.0, 21), grid.axis(0), 0.01
width = 0.5**2 + 2 * 0.2 * times[:, None]  # the variance grows with 2 D t, D = 0.2
film = 0.5 / np.sqrt(width) * np.exp(-(x**2) / (2 * width))
film *= np.exp(-0.1 * times[:, None])  # it fades with k = 0.1
film += sigma * np.random.default_rng(0).normal(size=film.shape)
data = pdefit.Observations.build(times, {"u": film}, sigma=sigma)

# --- the fit --------------------------------------------------------------------------

guess = Dye(grid, D=1.0, k=0.5)
positive = pdefit.transforms.Log()
problem = pdefit.Problem(guess, guess.init(None))
J = pdefit.Functional(problem, data, {"D": positive, "k": positive})
method = pdefit.optimizers.LevenbergMarquardt()
print("derivatives are right:", pdefit.certify(J, J.theta0, optimizers=[method]).passed)

found = pdefit.fit(J, [method])
known = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
rows = zip(J.controls.names(), known.low, known.estimate, known.high, strict=True)
for name, low, best, high in rows:
    print(f"{name} = {best:.4f}, 95 % interval {low:.4f} to {high:.4f}")
print(pdefit.judge(found))
