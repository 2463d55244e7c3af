"""Errors of the experiments of planar flow over seeds, beside those of their guesses.

    ./run python tests/benchmarks/flow.py temperature [twin=independent twin.refine=1.5 ...]
    ./run python tests/benchmarks/flow.py temperature/noisy
    RANKS=120,240,480 ./run python tests/benchmarks/flow.py coverage/noisy [controls.y0.T.smoothing.amplitude=auto ...]
    ./run python tests/benchmarks/flow.py ra_pr noise=0.01
    ./run python tests/benchmarks/flow.py kolmogorov

Every line is one seed (SEEDS=0,1,2), fitted by the stages of the experiment. Errors are relative root mean squares in %.
Of the temperature they are those of its deviation from conduction: in total, of its mean along x, and of the rest, at the
end of the window and after 2 and 3 Lyapunov times, fitted and for the guess run freely from the velocity at the start. Below
is the mean absolute error in differences between the plates, at the end of the window and after 2, 3, 5 and 7 Lyapunov times as
far as the forecast goes (`'times.forecast={stop: 39.9, count: 76}'`).

`coverage` has for every unknown field how many in 100 true values lie inside their intervals of 95 %, of the field and of what
differs from its mean along x, with the error and the standard deviation.
"""

import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from pdefit_flow import vorticity
from scipy.interpolate import CubicSpline

import pdefit

jax.config.update("jax_enable_x64", True)

# Lyapunov times in free-fall times, from the Rayleigh number
LYAPUNOV = {1e6: 11.6, 1e7: 5.7}


def percent(x):
    return " ".join(f"{100 * v:6.2f}" for v in np.ravel(x))


def norm(x):
    return np.sqrt(np.sum(np.square(np.asarray(x, float)), axis=(-2, -1)))


def fitted(name, overrides, seed):
    exp = pdefit.load_experiment(name, [*overrides, f"seed={seed}"])
    begin = time.perf_counter()
    found = exp.fit()
    return exp, found, time.perf_counter() - begin


def temperature(name, overrides, seed):
    exp, found, seconds = fitted(f"flow/temperature_from_velocity{name}", overrides, seed)
    functional, ts, true = exp.functional, exp.source.record.ts, np.asarray(exp.source.true_states.T, float)
    tau = LYAPUNOV[float(functional.problem.system.rayleigh)]
    at = [exp.fitted - 1, *(int(np.argmin(abs(ts - k * tau))) for k in (2, 3))]
    later = at + [int(np.argmin(abs(ts - k * tau))) for k in (5, 7) if k * tau <= ts[-1]]
    rows, absolute = [], []
    for problem in (found.problem, functional.at(functional.theta0)):
        numerics = functional.numerics(problem)._asdict()
        run = pdefit.solve(problem.system, problem.y0, ts, t0=float(ts[0]), **numerics)
        wrong, mean = np.asarray(run.T, float) - true, true.mean(axis=1, keepdims=True)
        off = wrong.mean(axis=1, keepdims=True)
        parts = [norm(wrong) / norm(true), norm(off) / norm(mean), norm(wrong - off) / norm(true - mean)]
        rows.append(np.stack(parts)[:, at])
        absolute.append(np.abs(wrong).mean(axis=(1, 2))[later])
    for part, fit, guess in zip(("total", "mean", "rest"), *rows, strict=True):
        print(f"seed {seed} {part:6s} fitted {percent(fit)}   guess {percent(guess)}")
    shown = (" ".join(f"{x:.4f}" for x in one) for one in absolute)
    print(f"seed {seed} mean |error| fitted {next(shown)}   guess {next(shown)}", flush=True)
    finish(found, seconds)


def coverage(name, overrides, seed):
    exp, found, seconds = fitted(f"flow/temperature_from_velocity{name}", overrides, seed)
    print(*found.events, sep="\n")
    for rank in map(int, os.environ.get("RANKS", "240").split(",")):
        known = pdefit.field_posterior(found.functional, found.theta, rank=rank, sigma_stated=True)
        sizes = ", ".join(f"{path} {x:.3g}" for path, x in known.amplitudes.items())
        print(f"seed {seed} {known}, the smallest {known.eigenvalues[-1]:.2g}, amplitudes {sizes}")
        drawn = known.samples(200, jax.random.key(seed))
        for control in found.functional.controls.items:
            wrong = np.asarray(control.where(found.problem)) - np.asarray(exp.true_value(control))
            spread, samples = known.standard_deviation[control.path], drawn[control.path]
            rest = np.std(samples - samples.mean(axis=1, keepdims=True), axis=0)
            inside = abs(wrong) <= 1.96 * spread, abs(wrong - wrong.mean(axis=0)) <= 1.96 * rest
            sizes = " ".join(f"{np.sqrt(np.mean(x**2)):.4f}" for x in (wrong, spread))
            print(
                f"seed {seed} {control.path} inside {percent(np.mean(inside, axis=(1, 2)))}   error, deviation {sizes}"
            )
    finish(found, seconds)


def ra_pr(name, overrides, seed):
    exp, found, seconds = fitted("flow/ra_pr", overrides, seed)
    known = pdefit.intervals(found.functional, found.theta)
    truth = np.log([float(exp.truth.system.rayleigh), float(exp.truth.system.prandtl)])
    off = np.asarray(found.theta[:2]) - truth
    inside = np.abs(off) <= known.reach[:2]
    print(
        f"seed {seed} error {percent(off)}   95 % +- {percent(known.reach[:2])}   inside {inside}   z {off / known.error[:2]}"
    )
    finish(found, seconds)


def kolmogorov(name, overrides, seed):
    exp, found, seconds = fitted("flow/kolmogorov", overrides, seed)
    problem, system = found.problem, exp.truth.system

    def curl(y):
        return vorticity(system.grid, (jnp.asarray(y.u), jnp.asarray(y.v)))

    true = jax.tree.map(lambda x: x[0], exp.source.true_states)
    errors = [float(norm(curl(y) - curl(true)) / norm(curl(true))) for y in (problem.y0, cubic(exp))]
    off = [float(getattr(problem.system, n) / getattr(system, n)) - 1 for n in ("viscosity", "drag")]
    print(f"seed {seed} vorticity {percent(errors[0])}   cubic {percent(errors[1])}   viscosity, drag {percent(off)}")
    finish(found, seconds)


def cubic(exp):
    """The observed velocity at the start, interpolated by periodic cubic splines."""
    grid, stride = exp.functional.problem.system.grid, exp.functional.problem.observe.stride
    parts = {}
    for name, x in exp.source.record.values.items():
        field = np.asarray(x[0], float)
        for axis, (n, k) in enumerate(zip(grid.shape, stride, strict=True)):
            places = np.arange((k - 1) // 2, n + (k - 1) // 2 + 1, k)
            closed = np.concatenate([field, np.take(field, [0], axis)], axis)
            field = CubicSpline(places, closed, axis, bc_type="periodic")(np.arange(n))
        parts[name] = field
    return type(exp.functional.problem.y0)(**parts)


def finish(found, seconds):
    print(f"       {found}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    what, *overrides = sys.argv[1:]
    kind, _, variant = what.partition("/")
    for seed in os.environ.get("SEEDS", "0,1,2").split(","):
        globals()[kind](f"/{variant}" if variant else "", overrides, int(seed))
