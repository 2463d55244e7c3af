"""Accuracy of parameters beside an unknown initial state: errors in units of the Cramer-Rao bound.

    ./run python scripts/unknown_initial_state.py [DRAWS] [NOISE]

Fits the Korteweg-de Vries equation (199 and 201 points at two times) and Fisher's front with 1 % noise. Guesses are 20
% off, and the initial state is taken from the data. The stages are those that `pdefit.choose_stages` chooses.

Prints for each problem the mean over draws of e^T F e / p, with e the error of the logarithms of the p = 2 parameters.
F is their Fisher information at the truth, less what is lost because all values of the initial state are unknown (64
Fourier modes, 160 cells), without a prior. For an efficient estimate the mean is 1 and stays below the 99 % quantile,
which is printed. The exit code is 1 if a fit does not converge or the mean is larger. Takes a few minutes on two cores.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy import stats

import pdefit
from pdefit._util.errors import PdefitError

jax.config.update("jax_enable_x64", True)

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def main() -> None:
    import unknown_state

    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    noise = float(sys.argv[2]) if len(sys.argv) > 2 else 0.01
    problems = {"KdV, l1 and l2": unknown_state.korteweg_de_vries, "front, D and r": unknown_state.front}
    good = [study(name, make, draws, noise) for name, make in problems.items()]
    sys.exit(0 if all(good) else 1)


def study(name: str, make: Callable[..., Any], draws: int, noise: float) -> bool:
    """Fit all draws of one problem and print the errors; returns whether they are as small as they can be."""
    errors, squares, converged, evaluations = [], [], 0, []
    for seed in range(draws):
        draw = make(seed, noise)
        try:
            fit = pdefit.fit(draw.functional, pdefit.choose_stages(draw.functional).stages)
        except PdefitError as error:
            print(f"{name}: draw {seed} from {draw.start}: {error}", flush=True)
            continue
        e = draw.error(fit.theta)
        errors.append(e)
        squares.append(e @ draw.fisher @ e / 2)
        converged += fit.converged
        evaluations.append(fit.iterations)
        print(
            f"{name}: draw {seed} from {draw.start}: {fit.iterations} evaluations, converged {fit.converged}, errors "
            f"{e[0]:+.3%} {e[1]:+.3%}, e^T F e / p {squares[-1]:.2f} {'; '.join(fit.events)}",
            flush=True,
        )
    limit = stats.chi2.ppf(0.99, 2 * draws) / (2 * draws)
    bias, spread = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(len(errors))
    print(
        f"{name}: {converged} of {draws} converged in {np.median(evaluations):.0f} evaluations (median; most "
        f"{max(evaluations)}); mean of e^T F e / p {np.mean(squares):.2f} (99 % quantile {limit:.2f}); bias "
        f"{bias[0]:+.3%} +- {spread[0]:.3%}, {bias[1]:+.3%} +- {spread[1]:.3%}",
        flush=True,
    )
    return converged == draws and bool(np.mean(squares) <= limit)


if __name__ == "__main__":
    main()
