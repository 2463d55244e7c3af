"""Formulations from far guesses: how often, and how fast, each finds the numbers of two small systems.

    ./run python tests/benchmarks/formulations.py [lotka_volterra] [fitzhugh_nagumo] [--starts 50] [--noise 0.01]

Both states are observed at 101 times from 0 to 20, with noise of 1 % of their range. Every number starts ten times too large
or too small, by chance, and the initial state is free, from the first frame. A fit succeeds where its J is at most one above
that of a fit from the truth: no number is then farther from it than its error. Seconds are those of one process after
programs are compiled, and evaluations include the iterations of collocation.
"""

import argparse
import time
from typing import ClassVar, NamedTuple

from pdefit.cli.runtime.environment import prepare

prepare()

import jax
import jax.numpy as jnp
import numpy as np
from pdefit_populations import LotkaVolterra

import pdefit

jax.config.update("jax_enable_x64", True)

TS = np.linspace(0.0, 20.0, 101)
DT = 0.02
LOG = pdefit.transforms.Log()


class Neuron(NamedTuple):
    voltage: jax.Array
    recovery: jax.Array


class FitzHughNagumo(pdefit.AbstractSystem):
    """v' = c (v - v^3 / 3 + w), w' = -(v - a + b w) / c from (-1, 1)."""

    time_unit: ClassVar[str] = "1"
    a: jax.Array = pdefit.parameter(positive=True)
    b: jax.Array = pdefit.parameter(positive=True)
    c: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        v, w = y
        return Neuron(self.c * (v - v**3 / 3 + w), -(v - self.a + self.b * w) / self.c)

    def init(self, key):
        return Neuron(jnp.asarray(-1.0), jnp.asarray(1.0))


# the class of each system, and its true numbers
SYSTEMS = {
    "lotka_volterra": (LotkaVolterra, {"alpha": 0.7, "beta": 0.9, "gamma": 0.5, "delta": 0.6}),
    "fitzhugh_nagumo": (FitzHughNagumo, {"a": 0.2, "b": 0.2, "c": 3.0}),
}


def functional(name: str, seed: int, noise: float, far: bool) -> pdefit.Functional:
    """A noisy record, and guesses at the truth or ten times off."""
    system, truth = SYSTEMS[name]
    exact = system(**{n: jnp.asarray(v) for n, v in truth.items()})
    y0, rng = exact.init(None), np.random.default_rng(seed)
    data = pdefit.add_noise(pdefit.simulate(exact, y0, TS, dt=DT / 2), noise, jax.random.key(seed))
    factors = 10.0 ** rng.choice([-1.0, 1.0], len(truth)) if far else np.ones(len(truth))
    start = {n: jnp.asarray(v * f) for (n, v), f in zip(truth.items(), factors, strict=True)}
    states = {n: pdefit.Control(guess=pdefit.guesses.FromData()) for n in y0._fields}
    return pdefit.Functional(
        pdefit.Problem(system(**start), y0), data, {**dict.fromkeys(truth, LOG), "y0": states}, dt=DT
    )


def stages(J: pdefit.Functional) -> dict[str, list]:
    """The stages of every way to fit."""
    single, whole = pdefit.optimizers.LevenbergMarquardt(), pdefit.formulations.Single()
    windows = pdefit.Stage(single, 25, pdefit.formulations.Segments(1.0))
    return {
        "single shooting": [single],
        "automatic stages": list(pdefit.choose_stages(J).stages),
        "windows, then whole": [windows, pdefit.Stage(single, formulation=whole)],
        "collocation, then whole": [pdefit.optimizers.Collocation(), single],
    }


def from_starts(J: pdefit.Functional) -> tuple[float, int]:
    """J at the best of twenty starts, and the evaluations of all."""
    found = pdefit.explore(J, pdefit.Starts(), [pdefit.optimizers.LevenbergMarquardt()])
    return float(found.loss.min()), int(found.evaluations.sum())


def study(name: str, starts: int, noise: float) -> None:
    """Rows of the table of one system."""
    found: dict[str, list[tuple[bool, int, float]]] = {}
    for seed in range(-1, starts):
        # the first, which compiles, is left out
        J, counts = functional(name, max(seed, 0), noise, True), seed >= 0
        best = pdefit.fit(functional(name, max(seed, 0), noise, False), [pdefit.optimizers.LevenbergMarquardt()]).loss
        for method, each in (*stages(J).items(), ("20 starts", None)):
            begun = time.process_time()
            try:
                fit = None if each is None else pdefit.fit(J, each)
                loss, evaluations = from_starts(J) if fit is None else (fit.loss, fit.iterations)
                row = bool(loss <= best + 1.0), evaluations, time.process_time() - begun
            except pdefit.PdefitError:
                row = False, 0, time.process_time() - begun
            if counts:
                found.setdefault(method, []).append(row)
    for method, rows in found.items():
        good, evaluations, seconds = (np.asarray(column) for column in zip(*rows, strict=True))
        numbers = (
            f"{good.sum()} of {starts} | {np.median(evaluations):.0f} | {np.median(seconds):.2f} | {seconds.sum():.0f}"
        )
        print(f"| {name} | {method} | {numbers} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("systems", nargs="*", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--noise", type=float, default=0.01)
    options = parser.parse_args()
    print("| system | way | found | evaluations, median | CPU s, median | CPU s, all |\n|---|---|---|---|---|---|")
    for name in options.systems or SYSTEMS:
        study(name, options.starts, options.noise)


if __name__ == "__main__":
    main()
