"""Runge-Kutta-Chebyshev against Tsit5 on three species that diffuse fast, forward and for the gradient in a whole field.

    ./run python tests/benchmarks/stabilised.py          # writes stabilised.png beside this file and prints the table
    ./run python tests/benchmarks/stabilised.py 64       # one grid

The system of Rackauckas et al. (`pdefit_reaction.one_sided_source`) on N x N cells over 10 s, float64. The error is that of
the state at the end, and of the gradient of its half squared misfit in the whole source field, relative to the largest value,
against Dopri8 with a tolerance of 1e-10.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pdefit.cli.runtime.environment import prepare

prepare()

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_reaction import Association, one_sided_source
from timing import one_core, seconds

import pdefit
from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.loop.stable_step import settle, stability_limit
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import constant_grid
from pdefit.output.pictures.style import COLORS, figure

jax.config.update("jax_enable_x64", True)

END = 10.0
TARGETS = (1e-2, 1e-3, 1e-4, 1e-5)


class Run(NamedTuple):
    """A way to solve: what it is, its steps, its end state and its gradient in the source."""

    method: str
    what: str
    forward: Callable[[], Any]
    gradient: Callable[[], Any]


def half_square(y: Any) -> Any:
    """A misfit that every concentration has a part in."""
    return sum(jnp.sum((u - v) ** 2) for u, v in zip(y, (0.3, 0.4, 0.2), strict=True)) / 2


def run(system: Association, method: str, solver: Any, dt: float | None = None, rtol: float | None = None) -> Run:
    """Constant steps of at most dt, or adaptive ones that are frozen."""
    y0, ts = system.init(None), np.array([END])
    if dt is None:
        solver, steps = settle([(system, y0)], None, solver), pdefit.Adaptive(rtol, rtol)
        time_grid = adaptive_grid(system, y0, ts, solver=solver, steps=steps, t0=0.0)
        what = f"rtol {rtol:.0e}, {time_grid.steps} steps"
    else:
        solver, time_grid = settle([(system, END_STATE[system.grid.shape[0]])], dt, solver), constant_grid(0.0, ts, dt)
        what = f"{time_grid.steps} steps"
    if isinstance(solver, pdefit.solvers.RKC):
        what += f" of {solver.stages} stages"

    def end(adjoint: Any) -> Callable:
        def state(a: Any, system: Association) -> Any:
            stepper = Stepper(eqx.tree_at(lambda s: s.a, system, a), solver)
            return adjoint.run(stepper, y0, time_grid, lambda y, _: jnp.zeros(()), np.zeros(1))[0]

        return state

    forward = eqx.filter_jit(end(pdefit.adjoints.Checkpointed(2)))
    gradient = eqx.filter_jit(jax.grad(lambda a, s: half_square(end(pdefit.adjoints.Checkpointed(2))(a, s))))
    return Run(method, what, lambda: forward(system.a, system), lambda: gradient(system.a, system))


END_STATE: dict[int, Any] = {}


def far(found: Any, exact: Any) -> float:
    """The largest difference over the largest value."""
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True))
    return max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs) / max(float(jnp.max(jnp.abs(b))) for _, b in pairs)


def measured(runs: list[Run], exact: Any, which: str, repeats: int) -> list[tuple[str, str, float, float]]:
    """Method, steps, error and seconds of every run, timed in turns."""
    calls = [getattr(r, which) for r in runs]
    errors = [far(call(), exact) for call in calls]
    times = seconds(*calls, repeats=repeats)
    rows = [(r.method, r.what, e, t) for r, e, t in zip(runs, errors, times, strict=True)]
    for method, what, error, time in rows:
        print(f"    {which}, {method}, {what}: error {error:.1e}, {time:.3f} s", flush=True)
    return rows


def best(rows: list[tuple[str, str, float, float]], method: str, target: float) -> tuple[str, float] | None:
    """The fastest run of a method that is as accurate as asked."""
    good = [(t, what) for m, what, e, t in rows if m == method and e <= target]
    return None if not good else (min(good)[1], min(good)[0])


def compare(cells: int) -> dict[str, list[tuple[str, str, float, float]]]:
    """All runs on one grid."""
    grid = pdefit.CartesianGrid((cells, cells), (100.0, 100.0), length_unit="um")
    system = one_sided_source(grid)
    reference = run(system, "Dopri8", diffrax.Dopri8(), rtol=1e-10)
    state = END_STATE[cells] = reference.forward()
    limit = stability_limit(system, state, diffrax.Tsit5())
    runs = [run(system, "Tsit5", diffrax.Tsit5(), dt=0.98 * limit)]
    runs += [run(system, "Tsit5", diffrax.Tsit5(), rtol=r) for r in (1e-3, 1e-6)]
    runs += [
        run(system, "RKC", pdefit.solvers.RKC(), dt=END / n)
        for n in (10, 14, 20, 28, 40, 57, 80, 113, 160, 320, 640, 1280)
    ]
    rows = {"forward": measured(runs, state, "forward", 3)}
    # of a loose tolerance the gradient is worthless: steps at the edge of stability
    rows["gradient"] = measured([runs[0], *runs[2:]], reference.gradient(), "gradient", 2 if cells > 64 else 3)
    for which, found in rows.items():
        for target in TARGETS:
            slow, fast = best(found, "Tsit5", target), best(found, "RKC", target)
            if slow and fast:
                print(f"| {cells}^2 {which} | {target:.0e} | {slow[0]}: {slow[1]:.2f} s | {fast[0]}: {fast[1]:.3f} s | "
                      f"{slow[1] / fast[1]:.1f} x |", flush=True)  # fmt: skip
    return rows


def main() -> None:
    one_core()
    grids = [int(n) for n in sys.argv[1:]] or [64, 128]
    with figure(Path(__file__).with_name("stabilised.png"), width=9.0, height=4.0) as fig:
        axes = fig.subplots(1, 2, sharey=True)
        for n, cells in enumerate(grids):
            for ax, (which, rows) in zip(axes, compare(cells).items(), strict=True):
                for m, (method, style) in enumerate((("RKC", "-"), ("Tsit5", "--"))):
                    points = sorted((t, e) for name, _, e, t in rows if name == method and np.isfinite(e))
                    color = COLORS[2 * n + m]
                    ax.loglog(*zip(*points, strict=True), "o" + style, color=color, markersize=4,
                              label=f"{method}, {cells}$^2$")  # fmt: skip
                ax.set_xlabel("CPU time (s, one core)")
                ax.set_title(f"{which}: {'end state' if which == 'forward' else 'in the source field'}")
        axes[0].set_ylabel("relative error")
        axes[0].legend(loc="best")


if __name__ == "__main__":
    main()
