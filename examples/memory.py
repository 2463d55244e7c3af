"""A gradient in little memory: levels of checkpoints, and states off the device."""

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)

# a front of 1,024 cells in two dimensions over 480 steps
grid = pdefit.CartesianGrid((32, 32), extent=(32.0, 32.0), origin=(-10.0, 0.0))
truth = FisherKPP(grid, D=1.0, r=1.0, front=-6.0)
start = truth.init(None)
film = pdefit.simulate(truth, start, np.linspace(0.0, 9.6, 13), dt=0.02)
positive = pdefit.transforms.Log()
problem = pdefit.Problem(FisherKPP(grid, D=0.7, r=1.4, front=-6.0), start)


def functional(adjoint):
    controls = {"D": positive, "r": positive}
    return pdefit.Functional(problem, film, controls, dt=0.02, adjoint=adjoint)


def report(name, J, driver):
    """States that a gradient holds, steps that it runs; whether it equals the first."""
    cost = driver.cost(J, tangents=False)
    gradient = driver.watched_gradient(J, J.theta0)[1]
    gradients.append(gradient)
    same = float(jnp.linalg.norm(gradient / gradients[0] - 1)) < 1e-8
    on_host, size = cost.host_bytes // cost.state_bytes, cost.state_bytes // 1024
    held = f"{cost.stored_states:4d} + {on_host:3d} states of {size} KiB"
    print(f"{name:22s} {held}", end="")
    print(f"   {cost.recompute_factor:.1f} x the steps   same gradient: {same}")


gradients = []
for levels in (1, 2, 3):
    J = functional(pdefit.adjoints.Checkpointed(levels))
    report(f"{levels} level(s)", J, pdefit.drivers.Traced())

# the hosted driver runs piece by piece, and keeps in host memory what else is needed
for host in ("256 kB", "25 kB"):
    driver = pdefit.drivers.Hosted(device="1 MB", host=host)
    J = driver.resolve_for(functional(None))
    report(f"hosted, {host} of host", J, driver)
    driver.close()
