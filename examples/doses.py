"""Doses: tablets every day and a capsule that dissolves slowly, and a fit of its three numbers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pdefit

jax.config.update("jax_enable_x64", True)


class State(NamedTuple):
    gut: jax.Array  # mg
    body: jax.Array  # mg/L


class Oral(pdefit.AbstractSystem):
    """One compartment behind the gut."""

    time_unit = "h"
    ka: jax.Array = pdefit.parameter(unit="1/h", positive=True)
    CL: jax.Array = pdefit.parameter(positive=True, doc="L/h")
    V: jax.Array = pdefit.parameter(positive=True, doc="L")

    def vector_field(self, t, y, args):
        absorbed = self.ka * y.gut
        return State(-absorbed, (absorbed - self.CL * y.body) / self.V)

    def init(self, key):
        return State(jnp.zeros(()), jnp.zeros(()))


events = [
    pdefit.Event(0.0, "gut", amount=320.0, every=24.0, count=4),
    pdefit.Event(96.0, "gut", amount=480.0, duration=6.0),
]

# --- a record with noise, in mg/L ------------------------------------------------------

truth = Oral(ka=1.2, CL=4.0, V=35.0)
ts = np.array([0, 1, 4, 12, 24, 26, 48, 72, 74, 96, 99, 103, 108], float)
clean = pdefit.simulate(truth, truth.init(None), ts, events=events)
noise = np.random.default_rng(1).normal(size=ts.size)
body = clean.values["body"] + 0.1 * noise
record = pdefit.Observations.build(ts, {"body": body}, sigma=0.1)

# --- the fit, with the same events -----------------------------------------------------

guess = Oral(ka=0.7, CL=2.0, V=60.0)
seen = pdefit.instruments.Select(("body",))
problem = pdefit.Problem(guess, guess.init(None), seen, events=events)
positive = pdefit.transforms.Log()
J = pdefit.Functional(problem, record, {"ka": positive, "CL": positive, "V": positive})
found = pdefit.fit(J)
known = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
for i, name in enumerate(("ka", "CL", "V")):
    low, best, high = known.low[i], known.estimate[i], known.high[i]
    print(f"{name:2} = {best:.2f}, 95 % interval {low:.2f} to {high:.2f}")
