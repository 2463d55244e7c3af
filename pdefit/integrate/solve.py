"""Solving a system forward."""

from collections.abc import Iterator

import diffrax
import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.stable_step import settle
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid, constant_grid
from pdefit.integrate.loop.time_loop import store_all
from pdefit.systems.system import AbstractSystem


@eqx.filter_jit
def _solve(stepper: Stepper, y0: PyTree, grid: TimeGrid) -> PyTree:
    return store_all(stepper, y0, grid, lambda y, _: y, np.zeros(grid.count.size + grid.observes_start))[1]


def choose_grid(
    system: AbstractSystem,
    y0: PyTree,
    ts: np.ndarray,
    solver: diffrax.AbstractSolver,
    dt: float,
    t0: float,
    steps: Adaptive | None,
    args: PyTree,
) -> TimeGrid:
    """The steps from t0 to the times ts: of at most dt, or adaptive ones."""
    if steps is None:
        return constant_grid(t0, ts, dt)
    return adaptive_grid(system, y0, ts, solver=solver, steps=steps, t0=t0, args=args)


def solve(
    system: AbstractSystem,
    y0: PyTree,
    ts: np.ndarray,
    *,
    solver: diffrax.AbstractSolver,
    dt: float,
    t0: float,
    steps: Adaptive | None = None,
    args: PyTree = None,
) -> PyTree:
    """The states at the times ts, stacked on a leading axis, from y0 at t0; with steps of at most dt, or adaptive ones. `args`
    are exogenous inputs of the system."""
    solver = settle([(system, y0)], dt, solver)
    return _solve(Stepper(system, solver, args), y0, choose_grid(system, y0, ts, solver, dt, t0, steps, args))


def frames(
    system: AbstractSystem,
    y0: PyTree,
    ts: np.ndarray,
    *,
    solver: diffrax.AbstractSolver,
    dt: float,
    t0: float,
    steps: Adaptive | None = None,
    args: PyTree = None,
    block: int = 32,
) -> Iterator[PyTree]:
    """The states at the times ts one after the other, holding no more than `block` of them."""
    solver = settle([(system, y0)], dt, solver)
    stepper, ts = Stepper(system, solver, args), np.asarray(ts, np.float64)
    if ts.size and ts[0] == t0:
        yield y0
        ts = ts[1:]
    for first in range(0, ts.size, block):
        part = ts[first : first + block]
        states = _solve(stepper, y0, choose_grid(system, y0, part, solver, dt, t0, steps, args))
        for i in range(part.size):
            yield jax.tree.map(lambda x, i=i: x[i], states)
        y0, t0 = jax.tree.map(lambda x: x[-1], states), float(part[-1])
