"""First-order shift of an estimate with finer steps or cells, and a functional with finer cells."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError, first_line
from pdefit.integrate.loop.stable_step import stability_limit
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import GRADIENT, normal_equations, weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.problem.instrument import AbstractObservationOperator, Compose
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.trajectories import laid_out
from pdefit.inverse.uncertainty.intervals import Intervals, intervals
from pdefit.systems.capabilities import AbstractRefinable
from pdefit.systems.grid import AbstractGrid
from pdefit.systems.system import AbstractSystem


def first_order_shift(
    functional: AbstractObjective,
    finer: AbstractObjective,
    theta: Float[Array, " p"],
    known: Intervals,
    changes: Sequence[dict[str, np.ndarray]],
) -> Float[np.ndarray, " k"]:
    """Shift of an estimate with finer steps or cells, in half widths of its interval; NaN without an interval.

    It is -(J_r^T J_r)^-1 J_r^T (r' - r), with r' the residuals with finer steps or cells. It costs the normal equations
    once more; no Jacobian is stored. With unknown fields it costs a gradient instead.

    With free node states the continuity residuals are stiff, and no change of the data can represent them. The shift is
    then the Gauss-Newton step of the finer problem, less the step of the functional itself.

    **Arguments:**

    - `functional`: the objective of the fit.
    - `finer`: the same objective with finer steps or cells.
    - `theta`: the estimate, (p,).
    - `known`: its intervals.
    - `changes`: r' - r of each recording, as in `residual_changes`.
    """
    theta = jnp.asarray(theta)
    each = iter(changes)

    def moved(part: Functional, own: Array) -> tuple[Functional, Array]:
        return with_residuals_moved(part, next(each)), own

    if functional.controls.nodes:
        own = intervals(finer, theta)
        shift = known.inverse @ known.gradient - own.inverse @ own.gradient
    else:
        shift = -known.inverse @ (_pulled(functional.each(moved, theta)[0], theta, known) - known.gradient)
    reach = known.reach[: shift.size]
    usable = np.isfinite(reach) & (reach > 0)
    return np.where(usable, shift / np.where(usable, reach, 1.0), np.nan)


def residual_changes(
    finer: AbstractObjective, theta: Float[Array, " p"], residuals: Sequence[dict[str, np.ndarray]]
) -> list[dict[str, np.ndarray]]:
    """Changes of the weighted residuals of every recording with another functional or another point, one run each.

    **Arguments:**

    - `finer`: the other functional, such as one with finer steps.
    - `theta`: its point, (p,).
    - `residuals`: the weighted residuals of each recording, by variable (S, I, ...).
    """
    pairs = zip(finer.parts(jnp.asarray(theta)), residuals, strict=True)
    return [{name: x - now[name] for name, x in weighted(*then).items()} for then, now in pairs]


def _pulled(functional: AbstractObjective, theta: Float[Array, " p"], known: Intervals) -> np.ndarray:
    """The gradient J_r^T r."""
    if len(known.inverse) < theta.size:
        return np.asarray(GRADIENT(functional, theta)[1])
    return np.asarray(normal_equations(with_tangents(functional), theta)[1])


def with_residuals_moved(functional: Functional, moved: dict[str, Any]) -> Functional:
    """The functional with data that increase its residuals by given amounts. It needs no new compiled program.

    **Arguments:**

    - `functional`: the functional.
    - `moved`: the change of the weighted residuals of each variable, (S, I, ...).
    """
    layout, data, values = functional.layout, functional.observations, {}
    for name, change in moved.items():
        by = np.zeros(data.values[name].shape)
        by[layout.index[layout.counts]] = np.asarray(change)[layout.counts]
        data_moved = np.asarray(data.values[name]) - np.asarray(data.sigma[name]) * by
        values[name] = jax.device_put(data_moved.astype(data.values[name].dtype))
    return eqx.tree_at(lambda f: f.observations.values, functional, {**data.values, **values})


# part of the stability limit below which a finer step is chosen
_SAFETY = 0.8


class _Averaged(AbstractObservationOperator):
    """Observation operator: averages of a state over two cells along every axis."""

    system: AbstractSystem

    def __call__(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        # not named fields: the next operator takes a state
        return self.system.coarsen(y, 2)  # pyright: ignore[reportAttributeAccessIssue]


def finer_grid(functional: Functional, theta: Float[Array, " p"]) -> Functional:
    """The functional at theta with twice as many cells along every axis, and the same controls.

    States are reconstructed by the grid (`prolonged`), and the instrument observes their averages on the old grid. An
    unknown initial state keeps its estimate: its controls are left out, and the problem has their values at theta.
    Parameter fields have the same value in both halves of a cell. A constant step is divided as the stability of the
    finer grid requires.

    **Arguments:**

    - `functional`: the functional.
    - `theta`: the point, (p,).

    **Errors:** PdefitError if the grid cannot be refined, or an unknown belongs to its cells.
    """
    problem = functional.at(theta)
    system = problem.system
    grid = getattr(system, "grid", None)
    if not (isinstance(system, AbstractRefinable) and isinstance(grid, AbstractGrid)):
        raise PdefitError(f"{type(system).__name__} has no grid that can be refined (AbstractRefinable)")
    tied = [
        c.path
        for c in functional.controls.items
        if c.is_node or (c.shape == grid.shape and not c.is_state) or c.path.split(".")[0] == "observe"
    ]
    if tied:
        raise PdefitError(f"the unknown {', '.join(tied)} would have to be refined, too")
    if problem.observe.takes_state:
        raise PdefitError("the exposure of the camera would have to take steps on the finer grid, too")
    fine = _refined(system, grid)

    def state(x: Any) -> Array:
        if x.shape[-grid.ndim :] != grid.shape:
            raise PdefitError(f"a part of the state with shape {x.shape} does not live on the grid {grid.shape}")
        return jnp.asarray(grid.prolonged(np.asarray(x)), x.dtype)

    y0, nodes = jax.tree.map(state, (problem.y0, problem.nodes))
    observe = Compose((_Averaged(fine), problem.observe))
    refined = Problem(fine, y0, observe, nodes, problem.args, initial=problem.initial, events=problem.events)
    controls = Controls(()) if functional.controls.states.items else functional.controls
    finer = eqx.tree_at(lambda f: (f.problem, f.controls), functional, (refined, controls))
    if functional.steps is None:
        dt = _stable(functional.dt, stability_limit(fine, y0, functional.runner.solver))
        layout = laid_out(functional.formulation, functional.at, theta, functional.observations.ts, dt)
        finer = eqx.tree_at(lambda f: (f.dt, f.layout), finer, (dt, layout))
    else:
        finer = finer.renewed(theta)
    runner = finer.runner.resolve_for([refined], finer.layout.time_grid)
    return eqx.tree_at(lambda f: f.runner, finer, runner)


def _refined(system: Any, grid: AbstractGrid) -> Any:
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
    """An integer fraction of dt that is stable."""
    if limit is None or dt <= limit:
        return dt
    return dt / math.ceil(dt / (_SAFETY * limit))
