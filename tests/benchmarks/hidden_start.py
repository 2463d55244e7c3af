"""The diffusivity of a field whose start is unknown in every cell: its errors in standard errors, over draws.

    ./run python tests/benchmarks/hidden_start.py [--cells 32] [--noise 0.05] [--draws 60] [--length 3]

Each draw is a sum of eight waves of mean square one between walls, seen in every cell at eleven times with noise. The fit
starts from the first frame and from 1.5 times the diffusivity. No cell has a prior; with `--length` the start has a smoothing
prior of amplitude 1 and that length in cells.
"""

import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import pdefit

jax.config.update("jax_enable_x64", True)
WAVES, TIMES, STEP = 8, np.linspace(0.0, 10.0, 11), 0.25
STAGES = [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 50)]


class State(NamedTuple):
    u: Array = pdefit.field(doc="concentration", diffusivity="D")


class Diffusion(pdefit.ReactionDiffusion):
    """Diffusion and nothing else, dimensionless."""

    D: Array = pdefit.parameter(positive=True, doc="diffusivity")

    def reaction(self, t, y, args):
        return State(jnp.zeros_like(y.u))

    def init(self, key):
        return State(jnp.zeros(self.grid.shape))


def score(grid: pdefit.CartesianGrid, noise: float, length: float | None, seed: int) -> tuple[float, bool]:
    """The error of the logarithm of D in standard errors, and whether the fit converged."""
    rng, x = np.random.default_rng(seed), grid.axis(0) / grid.extent[0]
    waves = np.cos(np.pi * np.outer(np.arange(1, WAVES + 1), x)) / np.sqrt(WAVES)
    start = State(jnp.asarray(rng.standard_normal(WAVES) @ waves))
    film = pdefit.add_noise(pdefit.simulate(Diffusion(grid, D=1.0), start, TIMES, dt=STEP), noise, jax.random.key(seed))
    nominal = pdefit.Problem(Diffusion(grid, D=1.5), State(jnp.zeros(grid.shape)))
    prior = None if length is None else pdefit.Smoothing(length, 1.0)
    field = pdefit.Control(guess=pdefit.guesses.FromData(), smoothing=prior)
    controls = {"D": pdefit.transforms.Log(), "y0": {"u": field}}
    found = pdefit.fit(pdefit.Functional(nominal, film, controls, dt=STEP), STAGES)
    known = pdefit.intervals(found.functional, found.theta)
    return float(found.theta[0] / known.error[0]), found.converged


def main():
    """Prints the mean of the errors, its error, their root mean square and largest size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=32)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--length", type=float)
    given = parser.parse_args()
    grid = pdefit.CartesianGrid(shape=(given.cells,), extent=(float(given.cells),))
    scores, converged = zip(*(score(grid, given.noise, given.length, seed) for seed in range(given.draws)), strict=True)
    z = np.array(scores)
    print(
        f"{given.cells} cells, noise {given.noise:g}: mean {z.mean():+.2f} +- {z.std(ddof=1) / np.sqrt(z.size):.2f} standard "
        f"errors, rms {np.sqrt(np.mean(z**2)):.2f}, beyond three {np.sum(abs(z) > 3)}, converged {sum(converged)} of {z.size}"
    )


if __name__ == "__main__":
    main()
