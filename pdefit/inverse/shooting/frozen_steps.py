"""Time grids of all trajectories of a record: their first steps, and those of an adaptive pass."""

import diffrax
import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.stable_step import MARGIN, choose_steps
from pdefit.integrate.loop.time_grid import TimeGrid, cropped_like, stack_grids
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.formulation import AbstractFormulation, Layout


def frozen_steps(
    problem: Problem,
    starts: PyTree,
    ts: np.ndarray,
    layout: Layout,
    solver: diffrax.AbstractSolver,
    steps: Adaptive,
) -> TimeGrid:
    """The time grid of every trajectory of a layout, with the steps of an adaptive pass.

    **Arguments:**

    - `problem`: the equations, and their exogenous inputs.
    - `starts`: the states at the starts of the trajectories, (S, ...).
    - `ts`: the observation times of the record.
    - `layout`: the S trajectories.
    - `solver`: a solver that estimates its error.
    - `steps`: the tolerance.
    """

    def one(s: int) -> TimeGrid:
        y0, first = jax.tree.map(lambda x: x[s], starts), float(ts[layout.nodes[s]])
        seen = ts[np.unique(layout.index[s])]
        return adaptive_grid(problem.system, y0, seen, solver=solver, steps=steps, t0=first, args=problem.args)

    return stack_grids([one(s) for s in range(layout.segments)])


def first_steps(
    problem: Problem,
    ts: np.ndarray,
    layout: Layout,
    formulation: AbstractFormulation,
    solver: diffrax.AbstractSolver,
    dt: float | None,
    steps: Adaptive | None,
) -> tuple[diffrax.AbstractSolver, float, Layout]:
    """Solver, largest constant or smallest adaptive step, and the layout with its steps, at the guesses.

    **Arguments:**

    - `problem`, `ts`: the problem at the guesses, and the observation times of the record.
    - `layout`, `formulation`: the trajectories, and how they were cut.
    - `solver`, `dt`, `steps`: as they were given; None for steps that are left open, and for constant ones.
    """
    if steps is None:
        solver, dt = choose_steps([(problem.system, problem.y0)], dt, solver, MARGIN, problem.args)
        return solver, dt, formulation.layout(ts, dt)
    if dt is not None:
        raise PdefitError(f"dt = {dt:g} and adaptive steps exclude each other; set dt=null, or bound steps.dtmax")
    grid = frozen_steps(problem, formulation.starts(problem.y0, problem.nodes), ts, layout, solver, steps)
    return solver, grid.smallest, eqx.tree_at(lambda x: x.time_grid, layout, grid)


def shortened_layout(formulation: AbstractFormulation, ts: np.ndarray, dt: float, whole: TimeGrid) -> Layout:
    """The layout of the beginning of a record, with the steps of the whole record where those are frozen.

    **Arguments:**

    - `formulation`: how the record is cut.
    - `ts`: the observation times of the beginning.
    - `dt`: the largest step where steps are constant.
    - `whole`: the time grid of the whole record.
    """
    layout = formulation.layout(ts, dt)
    if not whole.frozen:
        return layout
    return Layout(cropped_like(whole, layout.time_grid), layout.index, layout.counts, layout.nodes)
