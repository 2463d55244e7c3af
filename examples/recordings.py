"""Many recordings: three dishes share a diffusivity, and each has a growth rate of its own."""

import jax
import numpy as np
import pdefit
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)

grid = pdefit.CartesianGrid(shape=(80,), extent=(40.0,), origin=(-12.0,), length_unit="mm")
times, D, rates = np.linspace(0.0, 6.0, 13), 1.0, (0.7, 1.0, 1.6)

# the same medium in three dishes, with three doses of a drug: D is shared, r is not
shared = pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Value(0.5))
own = pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Value(2.0), scope="experiment")
dishes = []
for seed, r in enumerate(rates):
    truth = FisherKPP(grid, D=D, r=r, front=-6.0)
    start = truth.init(None)
    clean = pdefit.simulate(truth, start, times, dt=0.02)
    data = pdefit.add_noise(clean, 0.05, jax.random.key(seed))
    dishes.append(pdefit.Functional(pdefit.Problem(truth, start), data, {"D": shared, "r": own}, dt=0.1))

J = pdefit.Recordings(dishes)
method = pdefit.optimizers.LevenbergMarquardt()
together = pdefit.fit(J, [method])
known = pdefit.intervals(together.functional, together.theta, sigma_stated=True)
for i, name in enumerate(J.controls.names()):
    print(f"{name} = {known.estimate[i]:.4f}, 95 % interval {known.low[i]:.4f} to {known.high[i]:.4f}")

# what one dish alone says about D
for e, dish in enumerate(dishes):
    alone = pdefit.fit(dish, [method])
    one = pdefit.intervals(alone.functional, alone.theta, sigma_stated=True)
    print(f"D from dish {e} alone: {one.low[0]:.4f} to {one.high[0]:.4f}")
