"""Five hundred systems of Lotka and Volterra at five levels of noise, beside the bound of Cramer and Rao.

    ./run python tests/benchmarks/members.py [--systems 500] [--levels 0 0.01 0.05 0.1 0.2]
    ./run python tests/benchmarks/members.py --cost 1 10 100 1000 2000

Those that end in no minimum, or in one that noise cannot explain, have other starts, timed by themselves. For each level it
prints the seconds of the fits after compilation, the mean error of the four rates and of the two surplus terms, the median over
systems of (error / bound), the share of systems with a mean error below 0.1, how many converged, and how often the interval of
a surplus term holds 0. Sigma is `level` times the exact value.

`--cost` prints the seconds of a member for some numbers of members, beside those of fits one by one, and the most memory that
the process has held so far: members that wait cost their data only.
"""

import argparse
import sys
import time
from pathlib import Path

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_populations import LotkaVolterra

import pdefit
from pdefit.cli.runtime.memory_meter import peak

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from make_populations import FRAMES, STOP, orbit  # noqa: E402

jax.config.update("jax_enable_x64", True)
LOG = pdefit.transforms.Log()
UNKNOWN = {name: LOG for name in ("alpha", "beta", "gamma", "delta")} | {
    "c1": pdefit.Control(scale=0.1), "c2": pdefit.Control(scale=0.1), "y0": {"prey": LOG, "predator": LOG},
}  # fmt: skip
# of the rates of those that end in no minimum
STARTS = pdefit.Starts(count=17, factor=4.0)
NEAR = pdefit.optimizers.LevenbergMarquardt(max_step=0.5, tolerance=1e-3)
STAGES = [
    pdefit.Stage(NEAR, 25, pdefit.formulations.Segments(2.0)),
    pdefit.Stage(NEAR, 30, pdefit.formulations.Single(until=20.0)),
    pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(max_step=0.5), 60, pdefit.formulations.Single()),
]


def functional(t, values, sigma, rates, start, solver=None, dt=0.1):
    """The objective of one system, from the same rates and the first frame, or from given ones."""
    data = pdefit.Observations.build(t, dict(zip(("prey", "predator"), values, strict=True)),
                                     dict(zip(("prey", "predator"), sigma, strict=True)))  # fmt: skip
    system = LotkaVolterra(*map(jnp.asarray, rates), start=tuple(start))
    return pdefit.Functional(pdefit.Problem(system, system.init(None)), data, UNKNOWN, dt=dt, solver=solver)


def costs(counts):
    """The seconds of a member, and the memory of the process, for some numbers of members."""
    random, t = np.random.default_rng(1), np.linspace(0.0, STOP, FRAMES)
    exact = [orbit(t, row[:4], row[4:]) for row in random.uniform(0.1, 1.0, (50, 6))]
    objectives = []
    for e in range(max(counts)):
        one = exact[e % 50]
        values = one * (1 + 0.05 * random.standard_normal(one.shape))
        objectives.append(functional(t, values, 0.05 * one, [0.4] * 4, np.maximum(values[:, 0], 1e-3)))
    pdefit.fit(objectives[0], STAGES)
    begin = time.perf_counter()
    for one in objectives[:10]:
        pdefit.fit(one, STAGES)
    print(f"one by one: {(time.perf_counter() - begin) / 10:.3f} s a fit, {peak() / 2**20:.0f} MB")
    for count in counts:
        members = pdefit.Members.of(objectives[:count])
        pdefit.fit_members(members, [pdefit.Stage(s.optimizer, 1, s.formulation) for s in STAGES])
        begin = time.perf_counter()
        found = pdefit.fit_members(members, STAGES)
        seconds = time.perf_counter() - begin
        print(
            f"{count:5d} members: {seconds / count:.3f} s each, {found.evaluations.mean():.1f} evaluations, "
            f"{peak() / 2**20:.0f} MB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=500)
    parser.add_argument("--levels", type=float, nargs="+", default=[0.0, 0.01, 0.05, 0.1, 0.2])
    parser.add_argument("--cost", type=int, nargs="+")
    given = parser.parse_args()
    if given.cost:
        return costs(given.cost)
    of_systems, of_noise = map(np.random.default_rng, np.random.SeedSequence(0).spawn(2))
    truth, t = of_systems.uniform(0.1, 1.0, (given.systems, 6)), np.linspace(0.0, STOP, FRAMES)
    exact = np.stack([orbit(t, row[:4], row[4:]) for row in truth])
    print("level  seconds  |rates|   |c|      error/bound  below .1  converged  c holds 0  evaluations")
    for level in given.levels:
        sigma = (level or 1e-3) * exact
        values = exact * (1 + level * of_noise.standard_normal(exact.shape))
        first = [np.maximum(v[:, 0], 1e-3) for v in values]
        # without noise the error of a step is what is seen
        method = (None, 0.1) if level else (diffrax.Dopri8(), 0.2)
        objectives = [functional(t, v, s, [0.4] * 4, f, *method) for v, s, f in zip(values, sigma, first, strict=True)]
        members = pdefit.Members.of(objectives)
        pdefit.fit_members(members, [pdefit.Stage(s.optimizer, 1, s.formulation) for s in STAGES])
        begin = time.perf_counter()
        found = pdefit.fit_members(members, STAGES)
        seconds = time.perf_counter() - begin
        ratio = found.chi2 / found.observed_values
        stuck = np.flatnonzero((ratio > 1.3) | ~found.converged) if level else np.flatnonzero(ratio > 1e-6)
        found = pdefit.fit_members_again(members, found, stuck, STARTS, STAGES)
        again = time.perf_counter() - begin - seconds
        at = np.concatenate([np.log(truth[:, :4]), np.zeros((given.systems, 2)), np.log(truth[:, 4:])], axis=1)
        matrix = members.each(lambda f, x: f.normal_equations(x)[2], jnp.asarray(at))
        bound = np.sqrt(np.diagonal(np.linalg.inv(np.asarray(matrix)), axis1=1, axis2=2))[:, :4] * truth[:, :4]
        error = np.abs(np.exp(found.theta[:, :4]) - truth[:, :4])
        spans = found.intervals(sigma_stated=bool(level))
        holds = np.mean((spans.low[:, 4:6] <= 0) & (spans.high[:, 4:6] >= 0), axis=1)
        # the mean of |x| of a normal deviate is sqrt(2 / pi) of its standard deviation
        ratio = np.median(error.mean(axis=1) / (np.sqrt(2 / np.pi) * bound.mean(axis=1))) if level else np.nan
        print(
            f"{level:5.2f} {seconds:8.1f} {error.mean():9.2e} {np.abs(spans.estimate[:, 4:6]).mean():9.2e} {ratio:9.2f} "
            f"{np.mean(error.mean(axis=1) < 0.1):11.1%} {found.converged.mean():9.1%} {holds.mean():9.1%} "
            f"{found.evaluations.mean():9.1f}   (bound {bound.mean():.4f}; worst error {error.mean(axis=1).max():.1e}; "
            f"{np.mean(error.mean(axis=1) < 1e-6):.1%} below 1e-6; {stuck.size} had other starts, {again:.1f} s with "
            f"compilation, and {(found.start > 0).sum()} ended there)",
            flush=True,
        )
        wrong = error.mean(axis=1) > (0.1 if level else 1e-6)
        for e in np.flatnonzero(wrong | (~found.converged if level else False)):
            word = "converged" if found.converged[e] else "not converged"
            print(
                f"      system {e}: {word}, error {error[e].mean():.2g}, bound {bound[e].mean():.2g}, J {found.loss[e]:.4g}"
            )


if __name__ == "__main__":
    main()
