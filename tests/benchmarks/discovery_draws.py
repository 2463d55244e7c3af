"""Formulas found in many draws of noise: how often the form is right, and how far off its constants are.

    ./run python tests/benchmarks/discovery_draws.py [CASE ...] [--draws 20] [--noise 0.01] [--degree 3] [--seconds 1200]

A case is an experiment with unknown terms, and a script that writes its table for a seed. Every draw is learned by the stages
of the experiment; then `pdefit.discover` chooses and fits formulas. Printed are the formulas of each draw, and at the end
the share of draws with the right form alone, and the error of each constant in per cent and in standard errors.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from pdefit.cli.runtime.environment import prepare

prepare()

import jax
import numpy as np

import pdefit

ROOT = Path(__file__).parents[2]


class Case(NamedTuple):
    """An experiment, the script of its table, the right terms, and other unknown numbers."""

    experiment: str
    script: str
    form: dict[str, dict[str, float]]
    numbers: dict[str, float]


CASES = {
    "lotka_volterra_sparse": Case(
        "populations/lotka_volterra_sparse",
        "make_sparse_predators.py",
        {"unknown_prey": {"prey * predator": -0.9}, "unknown_predator": {"prey * predator": 0.8}},
        {"gamma": 1.8},
    )
}


def one(case: Case, table: Path, degree: int) -> tuple[bool, dict[str, tuple[float, float]]]:
    """A test for the right form, and the error of every constant, in per cent and in standard errors."""
    begun = time.process_time()
    exp = pdefit.load_experiment(case.experiment, [f"data.path={table}"])
    fit = pdefit.fit(exp.functional, exp.stages)
    found = pdefit.discover(fit.functional, fit.theta, pdefit.TermLibrary(degree), sigma_stated=exp.sigma_stated)
    terms = {n: {str(t.expression): (t.coefficient, t.error) for t in own} for n, own in found.best.terms.items()}
    right = all({*terms[n]} == {*form} for n, form in case.form.items())
    print(
        f"  {table.stem}: {found.best}  chi2 {found.best.chi2:.1f} of {found.values}  learned {2 * float(fit.loss):.1f}  "
        f"rivals {len(found.rivals)}  {time.process_time() - begun:.0f} CPU s",
        flush=True,
    )
    errors = {}
    if right:
        for n, form in case.form.items():
            for text, true in form.items():
                x, s = terms[n][text]
                errors[f"{n}: {text}"] = (100 * (x / true - 1), (x - true) / s)
        system = found.functional.at(found.best.theta).system
        errors |= {n: (100 * (float(getattr(system, n)) / true - 1), np.nan) for n, true in case.numbers.items()}
    return right, errors


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1200.0)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in asked.names or CASES:
        case, begun, right, rows = CASES[name], time.process_time(), [], []
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(asked.draws):
                if time.process_time() - begun > asked.seconds:
                    break
                table = Path(folder) / f"draw_{seed}.csv"
                command = [sys.executable, str(ROOT / "scripts" / case.script), str(table)]
                subprocess.run([*command, "--noise", str(asked.noise), "--seed", str(seed)], check=True)
                try:
                    is_right, errors = one(case, table, asked.degree)
                except pdefit.PdefitError as error:
                    print(f"  {table.stem}: {str(error)[:120]}", flush=True)
                    is_right, errors = False, {}
                right.append(is_right)
                rows += [errors] if is_right else []
        print(f"{name}: right form in {sum(right)} of {len(right)} draws, {time.process_time() - begun:.0f} CPU s")
        for n in rows[0] if rows else ():
            off, z = np.abs(np.array([row[n] for row in rows])).T
            print(
                f"  {n}: median error {np.median(off):.3f} %, worst {off.max():.3f} %, rms z {np.sqrt(np.mean(z**2)):.2f}"
            )


if __name__ == "__main__":
    main()
