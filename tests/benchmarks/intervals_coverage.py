"""Coverage of 95 % intervals of four kinds, side by side, over many draws of noise.

    ./run python tests/benchmarks/intervals_coverage.py [NAME ...] [--draws 200] [--bootstraps 200] [--repetitions 200]
        [--no-sandwich] [--noise 0.02] [--every 1]

Systems are a Fisher front, the rates of Lotka and Volterra, and depth and distance of the attraction of three spheres of
Lennard and Jones, with known initial states. All draws of one system are fitted in one program, from the truth. Noise is 2 % of
the range, of every frame; more of it and fewer frames strain the matrix.

- `matrix`: the inverse of the Gauss-Newton matrix (`MemberFits.intervals`), sigma stated.
- `profile`: the truth lies within it if J with the number held at the truth, and all others refitted from the truth
  and from the fit, is at most 1.92 above the least. So no profile has to be followed (`pdefit.profiles`).
- `bootstrap`: `pdefit.bootstrap` of each of the first draws.
- `sandwich`: eight records from different starts with a quarter of the frames each, whose scores differ from record to record
  (`pdefit.intervals` of `pdefit.Recordings`), sigma not stated. It is that of clusters, so it needs several records.

Printed is, for each unknown number, how many intervals hold the truth, and their median half width in spreads of the estimates:
1.96 where they are right and normal, 2.36 for the sandwich of eight. Of 200 intervals that hold the truth with a probability of
95 %, 183 to 196 do so in 98 of 100 cases.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pdefit.cli.runtime.environment import prepare

prepare()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from formulations import Spheres
from pdefit_particles import State
from pdefit_populations import LotkaVolterra
from pdefit_reaction import FisherKPP
from timing import one_core

import pdefit

jax.config.update("jax_enable_x64", True)

LOG = pdefit.transforms.Log()
MAIN = pdefit.optimizers.LevenbergMarquardt()
RECORDS, FEWER = 8, 4
# half of the 95 % quantile of chi2 with one degree of freedom
RISE = 1.9207


def _front(k: int) -> FisherKPP:
    grid = pdefit.CartesianGrid(shape=(60,), extent=(30.0,), origin=(-10.0,))
    return FisherKPP(grid, D=jnp.asarray(1.0), r=jnp.asarray(1.0), front=-4.0 + 0.7 * k)


def _populations(k: int) -> LotkaVolterra:
    start = np.exp(np.random.default_rng(k).uniform(-1.0, 1.0, 2)) if k else np.ones(2)
    return LotkaVolterra(*map(jnp.asarray, (0.7, 0.9, 0.5, 0.6)), start=tuple(start))


def _spheres(k: int) -> Spheres:
    return Spheres(jnp.asarray(1.0), jnp.asarray(0.6))


def _thrown(system: Any, k: int) -> State:
    y0 = system.init(None)
    return y0._replace(velocity=jnp.asarray(np.random.default_rng(k).normal(size=(3, 2)))) if k else y0


class Case(NamedTuple):
    """The system of record k, its initial state, the unknown numbers, the times and the step."""

    system: Callable[[int], Any]
    start: Callable[[Any, int], Any]
    numbers: tuple[str, ...]
    ts: np.ndarray
    dt: float


def _init(system: Any, k: int) -> Any:
    return system.init(None)


CASES = {
    "front": Case(_front, _init, ("D", "r"), np.linspace(0.0, 5.0, 13), 0.04),
    "lotka_volterra": Case(_populations, _init, ("alpha", "beta", "gamma", "delta"), np.linspace(0.0, 20.0, 101), 0.1),
    "lennard_jones": Case(_spheres, _thrown, ("epsilon", "sigma"), np.linspace(0.0, 2.0, 101), 0.005),
}


def functional(case: Case, k: int, every: int, noise: float) -> pdefit.Functional:
    """The objective of record k at the truth, without noise, but with its sigma."""
    system = case.system(k)
    y0, ts = case.start(system, k), case.ts[::every]
    film = pdefit.simulate(system, y0, ts, dt=case.dt)
    sigma = pdefit.add_noise(film, noise, jax.random.key(0)).sigma
    data = pdefit.Observations.build(ts, film.values, sigma)
    return pdefit.Functional(pdefit.Problem(system, y0), data, dict.fromkeys(case.numbers, LOG), dt=case.dt)


def drawn(J: pdefit.Functional, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """The values of so many draws of noise."""
    seen = J.observations
    return {
        n: np.asarray(x) + np.asarray(seen.sigma[n]) * rng.standard_normal((count, *x.shape))
        for n, x in seen.values.items()
    }


def row(name: str, kind: str, case: Case, truth: np.ndarray, rows: list[tuple], seconds: float) -> None:
    """Print the coverage of intervals, each (estimate, low, high) in physical units."""
    estimate, low, high = (np.log(np.asarray(x)) for x in zip(*rows, strict=True))
    inside = np.sum((low <= truth[None]) & (truth[None] <= high), axis=0)
    wide = np.median((high - low) / 2, axis=0) / np.std(estimate, axis=0, ddof=1)
    each = ", ".join(f"{n} {k}" for n, k in zip(case.numbers, inside, strict=True))
    widths = ", ".join(f"{x:.2f}" for x in wide)
    print(f"| {name} | {kind} | {each} | {len(rows)} | {widths} | {seconds:.0f} |", flush=True)


def study(name: str, options: argparse.Namespace) -> None:
    """The rows of one system."""
    case, rng = CASES[name], np.random.default_rng(0)
    J = functional(case, 0, options.every, options.noise)
    truth, begun = np.asarray(J.theta0), time.process_time()
    values = drawn(J, rng, options.draws)
    start = jnp.tile(J.theta0, (options.draws, 1))
    found = pdefit.fit_members(pdefit.Members.from_points(J, start).with_data(values), [MAIN])
    known = found.intervals(sigma_stated=True)
    rows = [*zip(known.estimate, known.low, known.high, strict=True)]
    row(name, "matrix", case, truth, rows, time.process_time() - begun)

    begun, inside = time.process_time(), []
    for k, number in enumerate(case.numbers):
        starts, held = (start, jnp.asarray(found.theta).at[:, k].set(truth[k])), np.full(options.draws, k)
        members = [
            pdefit.Members.from_points(J, x).with_data(values).holding(np.reshape(held, (-1, 1))) for x in starts
        ]
        least = np.min([pdefit.fit_members(each, [MAIN]).loss for each in members], axis=0)
        inside.append(f"{number} {np.sum(least - found.loss <= RISE)}")
    print(
        f"| {name} | profile | {', '.join(inside)} | {options.draws} | | {time.process_time() - begun:.0f} |",
        flush=True,
    )

    rows, begun, repetitions = [], time.process_time(), pdefit.Bootstrap(options.repetitions)
    for e in range(min(options.bootstraps, options.draws)):
        made = pdefit.bootstrap(found.members.member(e), jnp.asarray(found.theta[e]), repetitions, seed=e)
        rows.append((known.estimate[e], made.low, made.high))
    if rows:
        row(name, f"bootstrap of {options.repetitions}", case, truth, rows, time.process_time() - begun)

    if options.no_sandwich:
        return
    rows, begun = [], time.process_time()
    each = [functional(case, k, FEWER * options.every, options.noise) for k in range(RECORDS)]
    noisy = [drawn(one, rng, options.draws) for one in each]
    for e in range(options.draws):
        parts = [
            eqx.tree_at(lambda f: f.observations.values, one, {n: jnp.asarray(x[e]) for n, x in made.items()})
            for one, made in zip(each, noisy, strict=True)
        ]
        fit = pdefit.fit(pdefit.Recordings(parts), [MAIN])
        sandwich = pdefit.intervals(fit.functional, fit.theta)
        rows.append((sandwich.estimate, sandwich.low, sandwich.high))
    row(name, f"sandwich of {RECORDS} records", case, truth, rows, time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--bootstraps", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--no-sandwich", action="store_true")
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    one_core()
    print("| system | intervals | hold the truth | of | half width in spreads | CPU s |\n|---|---|---|---|---|---|")
    for name in options.names or CASES:
        study(name, options)


if __name__ == "__main__":
    main()
