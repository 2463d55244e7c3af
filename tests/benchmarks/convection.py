"""Convection against reference values: its onset, steady Nusselt numbers, orders of convergence, time of a projection.

Run it with `./run python tests/benchmarks/convection.py`. It takes some minutes on two cores.

Reference values: S. Chandrasekhar, Hydrodynamic and Hydromagnetic Stability (1961), for the onset at k = 3.117. Steady
rolls and the onset in the square box are those of a spectral computation.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from pdefit_flow import RayleighBenard, project
from pdefit_flow.onset import critical_rayleigh
from scipy.optimize import newton_krylov
from timing import seconds

import pdefit
from pdefit._util.trees import cast
from pdefit.boundaries import Dirichlet, Periodic

jax.config.update("jax_enable_x64", True)

PLATES = (Periodic(), Dirichlet())
PAIR = 2 * np.pi / 3.117
ONSET = {PAIR: 1707.762, 1.0: 3784.3}
NUSSELT = {2000.0: 1.21051, 2500.0: 1.47173, 5000.0: 2.11026, 10000.0: 2.65250}


def box(cells: int, rayleigh: float, prandtl: float = 0.71, length: float = PAIR) -> RayleighBenard:
    grid = pdefit.CartesianGrid((cells, cells), (length, 1.0), boundary=PLATES)
    return RayleighBenard(grid, jnp.asarray(rayleigh), jnp.asarray(prandtl))


def extrapolated(values: list[float]) -> float:
    """Richardson's limit of values on grids of doubled resolution, with errors in even powers of a cell's size."""
    power, row = 4.0, values
    while len(row) > 1:
        row = [(power * b - a) / (power - 1) for a, b in zip(row[:-1], row[1:], strict=True)]
        power *= 4
    return row[0]


def onset() -> None:
    print("| box | cells | critical Ra | order |\n|---|---|---|---|")
    for length, known in ONSET.items():
        found = [critical_rayleigh(box(n, 1e4, length=length)) for n in (16, 32, 64, 128)]
        orders = [""] + [
            f"{np.log2((known - a) / (known - b)):.3f}" for a, b in zip(found[:-1], found[1:], strict=True)
        ]
        for n, value, order in zip((16, 32, 64, 128), found, orders, strict=True):
            print(f"| {length:.4f} | {n} x {n} | {value:.3f} | {order} |")
        print(f"| {length:.4f} | extrapolated | {extrapolated(found):.4f} (reference {known}) | |")


def run(system: RayleighBenard, y, time: float):
    """The state after a time, by RK4."""
    step = 0.9 * 2.785 / 2 * system.stable_step(y)
    film = pdefit.solve(system, y, np.array([time]), solver=pdefit.solvers.RK4(), dt=step, t0=0.0)
    return jax.tree.map(lambda x: x[-1], film)


def steady(system: RayleighBenard, temperature):
    """The steady state near a temperature: a fixed point of the flow over a fifth of a diffusive time."""
    y = run(system, system.background()._replace(T=temperature), 0.5)
    _, unravel = ravel_pytree(y)
    step = 0.9 * 2.785 / 2 * system.stable_step(y)

    def moved(flat):
        start = system.project(unravel(jnp.asarray(flat)))
        film = pdefit.solve(system, start, np.array([0.2]), solver=pdefit.solvers.RK4(), dt=step, t0=0.0)
        return np.asarray(ravel_pytree(jax.tree.map(lambda x: x[-1], film))[0]) - np.asarray(flat)

    return system.project(unravel(jnp.asarray(newton_krylov(moved, np.asarray(ravel_pytree(y)[0]), f_tol=1e-9))))


def nusselt() -> None:
    names = ("bottom", "top", "volume", "thermal", "viscous")
    print("\n| Ra | cells | " + " | ".join(names) + " |\n|" + "---|" * 7)
    for rayleigh, known in NUSSELT.items():
        found, (x, z) = [], box(16, rayleigh).grid.mesh()
        temperature = 0.1 * jnp.sin(np.pi * z) * jnp.cos(2 * np.pi * x / PAIR)
        for cells in (16, 32, 64):
            system = box(cells, rayleigh)
            state = steady(system, jax.image.resize(temperature, (cells, cells), "linear"))
            say, temperature = system.diagnostics(0.0, state), state.T
            found.append([float(say[f"nusselt_{name}"]) for name in names])
            print(
                f"| {rayleigh:g} | {cells} x {cells} | " + " | ".join(f"{v:.6f}" for v in found[-1]) + " |", flush=True
            )
        limits = [extrapolated([row[i] for row in found]) for i in range(len(names))]
        off = (np.mean(limits) / known - 1) * 100
        print(f"| {rayleigh:g} | extrapolated | " + " | ".join(f"{v:.6f}" for v in limits) + " |")
        print(f"| {rayleigh:g} | reference {known}: off by {off:.4f} % | | | | | |", flush=True)


def orders() -> None:
    """Orders of self-convergence of a flow that starts, on three grids each."""
    films = []
    for cells in (16, 32, 64, 128):
        system = box(cells, 5e3)
        x, z = system.grid.mesh()
        start = system.background()._replace(T=0.2 * jnp.sin(np.pi * z) * jnp.cos(2 * np.pi * x / PAIR))
        films.append(system.coarsen(run(system, start, 0.05), cells // 16) if cells > 16 else run(system, start, 0.05))
    print("\n| cells | T | u | w |\n|---|---|---|---|")
    for i, cells in enumerate((16, 32)):
        a, b, c = films[i : i + 3]
        rates = [np.log2(jnp.linalg.norm(p - q) / jnp.linalg.norm(q - r)) for p, q, r in zip(a, b, c, strict=True)]
        print(
            f"| {cells}, {2 * cells}, {4 * cells} | " + " | ".join(f"{rate:.3f}" for rate in rates) + " |", flush=True
        )


def share() -> None:
    """The share of the projection in a right-hand side."""
    print("\n| cells | precision | right-hand side, ms | projection, ms |\n|---|---|---|---|")
    for cells in (40, 100, 256):
        for dtype in ("float32", "float64"):
            system = cast(box(cells, 1e7, 7.0, 1.0), dtype)
            y = cast(system.init(jax.random.key(0)), dtype)
            programs: list[Callable] = [
                jax.jit(lambda y, s=system: s.vector_field(0.0, y, None)),
                jax.jit(lambda y, s=system: project(s.grid, (y.u, y.w))),
            ]
            times = np.divide(seconds(*(lambda f=f, y=y: [f(y) for _ in range(50)] for f in programs)), 50)
            print(f"| {cells} x {cells} | {dtype} | " + " | ".join(f"{1e3 * t:.3f}" for t in times) + " |", flush=True)


if __name__ == "__main__":
    onset()
    orders()
    share()
    nusselt()
