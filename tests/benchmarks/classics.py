"""The inverse problems that neural networks are trained on, from positions between grid points and unknown initial states.

    ./run python tests/benchmarks/classics.py [PROBLEM ...] [--draws 20] [--noise 0 0.01] [--coverage]

Every fit starts 20 % off, each number up or down by chance. Printed are, for each problem and noise, the errors in % and
in standard errors of the bound, their bias, the mean of e^T F e / p, evaluations and seconds of the fit after a first one
has compiled it. F is the Fisher matrix of the p numbers at the truth, less what is lost because the initial state is
unknown, in as many modes as are fitted, and the edges are. No prior counts but that of measured edges. For an efficient
estimate the mean of e^T F e / p is 1 and stays below the 99 % quantile, which is printed. With clean data, bounds are
those of a noise of 1e-4 of the standard deviation.

`--coverage` counts draws whose intervals at 95 % hold the truth, with noisy edges as controls and as exact.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.io
from pdefit_classics import AllenCahn, Burgers, FourierBurgers, KortewegDeVries
from pdefit_classics.cole_hopf import sine_wave
from scipy import stats

import pdefit

jax.config.update("jax_enable_x64", True)
DATA = Path(__file__).parents[2] / "data" / "classics"
# noise of which clean data are given the standard deviation, relative to that of the field
CLEAN = 1e-4
LOG = pdefit.transforms.Log()
_EQUATIONS = eqx.filter_jit(lambda functional, theta: functional.normal_equations(theta)[2])


@dataclasses.dataclass(frozen=True)
class Draw:
    """One fit: what is fitted, the true numbers by name, and the problem at the truth."""

    functional: pdefit.Functional
    truth: dict[str, float]
    at_truth: pdefit.Problem

    def bound(self) -> np.ndarray:
        """The information F of the logarithms of the numbers, (p, p)."""
        functional = self.functional
        theta = functional.controls.theta(self.at_truth)
        matrix, p = np.asarray(_EQUATIONS(functional, theta)), len(self.truth)
        scale = np.sqrt(np.diag(matrix))
        matrix = matrix / np.outer(scale, scale)
        f = matrix[:p, :p] - matrix[:p, p:] @ np.linalg.solve(matrix[p:, p:], matrix[p:, :p])
        return f * np.outer(scale[:p], scale[:p])


def scattered(t, x, u, count, sigma, stated, rng):
    """Observations at points drawn from a grid of times and positions, (T, n) with NaN where a frame has fewer."""
    chosen = np.zeros(u.size, bool)
    chosen[rng.choice(u.size, count, replace=False)] = True
    chosen = chosen.reshape(u.shape)
    # room for the fullest frame of any draw, so that all draws are compiled once
    mean = count / len(t)
    most = int(mean + 5 * np.sqrt(mean)) + 1
    values, places = np.full((len(t), most), np.nan), np.full((len(t), most, 1), x[0])
    for k, row in enumerate(chosen):
        values[k, : row.sum()], places[k, : row.sum(), 0] = u[k, row], x[row]
    values += sigma * rng.standard_normal(values.shape)
    return pdefit.Observations.build(t, {"u": values}, stated, positions={"u": places})


def start(truth, rng):
    """The numbers 20 % up or down."""
    return {name: jnp.asarray(value * rng.choice([0.8, 1.2])) for name, value in truth.items()}


def draw(
    make, truth, grid, observations, state, modes, noisy, rng, args=None, edges=None, basis="waves", **options
) -> Draw:
    """A problem of one equation: `make` gives the system of its numbers, `state` the true initial state by position."""
    system, exact = make(start(truth, rng)), make({n: jnp.asarray(v) for n, v in truth.items()})
    shape = type(system.init(None))
    cubic = (
        {"method": "cubic", "cell_average": False} if isinstance(grid, pdefit.CartesianGrid) else {"method": "spectral"}
    )
    observe = pdefit.instruments.At(grid, **cubic)
    unknown = pdefit.Control(modes=modes, basis=basis, guess=pdefit.guesses.FromData())
    controls = {**dict.fromkeys(truth, LOG), "y0": {"u": unknown}, **(edges or {})}
    y0 = shape(jnp.asarray(state(grid.axis(0))))
    functional = pdefit.Functional(pdefit.Problem(system, y0, observe, args=args), observations, controls, **options)
    at_truth = dataclasses.replace(functional.problem, system=exact, y0=y0)
    return Draw(functional, truth, at_truth)


def spread(noise, u):
    """The standard deviation of the noise, and the one that the data are given."""
    return noise * u.std(), max(noise, CLEAN) * u.std()


def korteweg_de_vries(seed, noise):
    """199 points at t = 0.2 and 201 at t = 0.8; the state at t = 0.2 is unknown."""
    rng, record = np.random.default_rng(seed), scipy.io.loadmat(DATA / "KdV.mat")
    x, t, u = record["x"].ravel(), record["tt"].ravel()[[40, 160]], np.real(record["uu"]).T[[40, 160]]
    sigma, stated = spread(noise, u)
    values, places = np.full((2, 201), np.nan), np.full((2, 201, 1), x[0])
    for k, count in enumerate((199, 201)):
        i = rng.choice(x.size, count, replace=False)
        values[k, :count], places[k, :count, 0] = u[k, i] + sigma * rng.standard_normal(count), x[i]
    observations = pdefit.Observations.build(t, {"u": values}, stated, positions={"u": places})
    grid, truth = pdefit.FourierGrid((128,), (2.0,), (-1.0,)), {"advection": 1.0, "dispersion": 0.0025}
    state, options = lambda at: np.interp(at, x, u[0]), {"solver": pdefit.solvers.ETDRK4(), "dt": 2e-3}
    return draw(lambda p: KortewegDeVries(grid, **p), truth, grid, observations, state, 64, noise, rng, **options)


def allen_cahn(seed, noise):
    """2000 points in space and time."""
    rng, record = np.random.default_rng(seed), scipy.io.loadmat(DATA / "AC.mat")
    x, t, u = record["x"].ravel(), record["tt"].ravel(), np.real(record["uu"]).T
    sigma, stated = spread(noise, u)
    observations = scattered(t, x, u, 2000, sigma, stated, rng)
    grid, truth = pdefit.FourierGrid((512,), (2.0,), (-1.0,)), {"D": 1e-4, "a": 5.0, "b": 5.0}
    state, options = lambda at: np.interp(at, x, u[0]), {"solver": pdefit.solvers.ETDRK4(), "dt": 1e-2}
    # the initial state has a kink at the ends of the period, which would take many waves
    modes, options["basis"] = 24 if noise == 0 else 16, "polynomials"
    return draw(lambda p: AllenCahn(grid, **p), truth, grid, observations, state, modes, noise, rng, **options)


def fourier_burgers(seed, noise):
    """2000 points in space and time, in a periodic box."""
    rng, (x, t, u) = np.random.default_rng(seed), shock()
    sigma, stated = spread(noise, u)
    observations = scattered(t, x, u, 2000, sigma, stated, rng)
    points, dt = (1024, 2.5e-3) if noise == 0 else (768, 5e-3)
    grid, truth = pdefit.FourierGrid((points,), (2.0,), (-1.0,)), {"advection": 1.0, "viscosity": 0.01 / np.pi}
    options = {"solver": pdefit.solvers.ETDRK4(), "dt": dt}
    return draw(lambda p: FourierBurgers(grid, **p), truth, grid, observations, sine, 24, noise, rng, **options)


def burgers(seed, noise):
    """2000 points in space and time, in a box with measured edges, which are controls."""
    rng, (x, t, u) = np.random.default_rng(seed), shock()
    sigma, stated = spread(noise, u)
    observations = scattered(t, x, u, 2000, sigma, stated, rng)
    ends = pdefit.boundaries.Ends(pdefit.boundaries.Dirichlet("left"), pdefit.boundaries.Dirichlet("right"))
    cells, dt = (768, None) if noise == 0 else (640, 8e-4)
    grid = pdefit.CartesianGrid((cells,), (2.0,), (-1.0,), boundary=ends)
    args, free = measured_edges(t, u, sigma, stated, 12, True, rng)
    truth = {"advection": 1.0, "viscosity": 0.01 / np.pi}
    return draw(lambda p: Burgers(grid, **p), truth, grid, observations, sine, 24, noise, rng, args, free, dt=dt)


def measured_edges(t, u, sigma, stated, knots, free, rng):
    """Both edges as inputs, and as controls unless they are taken as exact."""
    seen = {name: u[:, end] + sigma * rng.standard_normal(t.size) for name, end in (("left", 0), ("right", -1))}
    if not free:
        return pdefit.Inputs(**{name: pdefit.TimeSeries(t, values, "linear") for name, values in seen.items()}), {}
    series = {name: pdefit.TimeSeries(t, values, "smooth", sigma=stated, knots=knots) for name, values in seen.items()}
    prior = {"values": pdefit.Control(prior=pdefit.priors.Measured())}
    return pdefit.Inputs(**series), {"args": dict.fromkeys(series, prior)}


def shock():
    record = scipy.io.loadmat(DATA / "burgers_shock.mat")
    return record["x"].ravel(), record["t"].ravel(), record["usol"].T


def sine(x):
    return -np.sin(np.pi * x)


PROBLEMS: dict[str, Callable] = {
    "korteweg_de_vries": korteweg_de_vries,
    "allen_cahn": allen_cahn,
    "fourier_burgers": fourier_burgers,
    "burgers": burgers,
}


def fitted(one: Draw):
    """The fit, and the errors of the logarithms of its numbers."""
    begun = time.perf_counter()
    found = pdefit.fit(one.functional)
    seconds, values = time.perf_counter() - begun, one.functional.controls.values(found.theta)
    return found, np.array([np.log(float(values[n]) / v) for n, v in one.truth.items()]), seconds


def study(name, noise, draws):
    """Fits of all draws of a problem, and their summary."""
    errors, squares, sizes, counts, seconds = [], [], [], [], []
    for seed in range(draws):
        one = PROBLEMS[name](seed, noise)
        found, error, took = fitted(one)
        f = one.bound()
        errors.append(error)
        squares.append(error @ f @ error / error.size)
        sizes.append(error / np.sqrt(np.diag(np.linalg.inv(f))))
        counts.append(found.iterations)
        seconds.append(took)
        row = {"problem": name, "noise": noise, "draw": seed, "error_%": (100 * error).round(7).tolist()}
        row |= {"standard_errors": sizes[-1].round(2).tolist(), "eFe/p": round(squares[-1], 3)}
        row |= {"evaluations": found.iterations, "seconds": round(took, 1), "converged": bool(found.converged)}
        print(json.dumps(row), flush=True)
    p = len(errors[0])
    summary = {"problem": name, "noise": noise, "draws": draws}
    summary["bound_%"] = (100 * np.sqrt(np.diag(np.linalg.inv(f)))).round(6).tolist()
    summary["error_%_rms"] = (100 * np.sqrt(np.mean(np.square(errors), axis=0))).round(7).tolist()
    summary["error_%_largest"] = (100 * np.max(np.abs(errors), axis=0)).round(7).tolist()
    summary["bias_%"] = (100 * np.mean(errors, axis=0)).round(7).tolist()
    summary["eFe/p"] = round(float(np.mean(squares)), 3)
    summary["quantile"] = round(float(stats.chi2.ppf(0.99, p * draws) / (p * draws)), 3)
    summary["evaluations"] = float(np.median(counts))
    # the first fit compiles
    summary["seconds"] = round(float(np.median(seconds[1:] or seconds)), 1)
    print(json.dumps(summary), flush=True)


def moving_edges(seed, noise, edges):
    """A broad shock in a narrow box, whose edges move: 400 points, and edges measured with the same noise."""
    rng, t, x = np.random.default_rng(seed), np.linspace(0.0, 0.5, 26), np.linspace(-0.6, 0.6, 61)
    truth = {"advection": 1.0, "viscosity": 0.05}
    u = np.asarray(jax.vmap(lambda t: sine_wave(jnp.asarray(x), t, *truth.values()))(jnp.asarray(t)))
    sigma = noise * u.std()
    observations = scattered(t, x, u, 400, sigma, sigma, rng)
    ends = pdefit.boundaries.Ends(pdefit.boundaries.Dirichlet("left"), pdefit.boundaries.Dirichlet("right"))
    grid = pdefit.CartesianGrid((64,), (1.2,), (-0.6,), boundary=ends)
    args, free = measured_edges(t, u, sigma, sigma, 6, edges, rng)
    return draw(lambda p: Burgers(grid, **p), truth, grid, observations, sine, 12, noise, rng, args, free, dt=2e-3)


def coverage(draws, noise=0.03):
    """Draws whose intervals hold the truth, for each number, with edges as controls and as exact."""
    held = {True: np.zeros(2, int), False: np.zeros(2, int)}
    for seed in range(draws):
        for edges, count in held.items():
            one = moving_edges(seed, noise, edges)
            span = pdefit.intervals(one.functional, pdefit.fit(one.functional).theta)
            truth = np.array(list(one.truth.values()))
            count += (span.low[:2] <= truth) & (truth <= span.high[:2])
        row = {"draws": seed + 1, "edges_as_controls": held[True].tolist(), "edges_as_exact": held[False].tolist()}
        print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.01])
    parser.add_argument("--coverage", action="store_true")
    options = parser.parse_args()
    if options.coverage:
        coverage(options.draws)
        return
    for name in options.problems or PROBLEMS:
        for noise in options.noise:
            study(name, noise, options.draws)


if __name__ == "__main__":
    main()
