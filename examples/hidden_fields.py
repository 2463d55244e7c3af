"""Hidden fields: the voltage along a nerve fibre is seen, its recovery is not."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array

jax.config.update("jax_enable_x64", True)


class State(NamedTuple):
    v: Array = pdefit.field(doc="voltage", diffusivity=0.5)
    w: Array = pdefit.field(doc="recovery")


class Nerve(pdefit.ReactionDiffusion):
    """The FitzHugh-Nagumo equations, dimensionless."""

    eps: Array = pdefit.parameter(positive=True, doc="rate of recovery")
    beta: Array = pdefit.parameter(positive=True, doc="excitability")

    def reaction(self, t, y, args):
        return State(y.v - y.v**3 / 3 - y.w, self.eps * (y.v + self.beta - 0.8 * y.w))

    def init(self, key):
        return State(jnp.full(self.grid.shape, -1.2), jnp.full(self.grid.shape, -0.6))


# the truth: two pulses, in fibre that has recovered in some places more than in others
grid = pdefit.CartesianGrid(shape=(48,), extent=(48.0,))
x, times = grid.axis(0), np.linspace(0.0, 24.0, 25)
v = -1.2 + 3.0 * (np.exp(-((x - 4) ** 2) / 8) + np.exp(-((x - 40) ** 2) / 8))
truth = State(jnp.asarray(v), jnp.asarray(-0.6 + 0.3 * np.cos(x / 6)))
system = Nerve(grid, eps=0.08, beta=0.7)

# the film shows the voltage alone, with noise
voltage = pdefit.instruments.Select("v")
clean = pdefit.simulate(system, truth, times, dt=0.05, observe=voltage)
film = pdefit.add_noise(clean, 0.02, jax.random.key(0))

# unknown: two numbers, and the initial state of both fields. The voltage starts from
# its first frame, which is noisy. Of the recovery we suppose that it is -0.6, give or
# take 0.5, and changes by about 0.05 from cell to cell.
guess = Nerve(grid, eps=0.05, beta=1.0)
positive = pdefit.transforms.Log()
initial = {
    "v": pdefit.Control(guess=pdefit.guesses.FromData()),
    "w": pdefit.Control(prior=pdefit.priors.Normal(-0.6, 0.5)),
}
problem = pdefit.Problem(guess, guess.init(None), voltage)
smooth = pdefit.regularizers.H1("y0.w", weight=x.size / 0.05**2)
unknown = {"eps": positive, "beta": positive, "y0": initial}
J = pdefit.Functional(problem, film, unknown, regularizers=(smooth,))
chosen = pdefit.choose_stages(J)
print(chosen.reason)
found = pdefit.fit(J, chosen.stages)
# the film was simulated on the cells of the model
print(pdefit.judge(found, same_cells=True))

known = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
for i, name in enumerate(J.controls.names()[:2]):
    low, best, high = known.low[i], known.estimate[i], known.high[i]
    print(f"{name} = {best:.4f}, 95 % interval {low:.4f} to {high:.4f}")


def rms(error):
    return float(jnp.sqrt(jnp.mean(error**2)))


def recovery(problem):
    return pdefit.simulate(problem.system, problem.y0, times, dt=0.05).values["w"]


problems = pdefit.Problem(system, truth), problem, found.problem
hidden, guessed, best = (recovery(p) for p in problems)
before, now = rms(guessed[0] - hidden[0]), rms(best[0] - hidden[0])
print(f"hidden recovery at the start: off by {before:.3f} at the guess, {now:.3f} now")
before, now = rms(guessed - hidden), rms(best - hidden)
print(f"hidden recovery over the film: off by {before:.3f} at the guess, {now:.3f} now")
