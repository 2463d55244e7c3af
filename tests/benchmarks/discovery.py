"""Rates at which the right formulas are found in the place of two unknown terms, over draws of the noise.

    ./run python tests/benchmarks/discovery.py CASE [--noise 0.001 0.005 0.01 0.025 0.05] [--draws 100] [--first 0] [--free]

x and y change by known linear terms and by an unknown one each, learned by networks and then written down by
`discover_each`: monomials up to the fifth degree, and sines. A draw counts as found where exactly the terms of the truth are
the best set. The noise is in parts of the mean size of each series. The start is held at the truth. With `--free` it is
unknown, its guess is the first frame, and that has noise, too.

A case is `oscillator`, `competition` or `epidemic`, on which the rule was fixed; `lotka_volterra`, the published one;
`two_terms`, which has two terms in one equation; or `none`, which has no unknown term. Beside it stands regression by the same
rule on derivatives of smoothing splines of the data.

Printed for each level: draws found by both; draws in which the data prefer another set of as many terms, which no rule
can find; draws in which the right set is among those that are not told apart; coefficients found, and seconds.

Source of the case: C. Rackauckas et al., arXiv:2001.04385, 2.3.1 and its supplement.
"""

import argparse
import time
from typing import ClassVar, NamedTuple

from pdefit.cli.runtime.environment import prepare

prepare()

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.interpolate import make_smoothing_spline

import pdefit
from pdefit.analysis.discovery.subsets import penalty, subsets

LIBRARY = pdefit.TermLibrary(degree=5, functions=("sin",))


class State(NamedTuple):
    """The state of a case: `x` and `y`."""

    x: Float[Array, ""]
    y: Float[Array, ""]


class Linear(pdefit.AbstractSystem):
    """x and y that change in proportion to themselves and each other.

    **Arguments:**

    - `rates`: row by row the matrix of (x, y).
    - `start`: the initial x and y.
    """

    time_unit: ClassVar[str] = "1"
    rates: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    start: tuple[float, float] = (1.0, 1.0)

    def vector_field(self, t, y, args):
        a, b, c, d = self.rates
        return State(a * y.x + b * y.y, c * y.x + d * y.y)

    def init(self, key):
        return State(*map(jnp.asarray, self.start))


class Case(NamedTuple):
    """A system: its known linear rates, its unknown terms, and the time over which it is seen, at 31 times."""

    rates: tuple[float, ...]
    start: tuple[float, float]
    truth: dict[str, dict[str, float]]
    stop: float


CASES = {
    "oscillator": Case((0.0, 1.0, -1.0, 0.5), (1.5, 0.0), {"x": {}, "y": {"x^2 * y": -0.5}}, 8.0),
    "competition": Case((1.0, 0.0, 0.0, 0.8), (0.3, 0.5), {"x": {"x^2": -1.0, "x * y": -0.6}, "y": {"y^2": -0.8}}, 8.0),
    "epidemic": Case((0.0, 0.0, 0.0, -1.0), (2.0, 0.05), {"x": {"x * y": -1.5}, "y": {"x * y": 1.5}}, 5.0),
    "lotka_volterra": Case(
        (1.3, 0.0, 0.0, -1.8), (0.44249296, 4.6280594), {"x": {"x * y": -0.9}, "y": {"x * y": 0.8}}, 3.0
    ),
    "two_terms": Case(
        (1.3, 0.0, 0.0, -1.8), (0.44249296, 4.6280594), {"x": {"x * y": -0.9, "x^2": -0.3}, "y": {"x * y": 0.8}}, 3.0
    ),
    "none": Case((0.0, 1.0, -1.0, -0.2), (1.5, 0.0), {"x": {}, "y": {}}, 5.0),
}


