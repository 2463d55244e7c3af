"""Two physics-informed neural networks of the published size, for comparison.

    python tests/benchmarks/pinn.py burgers --noise 0.01 --start 0.2 --minutes 60

The network takes the place of the solution, and the coefficients of the equation are trained with its weights. Sizes,
points, starts and iterations are those of M. Raissi, P. Perdikaris, G. E. Karniadakis, J. Comput. Phys. 378 (2019) 686,
doi:10.1016/j.jcp.2018.10.045: Adam, then L-BFGS-B of scipy with 50 corrections and at most 50000 iterations. A line of
JSON with errors, seconds and seconds of the processor is printed every so often. The wall clock decides where it stops.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.io
import scipy.optimize
from jax.flatten_util import ravel_pytree

DATA = Path(__file__).parents[2] / "data" / "classics"
TRUTH = {"burgers": (1.0, 0.01 / np.pi), "kdv": (1.0, 0.0025)}
LAYERS = {"burgers": (2, *[20] * 8, 1), "kdv": (1, *[50] * 4, 50)}
ADAM = {"burgers": 10000, "kdv": 50000}


def network(layers, rng) -> list:
    """Weights by Glorot's rule, and biases at zero."""
    pairs = zip(layers[:-1], layers[1:], strict=True)
    return [(np.sqrt(2 / (m + n)) * np.clip(rng.standard_normal((m, n)), -2, 2), np.zeros(n)) for m, n in pairs]


def taylor(weights, inputs, orders) -> list:
    """The network's value and its pure derivatives: for each input the given number of them, in one pass.

    The chain rule of Faa di Bruno is written out to the third derivative of tanh.
    """
    value = inputs
    derivatives = [
        [jnp.zeros_like(inputs).at[:, axis].set(1.0)] + [jnp.zeros_like(inputs)] * (order - 1)
        for axis, order in enumerate(orders)
    ]
    for layer, (weight, bias) in enumerate(weights):
        value = value @ weight + bias
        derivatives = [[d @ weight for d in along] for along in derivatives]
        if layer == len(weights) - 1:
            break
        value = jnp.tanh(value)
        first = 1 - value**2
        second, third = -2 * value * first, -2 * first * (1 - 3 * value**2)
        derivatives = [
            [
                first * along[0],
                *[second * along[0] ** 2 + first * d for d in along[1:2]],
                *[third * along[0] ** 3 + 3 * second * along[0] * along[1] + first * d for d in along[2:3]],
            ]
            for along in derivatives
        ]
    return [value, *derivatives]


def gauss(stages):
    """Butcher's matrix and weights of the Gauss-Legendre Runge-Kutta method, by Legendre polynomials."""
    nodes, weights = np.polynomial.legendre.leggauss(stages)
    values = np.polynomial.legendre.legvander(nodes, stages)
    integral = [nodes + 1, *[(values[:, k + 1] - values[:, k - 1]) / (2 * k + 1) for k in range(1, stages)]]
    to_modes = (2 * np.arange(stages)[:, None] + 1) / 2 * values[:, :stages].T * weights
    return np.stack(integral, axis=1) @ to_modes / 2, weights / 2


def burgers(noise, rng):
    """The loss of u_t + l1 u u_x = l2 u_xx at 2000 points in space and time."""
    record = scipy.io.loadmat(DATA / "burgers_shock.mat")
    x, t, u = record["x"].ravel(), record["t"].ravel(), record["usol"]
    chosen = rng.choice(u.size, 2000, replace=False)
    i, j = np.unravel_index(chosen, u.shape)
    seen = u[i, j] + noise * u.std() * rng.standard_normal(chosen.size)
    points = np.stack([2 * (x[i] - x[0]) / (x[-1] - x[0]) - 1, 2 * (t[j] - t[0]) / (t[-1] - t[0]) - 1], axis=1)
    # the network's inputs run from -1 to 1
    per_x, per_t = 2 / (x[-1] - x[0]), 2 / (t[-1] - t[0])

    def loss(unknown, points, seen):
        u, (u_x, u_xx), (u_t,) = taylor(unknown["weights"], points, (2, 1))
        advection = unknown["l1"] * u * u_x * per_x
        equation = u_t * per_t + advection - jnp.exp(unknown["ln_l2"]) * u_xx * per_x**2
        return jnp.mean((u[:, 0] - seen) ** 2) + jnp.mean(equation**2)

    return loss, (points, seen)


