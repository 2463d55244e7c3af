"""Ten parameters of heart tissue from the voltage alone: their errors after every stage of cardiac/voltage_only.

    ./run python tests/benchmarks/voltage_only.py [SETTING ...]

Settings are those of the command line, such as `seed=1`, `times.stop=50` with `times.count=101`, or
`system.grid.shape=[128,128]` with `system.grid.extent=[12.8,12.8]`, which asks for a GPU. A line is printed when a stage begins
and at the end: chi2 of a value, the mean error of the ten, the error of each in per cent, and the rms errors of the fields at
the start. Stages that nudge the trajectory score chi2 with the nudge.
"""

import sys
import time
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np

import pdefit

NAMES = ("u_s", "u_so", "k_so", "tau_so1", "tau_si", "k_s", "u_u", "theta_v", "D", "tau_fi")


def main(settings: list[str]):
    """Prints the course of one fit."""
    experiment = pdefit.load_experiment("cardiac/voltage_only", settings)
    truth = experiment.truth
    assert truth is not None
    begun, told = time.monotonic(), set()

    def line(what: str, problem: pdefit.Problem, chi2: float):
        off = {n: float(getattr(problem.system, n) / getattr(truth.system, n)) - 1 for n in NAMES}
        fields = {n: np.asarray(getattr(problem.y0, n)) - np.asarray(getattr(truth.y0, n)) for n in "uvws"}
        numbers = " ".join(f"{n} {100 * x:+.2f}" for n, x in off.items())
        rms = " ".join(f"{n} {np.sqrt(np.mean(x**2)):.3f}" for n, x in fields.items())
        mean = 100 * np.mean(np.abs(list(off.values())))
        print(
            f"{what} {time.monotonic() - begun:.0f} s  chi2 {chi2:.4f}  mean {mean:.2f} %  {numbers}  {rms}", flush=True
        )

    def report(progress: Any):
        if progress.stage not in told:
            told.add(progress.stage)
            functional = experiment.functional
            line(
                f"stage {progress.stage}",
                functional.at(jnp.asarray(progress.theta)),
                2 * progress.loss / functional.observed_values,
            )

    fit = experiment.fit(callback=report)
    line("end", fit.problem, 2 * fit.loss / fit.functional.observed_values)
    print("converged" if fit.converged else "not converged", fit.iterations, fit.events)


if __name__ == "__main__":
    main(sys.argv[1:])
