import jax
import numpy as np
import pdefit
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)

# a film of a front that travels along 80 mm, with 2 % noise
grid = pdefit.CartesianGrid(
    shape=(160,), extent=(80.0,), origin=(-40.0,), length_unit="mm"
)
truth = FisherKPP(grid, D=1.0, r=1.0)
start, times = truth.init(jax.random.key(0)), np.linspace(0.0, 8.0, 17)
film = pdefit.add_noise(pdefit.simulate(truth, start, times), 0.02, jax.random.key(1))

# the same equation with wrong parameters, both unknown
problem = pdefit.Problem(FisherKPP(grid, D=0.5, r=2.0), start)
unknown = {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}
objective = pdefit.Functional(problem, film, unknown)

assert pdefit.certify(objective, objective.theta0).passed
fit = pdefit.fit(objective)
print(pdefit.intervals(fit.functional, fit.theta))
