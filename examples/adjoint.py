"""Comparison of all sensitivity algorithms on one small problem."""

import jax
import numpy as np
import pdefit
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)

grid = pdefit.CartesianGrid(
    shape=(80,), extent=(20.0,), origin=(-8.0,), length_unit="mm"
)
truth = FisherKPP(grid, D=1.0, r=1.0, front=-3.0)
start = truth.init(None)
film = pdefit.simulate(truth, start, np.linspace(0.0, 4.0, 5), dt=0.02)
positive = pdefit.transforms.Log()
problem = pdefit.Problem(FisherKPP(grid, D=0.7, r=1.4, front=-3.0), start)
J = pdefit.Functional(problem, film, {"D": positive, "r": positive}, dt=0.02)

# errors are relative to the gradient of the discrete trajectory
# (a certificate asks for 1e-6)
study = pdefit.compare(J)


def exactness(error):
    return "exact" if error < 1e-8 else "right" if error < 1e-6 else "WRONG"


print("algorithm            gradient  states held")
for row in study.measured:
    print(f"{row.algorithm:20s} {exactness(row.error):8s}", end=" ")
    print(f"{row.stored_states:6d}   {row.schedule}")
print("central differences, by their step relative to a control:")
for step in (0.01, 1e-6, 1e-11):
    error = study.errors[int(np.argmin(np.abs(np.log(study.steps) - np.log(step))))]
    print(f"  {step:.0e}  {exactness(error)}")
