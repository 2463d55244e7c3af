"""Five numbers of a flock by two algorithms of the literature, by the solver in the loop, and by ours, on the same data.

    ./run python tests/benchmarks/cucker_smale.py [--birds 5 20 50 100 200] [--seconds 60]
    ./run python tests/benchmarks/cucker_smale.py --noise 0.01 [--hidden] [--draws 20]

Positions and velocities of all birds are seen 101 times from 0 to 10 without noise, the numbers start at U[0.6, 1.5] times the
truth. Data are made by adaptive steps with a tolerance of 1e-12. All methods move the logarithms of the numbers, and run on one
core.

- Algorithm 1: Adam on the squared misfit of the solution, by RK4 with steps of 0.02 and their discrete adjoint.
- Algorithm 2: F(x, theta) = |x - d|^2 / 2 + |r(x, theta)|^2 / 2 with the residuals r of Hermite and Simpson between frames;
  in turn a step of gradient descent in the states x and one of Adam in theta.
- Algorithm 3: the same, with x solved anew by the equations before each pair of steps.
- Levenberg-Marquardt, and collocation before it: `pdefit.fit`. Its steps are adaptive, with a tolerance of 1e-11, because a
  close encounter of two birds needs short steps. In more than 20 birds the first time unit is fitted first, and there is no
  collocation, whose cost is cubic in their number. There CPU seconds include compilation.

Printed are, for each, CPU seconds after compilation, steps, the largest relative error of a number, and the mean squared
error of the model solved again with its numbers, by which the first three were published, and the largest. Each of these stops
after the seconds that are given, or 20,000 steps; 0 leaves them out.

With noise, of which `--noise` is the part of the range of each variable, only Levenberg-Marquardt runs, over several draws of
it. Printed is how many of the draws have each number inside its 95 % interval, and the error over the standard error. With
`--hidden` the velocities of every second bird are not seen.

Source: the residual and the algorithms are those of arXiv:2207.09839 and of what followed it, where x_c of the residual is
printed with h/6 in place of h/8.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

from pdefit.cli.runtime.environment import prepare

prepare()

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.flatten_util import ravel_pytree
from pdefit_particles import CuckerSmale, State
from timing import one_core

import pdefit

jax.config.update("jax_enable_x64", True)

TS = np.linspace(0.0, 10.0, 101)
H = TS[1] - TS[0]
TRUTH = {"gamma": 0.8, "ca": 1.0, "cr": 1.5, "la": 2.0, "lr": 0.5}
FINE, STEPS = pdefit.Adaptive(1e-12, 1e-12), pdefit.Adaptive(1e-11, 1e-11)
# birds beyond which collocation is left out, and the beginning of the record comes first
MANY, BEGINNING = 20, 1.0
# steps of Algorithms 1 and 3 between two frames
SUBSTEPS = 5
# step sizes of Adam and of descent in x
ADAM, DESCENT = 0.01, 0.1
CHUNK, MOST = 100, 20_000


def flock(birds: int, factors: np.ndarray) -> CuckerSmale:
    return CuckerSmale(**{n: jnp.asarray(v * f) for (n, v), f in zip(TRUTH.items(), factors, strict=True)}, n=birds)


def first_state(birds: int) -> State:
    rng = np.random.default_rng(0)
    place = rng.uniform(-1.0, 1.0, (birds, 2)) * np.sqrt(birds / 5)
    return State(jnp.asarray(place), jnp.asarray(rng.normal(size=(birds, 2))))


class Setting:
    """The data of so many birds, and functions of theta, the logarithms of the numbers."""

    def __init__(self, birds: int):
        self.y0, exact = first_state(birds), flock(birds, np.ones(5))
        self.record = pdefit.simulate(exact, self.y0, TS, solver=diffrax.Dopri8(), steps=FINE)
        self.start, unravel = ravel_pytree(self.y0)
        frames = [self.record.values[n].reshape(TS.size, -1) for n in State._fields]
        self.data = jnp.concatenate(frames, axis=1)
        self.theta0 = jnp.log(jnp.asarray(np.random.default_rng(1).uniform(0.6, 1.5, 5) * [*TRUTH.values()]))

        def rate(theta: jax.Array, x: jax.Array) -> jax.Array:
            system = CuckerSmale(*jnp.exp(theta), n=birds)
            return ravel_pytree(system.vector_field(0.0, unravel(x), None))[0]

        self.rate = rate

    def solution(self, theta: jax.Array) -> jax.Array:
        """The states at all frames."""
        h = H / SUBSTEPS

        def step(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            k1 = self.rate(theta, x)
            k2 = self.rate(theta, x + h / 2 * k1)
            k3 = self.rate(theta, x + h / 2 * k2)
            return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + self.rate(theta, x + h * k3)), None

        def frame(x: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            x = lax.scan(step, x, None, length=SUBSTEPS)[0]
            return x, x

        return jnp.concatenate([self.start[None], lax.scan(frame, self.start, None, length=TS.size - 1)[1]])

    def misfit(self, theta: jax.Array) -> jax.Array:
        return jnp.sum((self.solution(theta) - self.data) ** 2) / 2

    def collocated(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """F(x, theta), with the initial state known."""
        x = x.at[0].set(self.start)
        rates = jax.vmap(lambda x: self.rate(theta, x))
        f = rates(x)
        centre = rates((x[:-1] + x[1:]) / 2 + H / 8 * (f[:-1] - f[1:]))
        r = x[:-1] - x[1:] + H / 6 * (f[:-1] + 4 * centre + f[1:])
        return (jnp.sum((x - self.data) ** 2) + jnp.sum(r**2)) / 2


def algorithm(setting: Setting, number: int) -> tuple[Callable, Any]:
    """A hundred steps of an algorithm, compiled, and its first state: theta, x and that of Adam."""
    adam = optax.adam(ADAM)

    def moved(theta: jax.Array, gradient: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        change, memory = adam.update(gradient, memory)
        return theta + jnp.asarray(change), memory

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        theta, x, memory = carry
        if number == 1:
            theta, memory = moved(theta, jax.grad(setting.misfit)(theta), memory)
            return (theta, x, memory), None
        if number == 3:
            x = setting.solution(theta)
        x = x - DESCENT * jax.grad(setting.collocated, argnums=1)(theta, x)
        theta, memory = moved(theta, jax.grad(setting.collocated)(theta, x), memory)
        return (theta, x, memory), None

    chunk = jax.jit(lambda carry: lax.scan(step, carry, None, length=CHUNK)[0])
    return chunk, (setting.theta0, setting.data, adam.init(setting.theta0))


def published(setting: Setting, number: int, seconds: float) -> tuple[np.ndarray, int, float]:
    """theta of an algorithm, its steps, and CPU seconds."""
    chunk, carry = algorithm(setting, number)
    jax.block_until_ready(chunk(carry))
    begun, steps = time.process_time(), 0
    while steps < MOST and time.process_time() - begun < seconds:
        carry, steps = jax.block_until_ready(chunk(carry)), steps + CHUNK
    return np.asarray(carry[0]), steps, time.process_time() - begun


def functional(setting: Setting, birds: int, record: pdefit.Observations) -> pdefit.Functional:
    factors = np.exp(setting.theta0) / [*TRUTH.values()]
    problem = pdefit.Problem(flock(birds, factors), setting.y0)
    given = dict.fromkeys(TRUTH, pdefit.transforms.Log())
    return pdefit.Functional(problem, record, given, solver=diffrax.Dopri8(), steps=STEPS)


def ours(setting: Setting, birds: int, collocate: bool) -> tuple[np.ndarray, int, float]:
    """The same of a fit."""
    J = functional(setting, birds, setting.record)
    main = pdefit.optimizers.LevenbergMarquardt(max_step=0.5, tolerance=1e-14)
    stages: list[Any] = [pdefit.optimizers.Collocation()] if collocate else []
    if birds > MANY:
        stages.append(pdefit.Stage(main, 30, pdefit.formulations.Single(until=BEGINNING)))
    else:
        # a run that compiles; in more birds that is a small part
        pdefit.fit(J, [*stages, main])
    stages.append(main)
    begun = time.process_time()
    found = pdefit.fit(J, stages)
    return np.asarray(found.theta), found.iterations, time.process_time() - begun


def noisy(setting: Setting, birds: int, options: argparse.Namespace) -> None:
    """A row of how many intervals hold the truth."""
    truth, inside, z, seconds = np.log([*TRUTH.values()]), [], [], []
    for seed in range(options.draws):
        record = pdefit.add_noise(setting.record, options.noise, jax.random.key(seed))
        if options.hidden:
            values = {n: np.array(x) for n, x in record.values.items()}
            values["velocity"][:, ::2] = np.nan
            record = pdefit.Observations.build(TS, values, record.sigma)
        begun = time.process_time()
        found = pdefit.fit(functional(setting, birds, record), [pdefit.optimizers.LevenbergMarquardt(max_step=0.5)])
        known = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
        seconds.append(time.process_time() - begun)
        gap = known.at_points(np.asarray(found.theta) - truth)
        inside.append(np.abs(gap) <= known.reach)
        z.append(gap / known.error)
    counts = ", ".join(f"{n} {k}" for n, k in zip(TRUTH, np.sum(inside, axis=0), strict=True))
    rms, all_five = np.sqrt(np.mean(np.square(z), axis=0)), np.all(inside, axis=1).sum()
    sizes = ", ".join(f"{x:.2f}" for x in rms)
    print(
        f"| {birds} | {'hidden' if options.hidden else 'all'} | {counts} of {options.draws} | {all_five} | {sizes} | "
        f"{np.max(np.abs(z)):.1f} | {np.median(seconds):.1f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--birds", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--hidden", action="store_true")
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    one_core()
    if options.noise:
        print("| birds | velocities | inside | all five | rms of error / standard error | largest | CPU s, median |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for birds in options.birds:
            noisy(Setting(birds), birds, options)
        return
    print("| birds | method | steps | CPU s | largest error of a number | squared error, solved again | largest |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for birds in options.birds:
        setting = Setting(birds)
        methods: dict[str, Callable[[], tuple[np.ndarray, int, float]]] = {
            "Levenberg-Marquardt": lambda s=setting, b=birds: ours(s, b, False),
        }
        if birds <= MANY:
            methods["collocation, then Levenberg-Marquardt"] = lambda s=setting, b=birds: ours(s, b, True)
        for n in (2, 3, 1) if options.seconds else ():
            methods[f"Algorithm {n}"] = lambda s=setting, n=n: published(s, n, options.seconds)
        for name, method in methods.items():
            theta, steps, seconds = method()
            values = np.exp(theta)
            error = np.max(np.abs(values / [*TRUTH.values()] - 1))
            again = pdefit.simulate(
                flock(birds, values / [*TRUTH.values()]), setting.y0, TS, solver=diffrax.Dopri8(), steps=FINE
            )
            off = np.concatenate([np.ravel(again.values[n] - setting.record.values[n]) for n in State._fields])
            row = f"{steps} | {seconds:.1f} | {error:.1e} | {np.mean(off**2):.1e} | {np.max(np.abs(off)):.1e}"
            print(f"| {birds} | {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
