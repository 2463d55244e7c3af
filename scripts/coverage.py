"""Coverage of 95 % intervals, and verdicts on right models, over many realisations of noise.

    ./run python scripts/coverage.py [NAME ...] [--seeds 200] [--noise 0.02] [--independent] [--sigma-unstated] [--out FILE]

Prints for every unknown number how many intervals hold the truth, the root mean square of z (the error in standard errors)
and its mean, and the spread of the estimates over the median standard error. Counts the verdicts by `pdefit.judge`. Data
are made with the step and the grid of the model, or independently: with a step five times and cells three times finer. Only
arrays change from seed to seed, so programs are compiled once; the script says if any was compiled later.
"""

import argparse
import collections
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_classics import KortewegDeVries
from pdefit_reaction import FisherKPP
from situations_equations import Convection, Nerve

import pdefit
from pdefit.analysis.goodness.verdict import FITTED
from pdefit.cli.runtime.environment import prepare

# finer cells and steps of independent data
CELLS, STEPS = 3, 5
# chi2 per value beyond which a minimum is a wrong one, as of Lorenz's equations
WRONG = 3.0
LOG = pdefit.transforms.Log()


@dataclasses.dataclass(frozen=True)
class Case:
    """A problem of which only the noise and the guess change.

    **Arguments:**

    - `system`: the true system, from a factor by which its grid is finer.
    - `ts`, `dt`: the times, and the step of the model.
    - `unknown`: the controls; numbers start from a random factor of the truth.
    - `observe`, `solver`, `options`: of the problem, the method, and other options of the functional.
    - `first`: variables whose initial state starts from the first frame.
    """

    system: Callable[[int], Any]
    ts: np.ndarray
    dt: float
    unknown: dict[str, Any]
    observe: Any = pdefit.instruments.ObserveAll()  # noqa: RUF009
    solver: Any = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    first: tuple[str, ...] = ()

    @property
    def numbers(self) -> list[str]:
        """The names of the unknown numbers of the system."""
        return [name for name in self.unknown if name != "y0"]

    def film(self, independent: bool) -> pdefit.Observations:
        """What is observed without noise, with the numerics of the model or with finer ones."""
        finer = CELLS if independent else 1
        coarse, fine = self.system(1), self.system(finer)
        dt = self.dt / (STEPS if independent else 1)
        states = pdefit.simulate(fine, fine.init(None), self.ts, dt=dt, solver=self.solver).values
        start = coarse.init(None)
        film = type(start)(**{name: jnp.asarray(states[name]) for name in start._fields})
        if finer > 1 and hasattr(coarse, "coarsen"):
            film = jax.vmap(lambda y: fine.coarsen(y, finer))(film)
        observe = self.observe.on(coarse)
        return pdefit.Observations.build(self.ts, jax.vmap(lambda y: observe(0.0, y, None))(film))

    def functional(self, film: pdefit.Observations) -> pdefit.Functional:
        """The objective, with the truth as its guess."""
        system = self.system(1)
        problem = pdefit.Problem(system, system.init(None), self.observe)
        return pdefit.Functional(problem, film, self.unknown, dt=self.dt, solver=self.solver, **self.options)

    def drawn(self, base: pdefit.Functional, film: pdefit.Observations, noise: float, seed: int) -> pdefit.Functional:
        """The objective with noise and guesses of a seed."""
        rng = np.random.default_rng(seed)
        noisy = pdefit.add_noise(film, noise, jax.random.key(seed))
        values = {name: jnp.asarray(value) for name, value in noisy.values.items()}
        base = eqx.tree_at(lambda f: f.observations.values, base, values)
        for name in self.numbers:
            at = lambda f, name=name: getattr(f.problem.system, name)  # noqa: E731
            base = eqx.tree_at(at, base, at(base) * np.exp(rng.uniform(-0.15, 0.15)))
        for name in self.first:
            base = eqx.tree_at(lambda f, name=name: getattr(f.problem.y0, name), base, values[name][0])
        return base


def _front(finer: int) -> FisherKPP:
    grid = pdefit.CartesianGrid(shape=(60 * finer,), extent=(30.0,), origin=(-10.0,))
    return FisherKPP(grid, D=jnp.asarray(1.0), r=jnp.asarray(1.0), front=-4.0)


def _kdv(finer: int) -> KortewegDeVries:
    grid = pdefit.FourierGrid((64 * finer,), (2.0,), (-1.0,))
    return KortewegDeVries(grid, advection=jnp.asarray(1.0), dispersion=jnp.asarray(0.0025), speed=0.3)


def _nerve(finer: int) -> Nerve:
    grid = pdefit.CartesianGrid(shape=(48 * finer,), extent=(48.0,))
    return Nerve(grid, eps=jnp.asarray(0.08), beta=jnp.asarray(0.7))


