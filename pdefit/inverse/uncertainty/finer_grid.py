"""A functional with cells of half the width, observed through the cells that it had."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.block_mean import prolong
from pdefit._util.errors import PdefitError, first_line
from pdefit.integrate.loop.stable_step import stability_limit
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.instrument import AbstractObservationOperator, Compose
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractRefinable
from pdefit.systems.grid import CartesianGrid
from pdefit.systems.system import AbstractSystem

# part of the stability limit below which a finer step is chosen
_SAFETY = 0.8


class _Averaged(AbstractObservationOperator):
    """The observation operator that averages a state over two cells along every axis."""

    system: AbstractSystem

    def __call__(self, t: Array, y: PyTree, args: PyTree) -> dict[str, Array]:
        # not named fields: the next operator takes a state
        return self.system.coarsen(y, 2)  # pyright: ignore[reportAttributeAccessIssue]


def finer_grid(functional: Functional, theta: Float[Array, " p"]) -> Functional:
    """The functional at theta with twice as many cells along every axis, and the same controls.

    States are reconstructed from their cell averages (`pdefit._util.block_mean`), and the instrument observes the
    averages over the old cells. Parameters that are fields are the same in both halves of a cell. A constant step is
    divided as the stability of the finer grid demands.

    **Arguments:**

    - `functional`: the functional.
    - `theta`: the point, (p,).

    **Errors:** PdefitError where the grid cannot be refined, or an unknown belongs to its cells.
    """
    problem = functional.at(theta)
    system = problem.system
    grid = getattr(system, "grid", None)
    if not (isinstance(system, AbstractRefinable) and isinstance(grid, CartesianGrid)):
        raise PdefitError(f"{type(system).__name__} has no grid that can be refined (AbstractRefinable)")
    tied = [
        c.path
        for c in functional.controls.items
        if c.is_state or c.shape == grid.shape or c.path.split(".")[0] == "observe"
    ]
    if tied:
        raise PdefitError(f"the unknown {', '.join(tied)} would have to be refined, too")
    fine = _refined(system, grid)
    wraps = list(grid.periodic)

    def state(x: Any) -> Array:
        if x.shape[-grid.ndim :] != grid.shape:
            raise PdefitError(f"a part of the state with shape {x.shape} does not live on the grid {grid.shape}")
        return jnp.asarray(prolong(np.asarray(x), wraps), x.dtype)

    y0, nodes = jax.tree.map(state, (problem.y0, problem.nodes))
    observe = Compose((_Averaged(fine), problem.observe))
    made = Problem(fine, y0, observe, nodes, problem.args)
    finer = eqx.tree_at(lambda f: f.problem, functional, made)
    if functional.steps is None:
        dt = _stable(functional.dt, stability_limit(fine, y0, functional.runner.solver))
        layout = functional.formulation.layout(functional.observations.ts, dt)
        finer = eqx.tree_at(lambda f: (f.dt, f.layout), finer, (dt, layout))
    else:
        finer = finer.renewed(theta)
    runner = finer.runner.resolve_for([made], finer.layout.time_grid)
    return eqx.tree_at(lambda f: f.runner, finer, runner)


def _refined(system: Any, grid: CartesianGrid) -> Any:
    """The system with twice as many cells along every axis."""
    fields = {f.name: getattr(system, f.name) for f in dataclasses.fields(system)}
    same = {n: x for n, x in fields.items() if eqx.is_array(x) and x.shape == grid.shape}
    for axis in range(grid.ndim):
        same = {n: jnp.repeat(x, 2, axis=axis) for n, x in same.items()}
    try:
        return dataclasses.replace(
            system, grid=dataclasses.replace(grid, shape=tuple(2 * n for n in grid.shape)), **same
        )
    # the constructor of a plugin may fail with any exception on arguments that it does not expect
    except Exception as error:
        raise PdefitError(f"{type(system).__name__} cannot be made on a finer grid: {first_line(error)}") from None


def _stable(dt: float, limit: float | None) -> float:
    """A whole fraction of dt that is stable."""
    if limit is None or dt <= limit:
        return dt
    return dt / math.ceil(dt / (_SAFETY * limit))