def kdv(noise, rng):
    """The loss of u_t + l1 u u_x + l2 u_xxx = 0 by one implicit Runge-Kutta step of 50 stages between two times."""
    record = scipy.io.loadmat(DATA / "KdV.mat")
    x, t, u = record["x"].ravel(), record["tt"].ravel(), np.real(record["uu"])
    matrix, weights = gauss(50)
    dt, per_x = t[160] - t[40], 2 / (x[-1] - x[0])
    ends = []
    for frame, number in ((40, 199), (160, 201)):
        i = rng.choice(x.size, number, replace=False)
        seen = u[i, frame] + noise * u[i, frame].std() * rng.standard_normal(number)
        ends.append((per_x * (x[i] - x[0])[:, None] - 1, seen[:, None]))

    def loss(unknown, ends):
        total = 0.0
        for (points, seen), rows in zip(ends, (matrix, matrix - weights), strict=True):
            u, (u_x, _, u_xxx) = taylor(unknown["weights"], points, (3,))
            rate = -unknown["l1"] * u * u_x * per_x - jnp.exp(unknown["ln_l2"]) * u_xxx * per_x**3
            total += jnp.sum((u - dt * rate @ rows.T - seen) ** 2)
        return total

    return loss, (tuple(ends),)


class _Stopped(Exception):
    """The wall clock has run out."""


class Log:
    """Errors of the coefficients in %, against seconds and iterations."""

    def __init__(self, truth, minutes, every, **labels):
        self.truth, self.limit, self.every, self.labels = truth, 60 * minutes, every, labels
        self.begun, self.last = time.monotonic(), -np.inf

    def __call__(self, phase, iteration, value, unknown, now=False):
        seconds = time.monotonic() - self.begun
        if now or seconds - self.last >= self.every:
            l1, l2 = float(unknown["l1"]), float(np.exp(unknown["ln_l2"]))
            errors = [100 * (l1 / self.truth[0] - 1), 100 * (l2 / self.truth[1] - 1)]
            row = {"phase": phase, "iteration": iteration, "loss": float(value), "l1_%": errors[0], "l2_%": errors[1]}
            row |= {"seconds": round(seconds, 1), "processor_seconds": round(time.process_time(), 1)}
            print(json.dumps(self.labels | row), flush=True)
            self.last = seconds
        if seconds > self.limit:
            raise _Stopped


def train(loss, data, unknown, adam, log):
    """Adam for a fixed number of iterations, then L-BFGS-B."""
    optimizer = optax.adam(1e-3)

    @jax.jit
    def hundred(unknown, state):
        def step(carry, _):
            unknown, state = carry
            value, gradient = jax.value_and_grad(loss)(unknown, *data)
            change, state = optimizer.update(gradient, state)
            return (optax.apply_updates(unknown, change), state), value

        (unknown, state), values = jax.lax.scan(step, (unknown, state), length=100)
        return unknown, state, values[-1]

    state = optimizer.init(unknown)
    for iteration in range(100, adam + 1, 100):
        unknown, state, value = hundred(unknown, state)
        log("adam", iteration, value, unknown)
    flat, unravel = ravel_pytree(unknown)
    value_and_gradient = jax.jit(lambda flat: jax.value_and_grad(lambda f: loss(unravel(f), *data))(flat))
    count = 0

    def closure(flat):
        nonlocal count
        count += 1
        value, gradient = value_and_gradient(flat)
        log("lbfgs", count, value, unravel(flat))
        return float(value), np.asarray(gradient, float)

    options = {"maxiter": 50000, "maxfun": 50000, "maxcor": 50, "maxls": 50, "ftol": np.finfo(float).eps}
    found = scipy.optimize.minimize(closure, np.asarray(flat, float), jac=True, method="L-BFGS-B", options=options)
    log("end", count, found.fun, unravel(jnp.asarray(found.x)), now=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("problem", choices=TRUTH)
    parser.add_argument("--noise", type=float, default=0.0, help="standard deviation over that of the field")
    parser.add_argument("--start", type=float, help="relative error of both coefficients; published start without it")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between lines")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--single", action="store_true", help="float32, as published")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.single)
    rng, truth = np.random.default_rng(options.seed), TRUTH[options.problem]
    loss, data = (burgers if options.problem == "burgers" else kdv)(options.noise, rng)
    # published: l1 = 0 and ln l2 = -6, which is 0.8 % from the truth of Korteweg-de Vries
    l1, l2 = (0.0, np.exp(-6.0)) if options.start is None else ((1 + options.start) * v for v in truth)
    unknown = {"weights": network(LAYERS[options.problem], rng), "l1": np.asarray(l1), "ln_l2": np.log(l2)}
    unknown, data = jax.tree.map(jnp.asarray, (unknown, data))
    labels = {name: getattr(options, name) for name in ("problem", "noise", "start", "seed", "single")}
    log = Log(truth, options.minutes, options.every, **labels)
    try:
        train(loss, data, unknown, ADAM[options.problem], log)
    except _Stopped:
        pass


if __name__ == "__main__":
    main()