CASES: dict[str, Case] = {
    "front": Case(_front, np.linspace(0.0, 5.0, 13), 0.04, {"D": LOG, "r": LOG}),
    "front_60": Case(
        _front, np.linspace(0.0, 5.0, 5), 0.04, {"D": LOG, "r": LOG}, pdefit.instruments.Subsample((5,))
    ),
    "kdv": Case(
        _kdv, np.linspace(0.0, 1.0, 21), 0.01, {"advection": LOG, "dispersion": LOG}, solver=pdefit.solvers.ETDRK4()
    ),
    "hidden": Case(
        _nerve, np.linspace(0.0, 24.0, 25), 0.2,
        {
            "eps": LOG, "beta": LOG,
            "y0": {"v": pdefit.transforms.Identity(), "w": pdefit.Control(prior=pdefit.priors.Normal(-0.6, 0.5))},
        },
        pdefit.instruments.Select("v"),
        options={"regularizers": (pdefit.regularizers.H1("y0.w", weight=48 / 0.05**2),)}, first=("v",),
    ),
    "lorenz": Case(
        lambda finer: Convection(*map(jnp.asarray, (10.0, 28.0, 8 / 3, 0.0))), np.linspace(0.0, 2.0, 41), 0.01,
        {"sigma": LOG, "rho": LOG, "beta": LOG},
    ),
    "lorenz_initial": Case(
        lambda finer: Convection(*map(jnp.asarray, (10.0, 28.0, 8 / 3, 0.0))), np.linspace(0.0, 2.0, 41), 0.01,
        {"sigma": LOG, "rho": LOG, "beta": LOG, "y0": dict.fromkeys("xyz", pdefit.transforms.Identity())},
        first=("x", "y", "z"),
    ),
}  # fmt: skip


def study(name: str, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Fit all realisations of a case; prints a line for each number."""
    begin, film, stated = time.perf_counter(), case.film(options.independent), not options.sigma_unstated
    base = case.functional(pdefit.add_noise(film, options.noise, jax.random.key(0)))
    truth = np.asarray(base.theta0)
    single = np.concatenate([np.full(c.size, c.size == 1) for c in base.controls.items])
    few = np.flatnonzero(single).tolist()
    z, inside, errors, gaps, chi2 = [], [], [], [], []
    words, of_wrong, late = collections.Counter[str](), collections.Counter[str](), []
    for seed in range(options.seeds):
        compiled = len(_COMPILED)
        found = pdefit.fit(case.drawn(base, film, options.noise, seed))
        assessed = pdefit.judge(found, sigma_known=stated, sigma_stated=stated, with_intervals=True)
        known, verdict, size = assessed.intervals, assessed.verdict, assessed.chi2_per_value
        assert known is not None
        if len(_COMPILED) > compiled and seed:
            late.append(seed)
        if size > WRONG:
            of_wrong[verdict.word] += 1
            continue
        words[verdict.word] += 1
        if verdict.word != FITTED:
            print(f"    seed {seed}: {verdict}", flush=True)
        gap = known.at_points(np.asarray(found.theta) - truth)
        z.append((gap / known.error)[few])
        inside.append((np.abs(gap) <= known.reach)[few])
        errors.append(known.error[few])
        gaps.append(gap[few])
        chi2.append(size)
    columns = {}
    count = len(z)
    for k, at in enumerate(few):
        label, column = base.controls.names()[at], np.asarray(z)[:, k]
        row = {
            "inside": int(np.sum(np.asarray(inside)[:, k])), "of": count, "rms_z": float(np.sqrt(np.mean(column**2))),
            "mean_z": float(np.mean(column)),
            "spread": float(np.std(np.asarray(gaps)[:, k], ddof=1) / np.median(np.asarray(errors)[:, k])),
        }  # fmt: skip
        columns[label] = row
        print(
            f"{name:15s} {label:10s} {row['inside']:3d} of {count} inside, rms z {row['rms_z']:.3f}, mean z "
            f"{row['mean_z']:+.3f} +- {1 / np.sqrt(count):.3f}, spread / error {row['spread']:.3f}"
        )
    seconds = time.perf_counter() - begin
    print(
        f"{name:15s} {dict(words)}, of wrong minima {dict(of_wrong)}, chi2 {np.mean(chi2):.4f}, {seconds:.0f} s"
        f"{f', compiled again at seeds {late}' if late else ''}",
        flush=True,
    )
    return {"columns": columns, "words": dict(words), "of_wrong_minima": dict(of_wrong)}


_COMPILED: list[float] = []


def _compiled(event: str, duration_secs: float, **_: Any) -> None:
    if event.endswith("backend_compile_duration"):
        _COMPILED.append(duration_secs)


def main() -> None:
    """Measure the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--noise", type=float, default=0.02, help="as a part of the range")
    parser.add_argument("--independent", action="store_true")
    parser.add_argument("--sigma-unstated", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if unknown := set(options.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    prepare()
    jax.monitoring.register_event_duration_secs_listener(_compiled)
    table = {name: study(name, CASES[name], options) for name in options.names or CASES}
    columns = [column for one in table.values() for column in one["columns"].values()]
    inside, of = sum(c["inside"] for c in columns), sum(c["of"] for c in columns)
    print(
        f"pooled: {inside} of {of}, {inside / of:.2%}; rms z {np.sqrt(np.mean([c['rms_z'] ** 2 for c in columns])):.3f}"
    )
    if options.out is not None:
        options.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
