"""Time in which L-BFGS and Gauss-Newton-CG bring the objective of an unknown field down.

    ./run python tests/benchmarks/fields.py

Both fit the unseen temperature of 40 x 40 cells: 1,600 unknowns from data without noise and without a prior, and 4,760
unknowns, the velocity among them, from noisy data with a prior. Printed are seconds, without compilation, until J is
within given factors of the smallest one found.
"""

import time

import jax
import numpy as np

import pdefit

jax.config.update("jax_enable_x64", True)

SMALL = ["system.grid.shape=[40,40]", "system.rayleigh=1e6", "times.stop=4.0", "times.count=21", "times.forecast=null"]
PROBLEMS = {
    "no noise, no prior": ("flow/temperature_from_velocity", (1000.0, 100.0, 10.0, 3.0)),
    "noise and prior": ("flow/temperature_from_velocity/noisy", (1.1, 1.03, 1.01, 1.001)),
}
OPTIMIZERS = {
    "L-BFGS, 10 gradients": (pdefit.optimizers.LBFGS(), 400),
    "L-BFGS, 20 gradients": (pdefit.optimizers.LBFGS(memory=20), 400),
    "Gauss-Newton-CG, 20 products": (pdefit.optimizers.GaussNewtonCG(products=20), 20),
    "Gauss-Newton-CG, 60 products": (pdefit.optimizers.GaussNewtonCG(products=60), 10),
}


def course(functional, optimizer, most):
    """Seconds and the smallest J after every chunk of evaluations."""
    pdefit.fit(functional, [pdefit.Stage(optimizer, 2)])
    found = [(0.0, np.inf)]
    begin = time.perf_counter()
    done = pdefit.fit(
        functional,
        [pdefit.Stage(optimizer, most)],
        callback=lambda p: found.append((time.perf_counter() - begin, p.loss)),
    )
    return np.asarray(found) - [done.seconds["compile"], 0.0]


for name, (experiment, factors) in PROBLEMS.items():
    functional = pdefit.load_experiment(experiment, SMALL).functional
    runs = {label: course(functional, *how) for label, how in OPTIMIZERS.items()}
    best = min(run[:, 1].min() for run in runs.values())
    print(f"{name}: {functional.controls.size} unknowns, smallest J {best:.6g}; seconds until J is within a factor of")
    print(" " * 30, *(f"{factor:>9g}" for factor in factors))
    for label, run in runs.items():
        times = [run[run[:, 1] <= factor * best, 0] for factor in factors]
        print(
            f"{label:30s}",
            *(f"{t[0]:9.1f}" if t.size else "        -" for t in times),
            f"  J {run[-1, 1]:.6g}",
            flush=True,
        )
