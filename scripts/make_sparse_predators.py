"""A table of prey that is counted often and of its predator that is counted rarely, by another method than pdefit's.

    ./run python scripts/make_sparse_predators.py data/populations/lotka_volterra_sparse.csv [--noise 0.01] [--seed 0]

Growth 1.3, losses 0.9, gains 0.8, death 1.8, from (0.44249296, 4.6280594). Prey stands at every 0.1 up to t = 6, the predator
at every 1.2; the start is exact. The standard deviation of the noise is `noise` times the mean of each.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

GROWTH, LOSS, GAIN, DEATH, START = 1.3, 0.9, 0.8, 1.8, (0.44249296, 4.6280594)


def table(noise: float, seed: int) -> np.ndarray:
    """Times, prey, predator and their standard deviations, (61, 5), NaN where the predator was not counted."""
    t = np.linspace(0.0, 6.0, 61)

    def rate(_, z):
        x, y = np.exp(z)
        return [GROWTH - LOSS * y, GAIN * x - DEATH]

    exact = np.exp(solve_ivp(rate, (0.0, 6.0), np.log(START), "DOP853", t, rtol=1e-12, atol=1e-12).y)
    sigma = np.repeat(noise * exact.mean(axis=1, keepdims=True), t.size, axis=1)
    seen = exact + sigma * np.random.default_rng(seed).standard_normal(exact.shape) * (t > 0)
    seen[1, np.arange(t.size) % 12 != 0] = np.nan
    return np.vstack([t, seen, sigma]).T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    lines = ["t,prey,predator,prey_sigma,predator_sigma"]
    for row in table(given.noise, given.seed):
        lines.append(",".join("" if np.isnan(x) else f"{x:.6g}" for x in row))
    given.file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
