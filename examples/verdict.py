"""The verdict on a fit: a right model, a wrong number, a search that ends too early."""

import jax
import numpy as np
import pdefit
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)

# a film of a front with D = 1 mm^2/s and r = 1 1/s, and noise of 2 %
grid = pdefit.CartesianGrid(
    shape=(60,), extent=(30.0,), origin=(-10.0,), length_unit="mm"
)
truth = FisherKPP(grid, D=1.0, r=1.0, front=-4.0)
start, times = truth.init(None), np.linspace(0.0, 5.0, 26)
clean = pdefit.simulate(truth, start, times, dt=0.02)
film = pdefit.add_noise(clean, 0.02, jax.random.key(0))


def fit(guess, unknown, most=None):
    controls = {name: pdefit.transforms.Log() for name in unknown}
    J = pdefit.Functional(pdefit.Problem(guess, start), film, controls, dt=0.08)
    found = pdefit.fit(J, [pdefit.optimizers.LevenbergMarquardt()], max_iterations=most)
    assessed = pdefit.judge(found)
    known, verdict = assessed.intervals, assessed.verdict
    low, best, high = known.low[0], known.estimate[0], known.high[0]
    print(f"  D = {best:.3f}, 95 % interval {low:.3f} to {high:.3f}")
    print(f"  {verdict.word}\n    because {verdict.reason}")
    return assessed


print("both numbers are fitted:")
fit(FisherKPP(grid, D=0.5, r=2.0, front=-4.0), ["D", "r"])

print("r is taken from a book, 15 % too large:")
wrong = fit(FisherKPP(grid, D=0.5, r=1.15, front=-4.0), ["D"])
for axis, c in wrong.recordings[""].whiteness["u"].items():
    found = f"{c.value:.2f} (noise alone: 0 +- {c.spread:.2f})"
    print(f"    residuals are correlated along {axis}: {found}")

print("three evaluations are all that is allowed:")
fit(FisherKPP(grid, D=0.5, r=2.0, front=-4.0), ["D", "r"], most=3)
