"""Variants of an objective: with another adjoint, a shorter record or other steps."""

import dataclasses

import diffrax
import equinox as eqx
import jax
from jaxtyping import Array, Float

from pdefit._util.trees import with_parts
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed
from pdefit.integrate.loop.stable_step import MARGIN, steps_for
from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.controls.parametrization.base import Plain
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.trajectory_runner import TrajectoryRunner
from pdefit.inverse.shooting.trajectories import laid_out, shortened_layout


def is_adaptive(objective: AbstractObjective) -> bool:
    """True if steps are adaptive: chosen at a point and frozen."""
    return objective.steps is not None


def with_adjoint(functional: Functional, adjoint: AbstractAdjoint) -> Functional:
    """The functional with another sensitivity algorithm, resolved for its problem."""
    runner = TrajectoryRunner(functional.runner.solver, adjoint, functional.runner.batch)
    runner = runner.resolve_for(functional.controls.extremes(functional.problem), functional.layout.time_grid)
    return eqx.tree_at(lambda f: f.runner, functional, runner)


def with_tangents(objective: Objective) -> Objective:
    """The objective with an adjoint that has tangents: its own, or the discrete adjoint.

    Unlike gradients, tangents do not depend on the algorithm.
    """
    if objective.runner.adjoint.has_tangents:
        return objective
    return objective.each(
        lambda part, own: (eqx.tree_at(lambda f: f.runner.adjoint, part, Checkpointed()), own), objective.theta0
    )[0]


def shortened(
    objective: AbstractObjective, theta: Float[Array, " p"], count: int
) -> tuple[AbstractObjective, Float[Array, " q"]]:
    """The objective on the beginning of every recording, with theta converted to it.

    Node states of later windows are left out of both.

    **Arguments:**

    - `objective`: the objective.
    - `theta`: the point, (p,).
    - `count`: the number of observation times to keep.
    """
    if count >= objective.observations.ts.shape[-1]:
        return objective, theta
    return objective.each(lambda functional, own: _shortened(functional, own, count), theta)


def _shortened(functional: Functional, theta: Float[Array, " p"], count: int) -> tuple[Functional, Float[Array, " q"]]:
    if count >= functional.observations.ts.size:
        return functional, theta
    observations = functional.observations.at(slice(0, count))
    layout = shortened_layout(functional.formulation, observations.ts, functional.dt, functional.layout.time_grid)
    problem = functional.at(theta)
    problem = with_parts(problem, lambda p: p.nodes, jax.tree.map(lambda x: x[: layout.segments], problem.nodes))

    def shortened_control(control: BoundControl) -> BoundControl:
        if not control.is_node:
            return control
        shape = (layout.segments, *control.shape[1:])
        labels = control.labels[: len(control.labels) * shape[0] // control.shape[0]]
        return dataclasses.replace(control, parametrization=Plain(shape), labels=labels)

    controls = Controls(tuple(map(shortened_control, functional.controls.items)))
    new = observations, layout, problem, controls
    short = with_parts(functional, lambda f: (f.observations, f.layout, f.problem, f.controls), new)
    # without node states theta stays as it is, to the bit, and is not converted to physical values and back
    return short, controls.theta(problem) if functional.controls.nodes else theta


def with_dt(functional: Functional, dt: float, solver: diffrax.AbstractSolver | None = None) -> Functional:
    """The functional with another constant step, which counts as chosen, not as given.

    **Arguments:**

    - `functional`: the functional.
    - `dt`: the step, in the system's time unit.
    - `solver`: another solver; by default the same.
    """
    grid = laid_out(functional.formulation, functional.at, functional.theta0, functional.observations.ts, dt).time_grid
    runner = TrajectoryRunner(solver or functional.runner.solver, functional.runner.adjoint, functional.runner.batch)
    runner = runner.resolve_for(functional.controls.extremes(functional.problem), grid)
    return eqx.tree_at(lambda f: (f.dt, f.runner, f.layout.time_grid), functional, (dt, runner, grid))


def stepped(objective: Objective, stable: float | None) -> Objective:
    """The objective with constant steps for another stability limit, if steps or stages were left open.

    All recordings have the same step.

    **Arguments:**

    - `objective`: the objective.
    - `stable`: the largest stable step of explicit Euler; None if no system states one.
    """
    solver, dt = steps_for(stable, objective.asked_dt, objective.asked_solver, MARGIN)
    return objective.each(lambda part, own: (with_dt(part, dt, solver), own), objective.theta0)[0]
