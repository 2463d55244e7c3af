"""Many recordings: three dishes share a diffusivity; each has its own growth rate."""

import jax
import numpy as np
import pdefit
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)

grid = pdefit.CartesianGrid(
    shape=(80,), extent=(40.0,), origin=(-12.0,), length_unit="mm"
)
times, D, rates = np.linspace(0.0, 6.0, 13), 1.0, (0.7, 1.0, 1.6)

# the same medium in three dishes, with three doses of a drug: D is shared, r is not
positive, guess = pdefit.transforms.Log(), pdefit.guesses.Value
shared = pdefit.Control(positive, guess(0.5))
own = pdefit.Control(positive, guess(2.0), scope="experiment")
dishes = []
for seed, r in enumerate(rates):
    truth = FisherKPP(grid, D=D, r=r, front=-6.0)
    start = truth.init(None)
    clean = pdefit.simulate(truth, start, times, dt=0.02)
    data = pdefit.add_noise(clean, 0.05, jax.random.key(seed))
    problem = pdefit.Problem(truth, start)
    dishes.append(pdefit.Functional(problem, data, {"D": shared, "r": own}, dt=0.1))

J = pdefit.Recordings(dishes)
method = pdefit.optimizers.LevenbergMarquardt()
together = pdefit.fit(J, [method])
known = pdefit.intervals(together.functional, together.theta, sigma_stated=True)
for i, name in enumerate(J.controls.names()):
    low, best, high = known.low[i], known.estimate[i], known.high[i]
    print(f"{name} = {best:.4f}, 95 % interval {low:.4f} to {high:.4f}")

# what one dish alone says about D
singles = []
for e, dish in enumerate(dishes):
    alone = pdefit.fit(dish, [method])
    one = pdefit.intervals(alone.functional, alone.theta, sigma_stated=True)
    singles.append(one)
    print(f"D from dish {e} alone: {one.low[0]:.4f} to {one.high[0]:.4f}")
