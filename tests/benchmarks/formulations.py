"""Formulations from far guesses: how often, and how fast, each finds the numbers of three small systems.

    ./run python tests/benchmarks/formulations.py [NAME ...] [--ways "20 starts" ...] [--starts 50] [--noise 0.01]

The whole state is observed at 101 times, with noise of 1 % of its range: that of Lotka and Volterra and of FitzHugh and Nagumo
from 0 to 20, of three spheres of Lennard and Jones from 0 to 2. Every number starts ten times too large or too small, by
chance, and the initial state is free, from the first frame. A fit succeeds where its J is at most one above that of a fit from
the truth: no number is then farther from it than its error. Seconds are those of one process after programs are compiled, and
evaluations include the iterations of collocation. Spheres that are ten times too large overlap, with forces 13 decades too
large; those that are ten times too small never meet.
"""

import argparse
import time
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from pdefit.cli.runtime.environment import prepare

prepare()

import jax
import jax.numpy as jnp
import numpy as np
from pdefit_particles import LennardJones, State
from pdefit_populations import LotkaVolterra
from timing import one_core

import pdefit

jax.config.update("jax_enable_x64", True)

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


class Spheres(pdefit.AbstractSystem):
    """Three equal spheres of Lennard and Jones in a square box, by the depth and the distance of their attraction."""

    time_unit: ClassVar[str] = "1"
    epsilon: jax.Array = pdefit.parameter(positive=True)
    sigma: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        radius = self.sigma / 2 * jnp.ones(3)
        return LennardJones((2.5, 2.5), jnp.ones(3), radius, self.epsilon).vector_field(t, y, args)

    def init(self, key):
        place = jnp.asarray([[0.6, 0.7], [1.8, 0.6], [1.2, 1.8]])
        return State(place, jnp.asarray([[1.0, 0.3], [-0.8, 0.5], [0.1, -1.0]]))


class Case(NamedTuple):
    """A system with its true numbers, the end of its record, its step, and the length of a window."""

    system: Callable
    truth: dict[str, float]
    stop: float
    dt: float
    window: float


CASES = {
    "lotka_volterra": Case(LotkaVolterra, {"alpha": 0.7, "beta": 0.9, "gamma": 0.5, "delta": 0.6}, 20.0, 0.02, 1.0),
    "fitzhugh_nagumo": Case(FitzHughNagumo, {"a": 0.2, "b": 0.2, "c": 3.0}, 20.0, 0.02, 1.0),
    "lennard_jones": Case(Spheres, {"epsilon": 1.0, "sigma": 0.6}, 2.0, 0.0025, 0.2),
}
WAYS = ["single shooting", "automatic stages", "windows, then whole", "collocation, then whole", "20 starts"]


def functional(name: str, seed: int, noise: float, far: bool) -> pdefit.Functional:
    """A noisy record, and guesses at the truth or ten times off."""
    system, truth, stop, dt, _ = CASES[name]
    exact = system(**{n: jnp.asarray(v) for n, v in truth.items()})
    y0, rng = exact.init(None), np.random.default_rng(seed)
    clean = pdefit.simulate(exact, y0, np.linspace(0.0, stop, 101), dt=dt / 2)
    data = pdefit.add_noise(clean, noise, jax.random.key(seed))
    factors = 10.0 ** rng.choice([-1.0, 1.0], len(truth)) if far else np.ones(len(truth))
    start = {n: jnp.asarray(v * f) for (n, v), f in zip(truth.items(), factors, strict=True)}
    states = {n: pdefit.Control(guess=pdefit.guesses.FromData()) for n in y0._fields}
    return pdefit.Functional(
        pdefit.Problem(system(**start), y0), data, {**dict.fromkeys(truth, LOG), "y0": states}, dt=dt
    )


def stages(J: pdefit.Functional, window: float) -> dict[str, list]:
    """The stages of every way to fit; none of the starts."""
    single, whole = pdefit.optimizers.LevenbergMarquardt(), pdefit.formulations.Single()
    windows = pdefit.Stage(single, 25, pdefit.formulations.Segments(window))
    return {
        "single shooting": [single],
        "automatic stages": list(pdefit.choose_stages(J).stages),
        "windows, then whole": [windows, pdefit.Stage(single, formulation=whole)],
        "collocation, then whole": [pdefit.optimizers.Collocation(), single],
        "20 starts": [],
    }


def from_starts(J: pdefit.Functional) -> tuple[float, int]:
    """J at the best of twenty starts, and the evaluations of all."""
    found = pdefit.explore(J, pdefit.Starts(), [pdefit.optimizers.LevenbergMarquardt()])
    return float(found.loss.min()), int(found.evaluations.sum())


def study(name: str, ways: list[str], starts: int, noise: float) -> None:
    """Rows of the table of one system."""
    found: dict[str, list[tuple[bool, int, float]]] = {}
    for seed in range(-1, starts):
        # the first, which compiles, is left out
        J, counts = functional(name, max(seed, 0), noise, True), seed >= 0
        best = pdefit.fit(functional(name, max(seed, 0), noise, False), [pdefit.optimizers.LevenbergMarquardt()]).loss
        for method, each in stages(J, CASES[name].window).items():
            if method not in ways:
                continue
            begun = time.process_time()
            try:
                fit = pdefit.fit(J, each) if each else None
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
    parser.add_argument("systems", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--noise", type=float, default=0.01)
    options = parser.parse_args()
    one_core()
    print("| system | way | found | evaluations, median | CPU s, median | CPU s, all |\n|---|---|---|---|---|---|")
    for name in options.systems or CASES:
        study(name, options.ways, options.starts, options.noise)


if __name__ == "__main__":
    main()
