"""Observe at points: values that were measured anywhere, at other places each time."""

import jax
import numpy as np
import pdefit
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)
grid = pdefit.CartesianGrid(
    shape=(80,), extent=(40.0,), origin=(-20.0,), length_unit="mm"
)

# --- a list of (time, place, value): up to eight probes drift, and some fail ----------

random = np.random.default_rng(0)
t = np.repeat(np.linspace(0.0, 4.0, 17), 8)
x = random.uniform(-10.0, 12.0, t.size)
kept = random.uniform(size=t.size) < 0.8
t, x = t[kept], x[kept]
# the exact front for D = 0.8 mm^2/s and r = 1.2 1/s, which is at -5 mm at the start
place = -5.0 + 5 * np.sqrt(1.2 * 0.8 / 6) * t
value = 1 / (
    1 + np.exp((x - place) / np.sqrt(6 * 0.8 / 1.2))
) ** 2 + 0.02 * random.normal(size=t.size)

# --- as observations: points of one time become one frame ------------------------------

record = pdefit.Observations.from_points(t, x, {"u": value}, sigma=0.02)
print(
    f"{t.size} values in {record.ts.size} frames, {record.mask['u'].shape[1]} at most in one"
)

# --- the fit: At interpolates the field to the points of every frame -------------------

guess = FisherKPP(grid, D=2.0, r=0.5, front=-5.0)
exact = FisherKPP(grid, D=0.8, r=1.2, front=-5.0).init(None)
problem = pdefit.Problem(guess, exact, pdefit.instruments.At())
positive = pdefit.transforms.Log()
J = pdefit.Functional(problem, record, {"D": positive, "r": positive})
found = pdefit.fit(J)
known = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
for i, name in enumerate("Dr"):
    low, best, high = known.low[i], known.estimate[i], known.high[i]
    print(f"{name} = {best:.3f}, 95 % interval {low:.3f} to {high:.3f}")
