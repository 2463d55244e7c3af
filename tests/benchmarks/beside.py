"""One whole fit by several packages, and how the parts of a fit grow with steps and points.

    ./run python tests/benchmarks/beside.py fits     # a minute
    ./run python tests/benchmarks/beside.py growth   # some minutes

A travelling front u_t = D u_xx + r u (1 - u) on 320 cells, seen 25 times with noise of known size. D and r are unknown and
start 1.5 times too large and 1.5 times too small. All packages solve the same equations on these cells, with residuals over
sigma, on one core:

- this one: Levenberg-Marquardt with tangents, RK4 with constant steps;
- diffrax and optimistix: `optimistix.least_squares` with its Levenberg-Marquardt over `diffrax.diffeqsolve`, Tsit5 with the
  same constant steps, and the Jacobian by forward mode;
- scipy: `least_squares` over `solve_ivp`, banded LSODA with tolerances of 1e-8 and differences of 1e-4. Its own choice of
  1.5e-8 lies below the error of the steps, and ends at D = 1.44.
"""

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

from pdefit.cli.runtime.environment import prepare

prepare()

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import tissue
from pdefit_reaction import FisherKPP
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from timing import one_core, seconds

import pdefit
from pdefit.inverse.objective.compiled import EQUATIONS, GRADIENT, VALUE

# the first fit compiles everything
jax.config.update("jax_enable_compilation_cache", False)

LENGTH, TIMES, SIGMA = 80.0, np.linspace(0.0, 6.0, 25), 0.02
TRUTH, GUESS = (1.0, 1.0), (1.5, 1 / 1.5)


def front(cells: int, D: float, r: float) -> FisherKPP:
    """The equation on so many cells."""
    grid = pdefit.CartesianGrid(shape=(cells,), extent=(LENGTH,), origin=(-LENGTH / 2,), length_unit="mm")
    return FisherKPP(grid, jnp.asarray(D), jnp.asarray(r), -20.0)


def spread(u: Any, cells: int, xp: Any) -> Any:
    """u_xx of cells between closed ends."""
    edge = xp.concatenate([u[:1], u, u[-1:]])
    return (edge[2:] - 2 * u + edge[:-2]) * (cells / LENGTH) ** 2


def solved(start: np.ndarray, cells: int, D: float, r: float, tolerance: float) -> np.ndarray:
    """The states at all times, by scipy."""
    found = solve_ivp(
        lambda t, u: D * spread(u, cells, np) + r * u * (1 - u),
        (0.0, TIMES[-1]), start, "LSODA", TIMES, rtol=tolerance, atol=tolerance, lband=1, uband=1,
    )  # fmt: skip
    return found.y.T


def ours(cells: int, data: np.ndarray, dt: float) -> Callable[[], np.ndarray]:
    start = front(cells, *TRUTH).init(None)
    observations = pdefit.Observations.build(TIMES, {"u": data}, sigma={"u": SIGMA})
    controls = {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}
    problem = pdefit.Problem(front(cells, *GUESS), start)
    functional = pdefit.Functional(problem, observations, controls, dt=dt)

    def fit() -> np.ndarray:
        system = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()]).problem.system
        return np.asarray([system.D, system.r])

    return fit


def by_diffrax(cells: int, data: np.ndarray, dt: float) -> Callable[[], np.ndarray]:
    start, steps = front(cells, *TRUTH).init(None).u, round(float(np.ceil(TIMES[-1] / dt)))

    def field(t: Any, u: jax.Array, p: jax.Array) -> jax.Array:
        return p[0] * spread(u, cells, jnp) + p[1] * u * (1 - u)

    def residuals(log_p: jax.Array, _: Any) -> jax.Array:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, TIMES[-1], dt, start, jnp.exp(log_p),
            saveat=diffrax.SaveAt(ts=TIMES), adjoint=diffrax.DirectAdjoint(), max_steps=steps + 10,
        )  # fmt: skip
        return (found.ys - data) / SIGMA

    solver = optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8)
    options = {"jac": "fwd"}

    @jax.jit
    def fit() -> jax.Array:
        found = optimistix.least_squares(residuals, solver, jnp.log(jnp.asarray(GUESS)), options=options, max_steps=100)
        return jnp.exp(found.value)

    return lambda: np.asarray(fit())


def by_scipy(cells: int, data: np.ndarray, dt: float) -> Callable[[], np.ndarray]:
    start = np.asarray(front(cells, *TRUTH).init(None).u)

    def residuals(log_p: np.ndarray) -> np.ndarray:
        return np.ravel((solved(start, cells, *np.exp(log_p), 1e-8) - data) / SIGMA)

    return lambda: np.exp(least_squares(residuals, np.log(GUESS), diff_step=1e-4).x)


def fits(cells: int = 320) -> list[str]:
    """Rows of a table: estimates, CPU seconds of the first fit and of the second."""
    start, dt = np.asarray(front(cells, *TRUTH).init(None).u), 0.3 * (LENGTH / cells) ** 2
    exact = solved(start, cells, *TRUTH, 1e-10)
    data = exact + SIGMA * np.random.default_rng(0).normal(size=exact.shape)
    rows = []
    for name, make in {"this package": ours, "optimistix over diffrax": by_diffrax, "scipy": by_scipy}.items():
        begin = time.process_time()
        fit = make(cells, data, dt)
        fit()
        first, begin = time.process_time() - begin, time.process_time()
        found = fit()
        rows.append(f"| {name} | {found[0]:.6f} | {found[1]:.6f} | {first:.2f} | {time.process_time() - begin:.2f} |")
    return rows


def growth(sizes: tuple[int, ...] = (32, 64, 128), steps: tuple[int, ...] = (250, 500, 1000)) -> list[str]:
    """Rows of a table: exponents of CPU time with points at 500 steps, and with steps at 64 x 64 points."""
    rows, programs = [], {"value": VALUE, "gradient": GRADIENT, "normal equations of ten": EQUATIONS}
    cases = {
        "points": [(n, n * n, tissue_of(n, 500)) for n in sizes],
        "steps": [(64, m, tissue_of(64, m)) for m in steps],
    }
    for name, program in programs.items():
        found = []
        for what, each in cases.items():
            functionals = [make(name == "normal equations of ten") for _, _, make in each]
            taken = seconds(*[functools.partial(program, f, f.theta0) for f in functionals], repeats=3)
            exponent = np.polyfit(np.log([size for _, size, _ in each]), np.log(taken), 1)[0]
            found.append(f"{exponent:.2f} ({what}: {', '.join(f'{t:.3g} s' for t in taken)})")
        rows.append(f"| {name} | {' | '.join(found)} |")
    return rows


def tissue_of(cells: int, steps: int) -> Callable[[bool], pdefit.Functional]:
    return lambda few: tissue.functional(cells, steps // 10, 10, "float64", fields=not few)


if __name__ == "__main__":
    one_core()
    print("\n".join(growth() if "growth" in sys.argv else fits()))
