"""Time grids of all trajectories of a record with the steps of an adaptive pass."""

import diffrax
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.time_grid import TimeGrid, cropped_like, stack_grids
from pdefit.inverse.shooting.formulation import AbstractFormulation, Layout
from pdefit.systems.system import AbstractSystem


def frozen_steps(
    system: AbstractSystem,
    starts: PyTree,
    ts: np.ndarray,
    layout: Layout,
    solver: diffrax.AbstractSolver,
    steps: Adaptive,
    args: PyTree = None,
) -> TimeGrid:
    """The time grid of every trajectory of a layout, with the steps of an adaptive pass.

    **Arguments:**

    - `system`: the equations.
    - `starts`: the states at the starts of the trajectories, (S, ...).
    - `ts`: the observation times of the record.
    - `layout`: the S trajectories.
    - `solver`: a solver that estimates its error.
    - `steps`: the tolerance.
    - `args`: exogenous inputs of the system.
    """

    def one(s: int) -> TimeGrid:
        y0, first = jax.tree.map(lambda x: x[s], starts), float(ts[layout.nodes[s]])
        seen = ts[np.unique(layout.index[s])]
        return adaptive_grid(system, y0, seen, solver=solver, steps=steps, t0=first, args=args)

    return stack_grids([one(s) for s in range(layout.segments)])


def refuse_dt(dt: float | None) -> None:
    """Refuse a constant step beside adaptive ones."""
    if dt is not None:
        raise PdefitError(f"dt = {dt:g} and adaptive steps exclude each other; set dt=null, or bound steps.dtmax")


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
