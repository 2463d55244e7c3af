"""Intervals that `pdefit design` predicts at the truth, beside those of fits of twenty draws of noise.

    ./run python tests/benchmarks/design.py [NAME ...] [--draws 20] [--frame reaction/fisher_front]

Of every unknown it prints half the 95 % interval as a part of its size: predicted before any fit; the median of the fits; and
1.96 times the spread of the estimates over the draws. Of twenty draws the spread is known to 16 %. All draws of an experiment
with constant steps are fitted in one program, from the truth.

`--frame` names the experiment whose proposed frame is then made, and whose draws are fitted with it: the shrink factor of the
named interval, predicted and found.
"""

import argparse
import time

from pdefit.cli.runtime.environment import prepare

prepare()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from timing import one_core

import pdefit
from pdefit.cli.run.source import true_theta
from pdefit.inverse.objective.compiled import weighted

jax.config.update("jax_enable_x64", True)

# experiments, with what they need to have noise
CASES = {
    "reaction/fisher_front": [],
    "reaction/fisher_front_2d": [],
    "populations/lotka_volterra": [],
    "particles/cucker_smale": ["noise=0.01"],
    # with the step of its experiment the tangents are not finite at the truth
    "pathways/glycolysis": ["dt=0.002"],
    "pathways/robertson": [],
}
MAIN = pdefit.optimizers.LevenbergMarquardt()


def clean(J: pdefit.Functional, theta: jnp.ndarray) -> pdefit.Functional:
    """The functional with the model's own values as data."""
    residuals, data = weighted(J, theta), J.observations
    values = {n: x + data.sigma[n] * residuals[n][0] for n, x in data.values.items()}
    return eqx.tree_at(lambda f: f.observations.values, J, values)


def with_frame(J: pdefit.Functional, theta: jnp.ndarray, t: float) -> pdefit.Functional:
    """The functional with one more frame, seen as the nearest one is."""
    data, dt = J.observations, J.dt
    near = int(np.argmin(np.abs(data.ts - t)))
    ts = np.append(data.ts, t)
    if np.any(np.isclose(data.ts, t)):
        raise SystemExit("the frame is one of the record: fits would count it twice")
    order = np.argsort(ts)

    def more(x):
        return x if x.shape[0] == 1 else jnp.concatenate([x, x[near : near + 1]])[order]

    longer = pdefit.Observations(
        ts[order], *({n: more(x) for n, x in d.items()} for d in (data.values, data.mask, data.sigma))
    )
    layout = pdefit.formulations.Single().layout(longer.ts, dt)
    return clean(eqx.tree_at(lambda f: (f.observations, f.layout), J, (longer, layout)), theta)


def fits(
    J: pdefit.Functional, theta: jnp.ndarray, draws: int, further: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Half the intervals (draws, p) and the estimates (draws, p) of fits of some draws of noise.

    The noise of all frames but the `further` one is the same with it and without it.
    """
    rng, other, data, noisy = np.random.default_rng(0), np.random.default_rng(1), J.observations, {}
    for name, x in data.values.items():
        noise = rng.standard_normal((draws, len(x) - (further is not None), *x.shape[1:]))
        if further is not None:
            noise = np.insert(noise, further, other.standard_normal((draws, *x.shape[1:])), axis=1)
        noisy[name] = np.asarray(x) + np.asarray(data.sigma[name]) * noise
    J = eqx.tree_at(lambda f: f.problem, J, J.controls.problem(J.problem, theta))
    if J.steps is None:
        found = pdefit.fit_members(pdefit.Members.from_points(J, jnp.tile(theta, (draws, 1))).with_data(noisy), [MAIN])
        known = found.intervals(sigma_stated=True)
        return (known.high - known.low) / 2, known.estimate
    halves, estimates = [], []
    for e in range(draws):
        one = eqx.tree_at(lambda f: f.observations.values, J, {n: jnp.asarray(x[e]) for n, x in noisy.items()})
        fit = pdefit.fit(one, [MAIN])
        known = pdefit.intervals(fit.functional, fit.theta, sigma_stated=True)
        halves.append((known.high - known.low) / 2)
        estimates.append(known.estimate)
    return np.stack(halves), np.stack(estimates)


def study(name: str, draws: int, frame: bool) -> None:
    begun = time.process_time()
    exp = pdefit.load_experiment(name, CASES.get(name, []))
    theta = jnp.asarray(true_theta(exp.functional.controls, exp.true_value))
    J = clean(exp.first, theta)
    before = time.process_time()
    plan = pdefit.design(J, theta)
    of_design = time.process_time() - before
    predicted = (plan.high - plan.low) / 2
    halves, estimates = fits(J, theta, draws)
    size = np.where(plan.estimate == 0, 1.0, np.abs(plan.estimate))
    median, spread = np.median(halves, axis=0), 1.959964 * np.std(estimates, axis=0, ddof=1)
    worst = np.max(np.abs(median / predicted - 1))
    print(
        f"\n{name}: design {of_design:.0f} CPU s, all {time.process_time() - begun:.0f} CPU s; largest miss {worst:.1%}"
    )
    print("| unknown | predicted | median of fits | ratio | spread of estimates | ratio |\n|---|---|---|---|---|---|")
    for k, unknown in enumerate(plan.names):
        p, m, s = (float(x[k] / size[k]) for x in (predicted, median, spread))
        print(f"| {unknown} | {p:.3g} | {m:.3g} | {m / p:.3f} | {s:.3g} | {s / p:.2f} |", flush=True)
    if not frame:
        return
    frames = [c for c in plan.candidates if c.kind == "frame" and not c.is_second]
    best = min((c for c in frames if not np.any(np.isclose(plan.ts, c.time))), key=lambda c: c.half[plan.target])
    with_it, k = (
        fits(with_frame(J, theta, best.time), theta, draws, int(np.searchsorted(plan.ts, best.time))),
        plan.target,
    )
    found, spreads = np.median(with_it[0], axis=0) / median, np.std(with_it[1], axis=0) / np.std(estimates, axis=0)
    print(f"{best.words}: interval of {plan.names[k]} shrinks to {plan.shrink(best)[k]:.3f} predicted, {found[k]:.3f} found "
          f"by the medians, {spreads[k]:.3f} by the spreads")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--frame", default="reaction/fisher_front")
    options = parser.parse_args()
    one_core()
    for name in options.names or CASES:
        study(name, options.draws, name == options.frame)


if __name__ == "__main__":
    main()