def main() -> None:
    """Prints a line for each level of noise."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--noise", type=float, nargs="*", default=[0.001, 0.005, 0.01, 0.025, 0.05])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--free", action="store_true")
    chosen = parser.parse_args()
    for level in chosen.noise:
        study(CASES[chosen.case], level, np.arange(chosen.first, chosen.first + chosen.draws), chosen.free)


def study(case: Case, level: float, seeds: np.ndarray, free: bool = False) -> None:
    """Prints what is found at one level of noise."""
    begun, cpu = time.monotonic(), time.process_time()
    known = Linear(rates=case.rates, start=case.start)
    ts, y0 = np.linspace(0.0, case.stop, 31), known.init(jax.random.key(0))
    terms = {
        f: pdefit.terms.Formula(" + ".join(f"({c}) * {e}" for e, c in own.items()), ("x", "y"))
        for f, own in case.truth.items()
        if own
    }
    clean = pdefit.simulate(pdefit.with_unknown(known, terms), y0, ts, dt=case.stop / 600)
    series = {f: np.asarray(x) for f, x in clean.values.items()}
    sigma = {f: level * float(np.abs(x).mean()) for f, x in series.items()}
    noisy = {
        f: np.stack([x + sigma[f] * np.random.default_rng([s, i]).normal(size=x.size) for s in seeds.tolist()])
        for i, (f, x) in enumerate(series.items())
    }
    # the first frame is the known start
    for f in () if free else noisy:
        noisy[f][:, 0] = series[f][0]
    data = pdefit.Observations.build(ts, {f: x[0] for f, x in noisy.items()}, sigma)
    sizes = tuple(float(np.abs(x).max()) for x in series.values())
    rates = {f: float(np.abs(np.diff(x)).mean() / (ts[1] - ts[0])) for f, x in series.items()}
    nets = {f: pdefit.terms.Network(("x", "y"), sizes, rates[f], width=5, seed=i) for i, f in enumerate(series)}
    prior = pdefit.Control(prior=pdefit.priors.Normal(0.0, 1.0))
    problem = pdefit.Problem(pdefit.with_unknown(known, nets), y0)
    unknown = {f"unknown_{f}": prior for f in nets} | (
        {"y0": dict.fromkeys(nets, pdefit.Control(guess=pdefit.guesses.FromData()))} if free else {}
    )
    J = pdefit.Functional(problem, data, unknown, dt=case.stop / 60)
    start = jnp.broadcast_to(jnp.asarray(J.theta0), (seeds.size, J.theta0.size))
    members = pdefit.Members.from_points(J, start).with_data({f: jnp.asarray(x) for f, x in noisy.items()})
    method = pdefit.optimizers.LevenbergMarquardt(max_step=0.5, tolerance=1e-3)
    stages = [
        pdefit.Stage(method, 40, pdefit.formulations.Segments(case.stop / 6)),
        pdefit.Stage(method, 40, pdefit.formulations.Single(until=case.stop / 2)),
        pdefit.Stage(method, 60),
    ]
    fits = pdefit.fit_members(members, stages)
    learned = time.monotonic()
    print(
        f"   networks: chi2 of a value {np.median(2 * fits.loss) / J.observed_values:.2f}, {learned - begun:.0f} s",
        flush=True,
    )
    found = pdefit.discover_each([(members.member(e), fits.theta[e]) for e in range(seeds.size)], LIBRARY)
    wanted = {(f"unknown_{f}", e) for f, own in case.truth.items() for e in own}
    sets = [[{(n, str(e)) for n, e in one.forms} for one in d.found] for d in found]
    right = np.array([s[:1] == [wanted] for s in sets])
    told = [
        next((one for one, s in zip(d.found, own, strict=True) if s == wanted), None)
        for d, own in zip(found, sets, strict=True)
    ]
    other = [
        one is not None
        and any(f.chi2 < one.chi2 for f, s in zip(d.found, own, strict=True) if len(s) == len(wanted) and s != wanted)
        for d, one, own in zip(found, told, sets, strict=True)
    ]
    close = [
        one is not None and one.criterion < min(f.criterion for f in d.found) + 6
        for d, one in zip(found, told, strict=True)
    ]
    values = {
        (n, str(e)): [
            t.coefficient
            for one, ok in zip(found, right, strict=True)
            if ok
            for t in one.best.terms[n]
            if str(t.expression) == e
        ]
        for n, e in sorted(wanted)
    }
    splines = sum(by_splines(ts, {f: x[e] for f, x in noisy.items()}, case) == wanted for e in range(seeds.size))
    print(
        f"noise {level:.2%}: found {right.sum()} of {seeds.size}; another set preferred by the data {sum(other)}, "
        f"right one among those not told apart {sum(close)}; splines of the data {splines}; "
        + ", ".join(f"{n[8:]}: {e} {np.mean(v):.4f} +- {np.std(v):.4f}" for (n, e), v in values.items() if v)
        + f"; {time.monotonic() - begun:.0f} s ({learned - begun:.0f} s networks), {time.process_time() - cpu:.0f} CPU s",
        flush=True,
    )
    # what is found goes on far beyond the record
    far = np.linspace(0.0, 50 / 3 * case.stop, 501)
    true, errors = _rollout(known, terms, far, case.stop), []
    for d, ok in zip(found, right, strict=True):
        if ok and len(errors) < 20:
            made = {n.removeprefix("unknown_"): f for n, f in d.formulas().items()}
            errors.append(
                np.sqrt(np.mean((_rollout(known, made, far, case.stop) - true) ** 2, axis=1)) / np.ptp(true, axis=1)
            )
    if errors:
        print(
            f"   to t = {far[-1]:.0f}: rms error of x and y in parts of their range {np.round(np.median(errors, axis=0), 4)}"
        )
    for own in [s[:1] for s, ok in zip(sets, right, strict=True) if not ok][:8]:
        print("   instead:", *map(sorted, own), flush=True)


def _rollout(known: Linear, terms: dict, ts: np.ndarray, stop: float) -> np.ndarray:
    """x and y at some times, by formulas in the place of the unknown terms."""
    seen = pdefit.simulate(pdefit.with_unknown(known, terms), known.init(jax.random.key(0)), ts, dt=stop / 200)
    return np.stack([np.asarray(seen.values[f]) for f in "xy"])


def by_splines(ts: np.ndarray, series: dict[str, np.ndarray], case: Case) -> set[tuple[str, str]]:
    """The terms that regression finds on derivatives of smoothing splines of the data."""
    smooth = {f: make_smoothing_spline(ts, x) for f, x in series.items()}
    at = {f: s(ts) for f, s in smooth.items()}
    candidates, chosen = LIBRARY.of("", ("x", "y")), set()
    columns = np.stack([np.broadcast_to(np.asarray(e(at)), ts.shape) for e in candidates], axis=1)
    for f, (a, b) in zip("xy", np.reshape(case.rates, (2, 2)), strict=True):
        rest = smooth[f].derivative()(ts) - a * at["x"] - b * at["y"]
        scores = {
            s: ts.size * np.log(max(rest @ rest - fall, 1e-12)) + penalty(len(s), len(candidates), ts.size)
            for s, fall in subsets(columns.T @ columns, columns.T @ rest, LIBRARY.most)
        }
        chosen |= {(f"unknown_{f}", str(candidates[k])) for k in min(scores, key=lambda s: scores[s])}
    return chosen


if __name__ == "__main__":
    main()
