"""The viscosity in a corner of flow/window over draws of noise, at converged minima, and its error without noise.

    ./run python tests/benchmarks/window_seeds.py 24 10 [OVERRIDE ...]    # vectors along an edge, draws

J_r^T J_r is made once, as a whole, at data without noise. In variables in which it is the identity L-BFGS takes about ten
evaluations. Data without noise are weighted as if they had it: what is wrong there is no matter of noise.
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, optimize

import pdefit
from pdefit.inverse.objective.compiled import GRADIENT
from pdefit.inverse.objective.variants import with_tangents

jax.config.update("jax_enable_x64", True)
TRUTH, DISTANCE, TOGETHER = np.log(0.015), 2 * np.pi / 3 / 47, 64


def corner(n, overrides):
    extent = (n - 1) * DISTANCE
    window = [f"data.crop=[[0,{n}],[0,{n}]]", f"system.grid.shape=[{n - 1},{n - 1}]", "dt=0.0075"]
    window += [f"system.grid.extent=[{extent!r},{extent!r}]", "controls.viscosity.guess=0.015"]
    return pdefit.load_experiment("flow/window", [*window, *overrides])


@eqx.filter_jit
def tangents(functional, theta, directions):
    moved = jax.vmap(lambda v: jax.jvp(functional.residuals, (theta,), (v,))[1])(directions)
    return jnp.concatenate([jnp.reshape(x, (len(directions), -1)) for x in jax.tree.leaves(moved)], axis=1)


def minimum(functional, start, root):
    """Theta, J and the number of evaluations; root is R of J_r^T J_r = R^T R."""

    def whitened(w):
        value, slope, _ = GRADIENT(functional, jnp.asarray(start + linalg.solve_triangular(root, w)))
        return float(value), linalg.solve_triangular(root, np.asarray(slope), trans="T")

    options = {"maxcor": 50, "gtol": 1e-3, "ftol": 1e-9}
    found = optimize.minimize(whitened, np.zeros(start.size), jac=True, method="L-BFGS-B", options=options)
    return start + linalg.solve_triangular(root, found.x), found.fun, found.nfev


def main(n, seeds, *overrides):
    sigma = {k: float(np.mean(x)) for k, x in corner(int(n), overrides).source.record.sigma.items()}
    stated = ",".join(f"{k}: {x!r}" for k, x in sigma.items())
    quiet = corner(int(n), [*overrides, "data.noise=0", f"+data.sigma={{{stated}}}"]).functional
    guess = np.array(quiet.theta0)
    units = (np.eye(TOGETHER, guess.size, i) for i in range(0, guess.size, TOGETHER))
    forward = with_tangents(quiet)
    jacobian = np.concatenate([np.asarray(tangents(forward, quiet.theta0, jnp.asarray(v))) for v in units])
    root = linalg.cholesky((jacobian @ jacobian.T)[: guess.size, : guess.size])
    error = linalg.norm(linalg.solve_triangular(root, np.eye(guess.size)[0], trans="T"))
    start, _, _ = minimum(quiet, guess, root)
    scores = [(start[0] - TRUTH) / error]
    print(
        f"without noise: {np.expm1(start[0] - TRUTH):+.2%}, {scores[0]:+.2f} standard errors of {error:.2%}", flush=True
    )
    for seed in range(int(seeds)):
        functional = corner(int(n), [*overrides, f"seed={seed}"]).functional
        theta, value, count = minimum(functional, start, root)
        scores.append((theta[0] - TRUTH) / error)
        chi2 = 2 * value / functional.observed_values
        print(
            f"seed {seed}: {np.expm1(theta[0] - TRUTH):+.2%}, {scores[-1]:+.2f}, chi2 {chi2:.3f}, {count} evaluations"
        )
    print(
        f"mean {np.mean(scores[1:]):+.2f} +- {np.std(scores[1:], ddof=1) / np.sqrt(len(scores) - 1):.2f} standard errors"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
