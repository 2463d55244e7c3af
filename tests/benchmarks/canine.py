"""The canine traces beyond their shipped fit: starts of single traces, long records, traces and times held out.

    ./run python tests/benchmarks/canine.py FOLDER short          # 250 samples: the shipped stages, then bad traces anew
    ./run python tests/benchmarks/canine.py FOLDER long           # from `short`: 400 to 1000 samples, a forecast, all 1200
    ./run python tests/benchmarks/canine.py FOLDER fine           # from `long`: all 1200 samples again, with finer steps
    ./run python tests/benchmarks/canine.py FOLDER steps          # the misfits of all with steps halved and halved again
    ./run python tests/benchmarks/canine.py FOLDER bootstrap 50 8  # of `short`: 50 repetitions of 8 evaluations each
    ./run python tests/benchmarks/canine.py FOLDER heldout        # every fifth trace by its own five numbers alone

A misfit is the mean of (u - data)^2 over traces and samples, the first sample included, as the published fits state it:
2.57e-3 of 250 samples, 4.94e-3 of 1200. No published parameter is used. FOLDER/canine.txt gets every line, with the CPU
seconds so far. Own starts are points of Sobol in the box of the own five numbers of a trace, which alone are fitted.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pdefit.cli.runtime.environment import prepare

prepare()

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.stats import qmc

import pdefit
from pdefit.cli.python.experiments import Experiment
from pdefit.formulations import Single
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.members._drawn_recordings import drawn

SIGMA, SPACING = 0.0048, 2400 / 1199
# a trace with more than this many times the median misfit gets so many starts of its own
BAD, STARTS = 5.0, 8


def told(folder: Path, line: str) -> None:
    line = f"{time.process_time():7.0f} s  {line}"
    print(line, flush=True)
    with open(folder / "canine.txt", "a") as file:
        print(line, file=file)


def until(samples: int) -> float:
    """A time between the last of so many samples and the next, in ms."""
    return round((samples - 0.5) * SPACING, 3)


def loaded(samples: int, *overrides: str) -> Experiment:
    """The shipped experiment on so many samples."""
    return pdefit.load_experiment("cardiac/canine_traces", [f"times.stop={until(samples)}", *overrides])


def stage(most: int, samples: int | None = None, max_step: float = 0.5) -> pdefit.Stage:
    cut = None if samples is None else Single(until=until(samples))
    return pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(max_step=max_step), most, cut)


@eqx.filter_jit
def residuals(joint: pdefit.Recordings, theta: Array) -> Array:
    return joint.each_stacked(lambda f, own: f.trajectories(own, lambda r: r["u"])[0], theta)


def squares(joint: pdefit.Recordings, theta: Array) -> np.ndarray:
    """The squared error of every trace at every sample, (62, n)."""
    return (SIGMA * np.asarray(residuals(joint, jnp.asarray(theta))).reshape(len(joint.columns), -1)) ** 2


def refined(joint: pdefit.Recordings, theta: Array, *stages: pdefit.Stage) -> Array:
    """The end of a joint fit that begins at theta."""
    return pdefit.fit(joint.guessing(jnp.asarray(theta)), stages).theta


def summed(folder: Path, what: str, each: np.ndarray) -> None:
    worst = ", ".join(f"{e + 1}: {each[e]:.4f}" for e in np.argsort(each)[::-1][:3])
    told(folder, f"{what}: misfit {each.mean():.3e}, median {np.median(each):.2e}, worst {worst}")


def own_starts(folder: Path, joint: pdefit.Recordings, theta: Array, traces: Array, cuts: Sequence[int]) -> np.ndarray:
    """theta with the own numbers of some traces refitted from many starts, all that is shared held."""
    theta, lm = np.array(theta), [stage(25, n, 1.0) for n in cuts] + [stage(40, None, 1.0)]
    for e in map(int, traces):
        part, mine = joint.parts(jnp.asarray(theta))[e]
        free = [c.own for c in part.controls.items]
        items = Controls(tuple(c for c in part.controls.items if c.own))
        one = eqx.tree_at(lambda p: (p.problem, p.controls), part, (part.at(mine), items))
        lower, upper = map(np.asarray, one.controls.bounds)
        points = lower + qmc.Sobol(lower.size, rng=0).random(STARTS) * (upper - lower)
        points[0] = one.theta0
        found = pdefit.fit_members(pdefit.Members.from_points(one, jnp.asarray(points)), lm)
        best, before = int(np.argmin(found.loss)), float(one.value(one.theta0))
        scale = 2 * SIGMA**2 / one.observed_values
        told(folder, f"trace {e + 1}: {scale * before:.4f} to {scale * found.loss[best]:.4f}, start {best}")
        if found.loss[best] < before:
            theta[joint.columns[e][free]] = found.theta[best]
    return theta


def bad(joint: pdefit.Recordings, theta: Array) -> np.ndarray:
    each = squares(joint, theta).mean(axis=1)
    return np.flatnonzero(each > BAD * np.median(each))


def short(folder: Path) -> None:
    exp = loaded(250)
    joint, theta = exp.functional, exp.fit().theta
    summed(folder, "250 samples, shipped stages", squares(joint, theta).mean(axis=1))
    theta = own_starts(folder, joint, theta, bad(joint, theta), (60, 125))
    theta = refined(joint, theta, stage(200), stage(200, None, 1.0))
    summed(folder, "250 samples, after own starts", squares(joint, theta).mean(axis=1))
    np.save(folder / "short.npy", theta)


def long(folder: Path) -> None:
    theta, whole = np.load(folder / "short.npy"), loaded(1200).functional
    for samples in (400, 600, 850, 1000, 1200):
        joint = whole if samples == 1200 else loaded(samples).functional
        theta = refined(joint, theta, stage(60))
        theta = refined(joint, own_starts(folder, joint, theta, bad(joint, theta), (250,)), stage(40))
        summed(folder, f"{samples} samples", squares(joint, theta).mean(axis=1))
        if samples == 1000:
            summed(folder, "forecast of the last 200", squares(whole, theta)[:, 1000:].mean(axis=1))
        np.save(folder / "long.npy", theta)


def fine(folder: Path) -> None:
    theta = np.load(folder / "long.npy")
    for dt in (0.12525, 0.062625):
        joint = loaded(1200, f"dt={dt}").functional
        summed(folder, f"1200 samples, steps of {dt} ms", squares(joint, theta).mean(axis=1))
        theta = refined(joint, theta, stage(60))
        theta = refined(joint, own_starts(folder, joint, theta, bad(joint, theta), (250,)), stage(40))
        summed(folder, f"1200 samples, fitted with steps of {dt} ms", squares(joint, theta).mean(axis=1))
        np.save(folder / "fine.npy", theta)


def steps(folder: Path) -> None:
    for name, samples in (("short", 250), ("long", 1200), ("fine", 1200)):
        for dt in (0.2505, 0.12525, 0.062625):
            joint = loaded(samples, f"dt={dt}").functional
            summed(folder, f"{name}, steps of {dt} ms", squares(joint, np.load(folder / f"{name}.npy")).mean(axis=1))


def bootstrap(folder: Path, count: int, most: int) -> None:
    joint, theta = loaded(250).functional, np.load(folder / "short.npy")
    made = pdefit.bootstrap(joint, jnp.asarray(theta), pdefit.Bootstrap(count, "recordings", steps=most))
    told(folder, f"{len(made.theta)} repetitions ended in a minimum, {made.failed} did not")
    for name, low, high, x in zip(made.names, made.low, made.high, made.values.T, strict=True):
        told(folder, f"{name}: {low:.4g} to {high:.4g}, repetitions {np.quantile(x, [0.025, 0.5, 0.975]).round(4)}")


def heldout(folder: Path, most: int = 300) -> None:
    exp, out = loaded(250), np.arange(62) % 5 == 2
    theta = pdefit.fit(drawn(exp.functional, (~out).astype(int)), [*exp.stages[:-1], stage(most)]).theta
    summed(folder, f"{(~out).sum()} fitted traces", squares(exp.functional, theta)[~out].mean(axis=1))
    theta = own_starts(folder, exp.functional, theta, np.flatnonzero(out), (60, 125))
    summed(folder, f"{out.sum()} held-out traces", squares(exp.functional, theta)[out].mean(axis=1))


if __name__ == "__main__":
    where, verb, *numbers = Path(sys.argv[1]), *sys.argv[2:]
    where.mkdir(parents=True, exist_ok=True)
    {f.__name__: f for f in (short, long, fine, steps, bootstrap, heldout)}[verb](where, *map(int, numbers))
