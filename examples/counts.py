"""Counts of animals: noise that follows the prediction, beside weights from the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from pdefit_populations import LotkaVolterra

jax.config.update("jax_enable_x64", True)
TRUTH = {"alpha": 0.7, "beta": 0.09, "gamma": 0.5, "delta": 0.06}


def populations(rates):
    return LotkaVolterra(
        **{n: jnp.asarray(x) for n, x in rates.items()}, start=(6.0, 6.0)
    )


# --- what was counted: animals in traps at 81 times, often none or one ------------------

times, system = np.linspace(0.0, 40.0, 81), populations(TRUTH)
start = system.init(jax.random.key(0))
random = np.random.default_rng(0)
expected = pdefit.simulate(system, start, times, dt=0.05).values
counts = {n: random.poisson(np.asarray(m)).astype(float) for n, m in expected.items()}

# --- two fits: the square root of each count as its sigma, and counts as they are ------

poisson = pdefit.likelihoods.Poisson()
sigma = {n: poisson.at_data(x, np.isfinite(x)) for n, x in counts.items()}
data = pdefit.Observations.build(times, counts, sigma)
guess = pdefit.Problem(populations({n: 1.2 * x for n, x in TRUTH.items()}), start)
J = pdefit.Functional(
    guess, data, dict.fromkeys(TRUTH, pdefit.transforms.Log()), dt=0.05
)
method = pdefit.optimizers.LevenbergMarquardt()
by_data = pdefit.fit(J, [method])
variances = pdefit.likelihoods.ByPrediction(variables=dict.fromkeys(counts, poisson))
by_prediction = pdefit.fit(J, [pdefit.Stage(method, reweight=variances)])

for word, fit in (
    ("by the data", by_data),
    ("by the prediction", by_prediction),
):
    known = pdefit.intervals(fit.functional, fit.theta, sigma_stated=True)
    print(f"weights {word}:")
    for k, (name, true) in enumerate(TRUTH.items()):
        off = (known.estimate[k] - true) / (known.high[k] - known.low[k]) * 2 * 1.96
        print(f"  {name:5} {known.estimate[k]:.4f}, {off:+.1f} standard errors off")
