"""A fit that counts the wrong number of periods, many starts that find the right one, and twelve fits at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from pdefit_populations import LotkaVolterra

jax.config.update("jax_enable_x64", True)

# --8<-- [start:record]
ts = np.linspace(0.0, 30.0, 91)
truth = LotkaVolterra(alpha=0.7, beta=0.9, gamma=0.5, delta=0.6, start=(0.4, 0.3))
record = pdefit.add_noise(
    pdefit.simulate(truth, truth.init(None), ts, dt=0.05), 0.02, jax.random.key(1)
)

guess = LotkaVolterra(alpha=3.0, beta=0.9, gamma=3.0, delta=0.6, start=(0.4, 0.3))
log = pdefit.transforms.Log()
unknown = {"alpha": log, "beta": log, "gamma": log, "delta": log}
objective = pdefit.Functional(
    pdefit.Problem(guess, guess.init(None)), record, unknown, dt=0.1
)
# --8<-- [end:record]

# --8<-- [start:starts]
method = pdefit.optimizers.LevenbergMarquardt(max_step=0.5)
alone = pdefit.fit(objective, [method])
print(
    f"from the guess: chi2 per value {2 * alone.loss / objective.observed_values:.0f}"
)

found = pdefit.explore(
    objective, pdefit.Starts(count=32, factor=10.0, keep=8), [method]
)
print(found)
best = found.theta[found.best]
print(
    f"from the best start: chi2 per value {2 * found.loss[found.best] / objective.observed_values:.2f}"
)
print("rates", np.array2string(np.exp(best), precision=2))
# --8<-- [end:starts]

# --8<-- [start:members]
rates = np.random.default_rng(0).uniform(0.4, 0.9, (12, 4))
objectives = []
for e, each in enumerate(rates):
    animal = LotkaVolterra(*each, start=(0.4, 0.3))
    data = pdefit.simulate(animal, animal.init(None), ts[:31], dt=0.05)
    data = pdefit.add_noise(data, 0.02, jax.random.key(e))
    start = LotkaVolterra(*jnp.full(4, 0.6), start=(0.4, 0.3))
    objectives.append(
        pdefit.Functional(
            pdefit.Problem(start, start.init(None)), data, unknown, dt=0.1
        )
    )

fits = pdefit.fit_members(pdefit.Members.of(objectives), [method])
spans = fits.intervals(sigma_stated=True)
inside = (spans.low <= rates) & (rates <= spans.high)
print(
    f"{fits.converged.sum()} of {len(rates)} converged, {inside.mean():.0%} of the rates within their 95 % intervals"
)
# --8<-- [end:members]

# --8<-- [start:bootstrap]
fit = pdefit.fit(objectives[0], [method])
repeated = pdefit.bootstrap(fit.functional, fit.theta, pdefit.Bootstrap(count=200))
matrix = pdefit.intervals(fit.functional, fit.theta, sigma_stated=True)
widths = (repeated.high - repeated.low) / (matrix.high - matrix.low)
print(
    f"intervals of the bootstrap over those of the matrix: {widths.min():.2f} to {widths.max():.2f}"
)
# --8<-- [end:bootstrap]
