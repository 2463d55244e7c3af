"""Error of a gradient against the time it takes: this engine, diffrax and odeint on the same front.

    ./run python tests/benchmarks/work_precision.py          # writes work_precision.png beside this file

Fisher's front, one dimension, 256 cells, float64; the gradient of half the squared misfit at ten times, with respect to D,
r and the initial field. The error is that against a gradient with a tolerance of 1e-12.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdefit.cli.runtime.environment import prepare

prepare()

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.ode import odeint
from matplotlib.ticker import LogLocator
from pdefit_reaction import FisherKPP
from timing import one_core, seconds

import pdefit
from pdefit.output.pictures.style import COLORS, figure

jax.config.update("jax_enable_x64", True)

one_core()
CELLS = int(sys.argv[1]) if len(sys.argv) > 1 else 256
GRID = pdefit.CartesianGrid(shape=(CELLS,), extent=(40.0,), origin=(-20.0,))
TS = np.linspace(0.0, 2.0, 11)


def front(D: Any, r: Any) -> FisherKPP:
    return FisherKPP(GRID, D=D, r=r, front=-8.0)


Y0 = front(1.0, 1.0).init(None).u
DATA = np.asarray(pdefit.simulate(front(1.0, 1.0), front(1.0, 1.0).init(None), TS, dt=0.004).values["u"])[1:]
X = (jnp.asarray(1.1), jnp.asarray(0.9), Y0)


def half_square(us: Any) -> Any:
    return jnp.sum((us - DATA) ** 2) / 2


def field(system: FisherKPP) -> Callable:
    state = type(system.init(None))
    return lambda t, u, args: system.vector_field(t, state(u), None).u


def ours(solver: Any, **steps: Any) -> Callable:
    """The gradient by the functional, whose theta is (D, r, u) itself."""
    data = pdefit.Observations.build(TS, {"u": np.concatenate([np.full((1, CELLS), np.nan), DATA])})
    controls = {
        "D": pdefit.transforms.Identity(),
        "r": pdefit.transforms.Identity(),
        "y0": {"u": pdefit.transforms.Identity()},
    }
    problem = pdefit.Problem(front(X[0], X[1]), front(X[0], X[1]).init(None)._replace(u=Y0))
    J = pdefit.Functional(problem, data, controls, solver=solver, adjoint=pdefit.adjoints.Checkpointed(1), **steps)
    gradient = eqx.filter_jit(lambda f, theta: jax.grad(lambda t: f.value(t))(theta))
    scale = jax.jacfwd(lambda theta: jnp.concatenate([v.ravel() for v in J.controls.values(theta).values()]))(J.theta0)
    return lambda: gradient(J, J.theta0) / jnp.diag(scale)


def by_diffrax(rtol: float) -> Callable:
    def value(D: Any, r: Any, u: Any) -> Any:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(field(front(D, r))), diffrax.Tsit5(), 0.0, 2.0, 1e-3, u, max_steps=4096,
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol / 100),
            saveat=diffrax.SaveAt(ts=jnp.asarray(TS[1:])),
        )  # fmt: skip
        return half_square(found.ys)

    gradient = jax.jit(jax.grad(value, argnums=(0, 1, 2)))
    return lambda: jnp.concatenate([jnp.ravel(g) for g in gradient(*X)])


def by_odeint(rtol: float) -> Callable:
    def value(D: Any, r: Any, u: Any) -> Any:
        us = odeint(
            lambda u, t, D, r: field(front(D, r))(t, u, None), u, jnp.asarray(TS), D, r, rtol=rtol, atol=rtol / 100
        )
        return half_square(us[1:])

    gradient = jax.jit(jax.grad(value, argnums=(0, 1, 2)))
    return lambda: jnp.concatenate([jnp.ravel(g) for g in gradient(*X)])


def main() -> None:
    stable = 0.25 * (40.0 / CELLS) ** 2
    steps = [2.4 * stable / k for k in (1, 2, 4, 8)]
    tolerances = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
    curves = {
        "RK4, constant steps": [ours(pdefit.solvers.RK4(), dt=dt) for dt in steps],
        "Tsit5, adaptive, frozen": [ours(diffrax.Tsit5(), steps=pdefit.Adaptive(t, t / 100)) for t in tolerances],
        "diffrax Tsit5, RecursiveCheckpoint": [by_diffrax(t) for t in tolerances],
        "jax odeint (backward in time)": [by_odeint(t) for t in tolerances[:5]],
    }
    exact = ours(diffrax.Dopri8(), steps=pdefit.Adaptive(1e-12, 1e-13))()
    norm = float(jnp.linalg.norm(exact))
    with figure(Path(__file__).with_name("work_precision.png"), width=6.0, height=4.0) as fig:
        ax = fig.subplots()
        for i, (name, runs) in enumerate(curves.items()):
            errors = [float(jnp.linalg.norm(run() - exact)) / norm for run in runs]
            times = [1e3 * seconds(run, repeats=3)[0] for run in runs]
            print(name, [f"{t:.1f} ms: {e:.1e}" for t, e in zip(times, errors, strict=True)], flush=True)
            shown = [(t, e) for t, e in zip(times, errors, strict=True) if np.isfinite(e)]
            label = name if shown else f"{name}: not finite"
            ax.loglog([t for t, _ in shown], [e for _, e in shown], "o-", color=COLORS[i], markersize=4, label=label)
        ax.xaxis.set_major_formatter("{x:.3g}")
        ax.xaxis.set_minor_formatter("{x:.3g}")
        ax.yaxis.set_major_locator(LogLocator(numticks=9))
        ax.set_xlabel("time of one gradient (ms, one core)")
        ax.set_ylabel("relative error of the gradient")
        ax.set_title(f"Fisher front, {CELLS} cells: D, r and the initial field")
        ax.legend(loc="upper right")


if __name__ == "__main__":
    main()
