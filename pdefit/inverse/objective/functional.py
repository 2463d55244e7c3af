"""The functional J(theta) of one record: half the squared norm of residuals, with its derivatives."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.precision import demand_float64
from pdefit._util.trees import cast
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed, demand_tangents
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.step_error import step_error
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.integrate.loop.stable_step import MARGIN, choose_steps, settle
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.numerics import Numerics
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.controls.bind import bind
from pdefit.inverse.controls.declare import Declaration
from pdefit.inverse.controls.regularizers import AbstractRegularizer
from pdefit.inverse.controls.vector import Controls
from pdefit.inverse.objective._residual_map import AbstractResidualMap
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.accumulate import Misfit, TangentLinearMisfit
from pdefit.inverse.objective.normal_equations import Tangents
from pdefit.inverse.objective.residuals import TrajectoryRunner
from pdefit.inverse.objective.segment_jacobian import jvp_blocks, pattern, refuse_dense
from pdefit.inverse.objective.smooth_tangents import check_switches
from pdefit.inverse.problem.instrument import check_observed
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.continuity import continuity_sigma
from pdefit.inverse.shooting.formulation import AbstractFormulation, Layout, Single
from pdefit.inverse.shooting.frozen_steps import frozen_steps, refuse_dt
from pdefit.inverse.shooting.nodes import check_free

Same = TypeVar("Same", bound="Functional")


class Functional(AbstractResidualMap):
    """The objective J(theta) = 1/2 |r(theta)|^2 of one record.

        r = (W (H(y(t_i)) - d_i), gaps between segments, regularizers, priors)

    W divides by sigma, H is the observation operator, and d_i are the data at time t_i. The run has the precision of
    `y0`: data, weights, states and adjoints. Times, theta with its map to the controls, and sums are float64. The
    misfit is accumulated observation by observation in the time loop. So neither states nor residuals of a whole
    trajectory are held, except by `residuals` and `jacobian`.

    **Arguments:**

    - `problem`: the system, its initial state and its inputs at their nominal values.
    - `observations`: what was measured, at times of which the first is that of the initial state.
    - `controls`: the unknowns, nested like the problem: `{"D": Control(...), "y0": {"u": Log()}}`.
    - `solver`: the time stepping method; default `RK4()`.
    - `dt`: the largest step, in the system's time unit. By default it is 0.8 of what is stable at the guess, and a fit
      chooses it again where it must.
    - `steps`: adaptive steps in place of `dt`, chosen at the guess and frozen until `renewed`.
    - `adjoint`: how derivatives are computed; default `Checkpointed()`.
    - `batch`: how several segments are run; default all at once (`Vmap()`).
    - `formulation`: how the record is cut into segments; default one (`Single()`).
    - `regularizers`: residuals of controls that are added to those of the data.
    - `smooth_tangents`: whether Gauss-Newton follows the smooth twin of hard switches, while residuals keep them (see
      `pdefit.inverse.objective.smooth_tangents`); default False.
    - `key`: of random guesses; default `jax.random.key(0)`.

    It holds the problem at its guesses, with bound `controls` and the vector `theta0` of their guesses. `layout` is the
    record cut into segments with their steps, and `runner` the solver, adjoint and batch.
    """

    problem: Problem
    observations: Observations
    measured_sigma: dict[str, Array]
    controls: Controls
    continuity_sigma: dict[str, Array]
    layout: Layout
    runner: TrajectoryRunner
    formulation: AbstractFormulation
    regularizers: tuple[AbstractRegularizer, ...]
    steps: Adaptive | None
    smooth_tangents: bool
    # the largest constant step, or of adaptive steps the smallest at the guess
    dt: float
    # solver and constant step as they were given
    asked_solver: diffrax.AbstractSolver
    asked_dt: float | None

    def __init__(
        self,
        problem: Problem,
        observations: Observations,
        controls: Declaration,
        *,
        solver: diffrax.AbstractSolver | None = None,
        dt: float | None = None,
        steps: Adaptive | None = None,
        adjoint: AbstractAdjoint | None = None,
        batch: AbstractBatch | None = None,
        formulation: AbstractFormulation | None = None,
        regularizers: tuple[AbstractRegularizer, ...] = (),
        smooth_tangents: bool = False,
        key: PRNGKeyArray | None = None,
    ):
        demand_float64()
        check_switches(problem.system, smooth_tangents)
        self.smooth_tangents, self.steps = smooth_tangents, steps
        self.asked_solver, self.asked_dt = solver or RK4(), dt
        self.formulation = formulation or Single()
        # the state's precision is the run's
        self.observations = cast(problem.observe.located(observations), jax.tree.leaves(problem.y0)[0].dtype)
        self.measured_sigma = self.observations.sigma
        # cut the record
        problem, layout = _cut(problem, self.observations, self.formulation)
        # bind the controls
        key = jax.random.key(0) if key is None else key
        self.controls, self.problem = _bound(problem, controls, key, self.observations, layout)
        self.continuity_sigma = continuity_sigma(self.problem, self.controls.nodes, self.formulation)
        self.regularizers = _known(regularizers, self.controls)
        check_observed(self.observed, {n: v.shape[1:] for n, v in self.observations.values.items()})
        # choose the steps
        solver, self.dt, self.layout = self._steps(layout)
        # settle the adjoint
        runner = TrajectoryRunner(settle([], None, solver), adjoint or Checkpointed(), batch or Vmap())
        self.runner = runner.resolve_for(self.controls.extremes(self.problem), self.layout.time_grid)

    def _steps(self, layout: Layout) -> tuple[diffrax.AbstractSolver, float, Layout]:
        """Solver, largest step and time grid at the guess."""
        problem, ts = self.problem, self.observations.ts
        if self.steps is None:
            solver, dt = choose_steps([(problem.system, problem.y0)], self.asked_dt, self.asked_solver, MARGIN)
            return solver, dt, self.formulation.layout(ts, dt)
        refuse_dt(self.asked_dt)
        starts, solver = self.starts(problem), self.asked_solver
        grid = frozen_steps(problem.system, starts, ts, layout, solver, self.steps, problem.args)
        return solver, grid.smallest, eqx.tree_at(lambda x: x.time_grid, layout, grid)

    def step_error(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """The largest error of adaptive steps at theta, 1 at the tolerance, by one forward run."""
        if self.steps is None:
            raise PdefitError("Constant steps have no tolerance; give the functional steps=pdefit.Adaptive()")
        problem, runner = self.at(theta), self.runner
        given = {"steps": self.steps, "args": problem.args, "solver": runner.solver, "batch": runner.batch}
        return step_error(problem.system, self.starts(problem), self.layout.time_grid, **given)

    def numerics(self, problem: Problem) -> Numerics:
        """The numerical method of forward runs of a problem beside this functional's own.

        **Arguments:** `problem` holds the exogenous inputs of the run.
        """
        return Numerics(self.runner.solver, self.dt, self.steps, problem.args)

    # --- what optimizers ask -------------------------------------------------------------------------------------------

    def value(self, theta: Float[Array, " p"], probes: Float[Array, "S E 2"] | None = None) -> Float[Array, ""]:
        """J(theta).

        **Arguments:**

        - `theta`: the unknowns, (p,).
        - `probes`: zeros, in which the derivative is what `pdefit.integrate.loop.adjoint_norms` measures.
        """
        return Misfit(self).whole(theta, probes)

    def value_and_grad(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, " p"]]:
        return self.watched_gradient(theta)[:2]

    def watched_gradient(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, ""]]:
        probes = jnp.zeros((self.layout.segments, self.layout.time_grid.intervals + 1, 2))
        return self.runner.adjoint.gradient(self.value, theta, probes, self.controls.sizes(theta))

    def jvp(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        demand_tangents(self.runner.adjoint)
        return jax.jvp(self.value, (theta,), (v,))

    def gauss_newton_product(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> Float[Array, " p"]:
        return jax.grad(TangentLinearMisfit(self, theta).whole)(v)

    def hessian_vector_product(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> Float[Array, " p"]:
        return jax.jvp(jax.grad(self.value), (theta,), (v,))[1]

    def residuals_and_jacobian(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " m"], Float[Array, "m p"]]:
        m, p = self.residual_shape
        refuse_dense(m, p)
        demand_tangents(self.runner.adjoint)
        blocks = jvp_blocks(self.parts_by_segment, theta, pattern(self.controls, self.layout.segments))
        r, jac = self.extra_equations(theta)
        return jnp.concatenate([jnp.ravel(blocks.r), r]), jnp.concatenate([blocks.dense(p), jac])

    def jacobian(self, theta: Float[Array, " p"]) -> Float[Array, "m p"]:
        """The Jacobian dr/dtheta."""
        return self.residuals_and_jacobian(theta)[1]

    def grouped_equations(self, theta):
        demand_tangents(self.runner.adjoint)
        return Tangents(self, theta).groups()

    # --- variants --------------------------------------------------------------------------------------------------------

    def reformulated(self: Same, formulation: AbstractFormulation, theta: Float[Array, " p"]) -> Same:
        layout = formulation.layout(self.observations.ts, self.dt)
        problem = self.at(theta)
        nodes = formulation.node_states(problem, self.observations, layout)
        # an initial state stays free where trajectories start from it
        free = nodes is None and self.problem.nodes is None and not formulation.holds_state
        controls = self.controls if free else self.controls.without_states
        if not controls.items:
            raise PdefitError(
                "A stage with windows or a held state needs a control that is no state; remove stage.window"
            )
        problem = eqx.tree_at(lambda p: p.nodes, problem, nodes, is_leaf=lambda x: x is None)
        kept = tuple(r for r in self.regularizers if r.control in [c.path for c in controls.items])
        functional = eqx.tree_at(
            lambda f: (f.formulation, f.layout, f.problem, f.controls, f.continuity_sigma, f.regularizers),
            self,
            (formulation, layout, problem, controls, {}, kept),
            is_leaf=lambda x: x is None,
        )
        return functional.renewed(functional.theta0)

    def problems_and_steps(self, theta):
        return [(self.at(theta), self.layout.time_grid.largest)]

    def renewed(self: Same, theta: Float[Array, " p"]) -> Same:
        """The same functional with the steps that an adaptive pass takes at theta; itself where steps are constant."""
        if self.steps is None:
            return self
        problem, (ts, solver) = self.at(theta), (self.observations.ts, self.runner.solver)
        starts = self.starts(problem)
        grid = frozen_steps(problem.system, starts, ts, self.layout, solver, self.steps, problem.args)
        return self.with_time_grid(grid)

    def with_time_grid(self: Same, grid: TimeGrid) -> Same:
        """The same functional with other steps of the same trajectories."""
        return eqx.tree_at(lambda f: f.layout.time_grid, self, grid)

    def each(self, change, theta):
        return change(self, theta)

    def parts(self, theta):
        return [(self, theta)]

    def emptied(self):
        items = self.controls.items
        return eqx.tree_at(lambda f: [c.where(f.problem) for c in items], self, replace_fn=jnp.zeros_like)

    def reweighted(self: Same, sigma: Mapping[str, Any]) -> Same:
        return eqx.tree_at(lambda f: f.observations, self, self.observations.with_sigma(sigma))

    def with_roughness(self: Same, weights: Mapping[str, Array]) -> Same:
        return eqx.tree_at(lambda f: f.controls, self, self.controls.with_roughness(weights))


def is_adaptive(objective: AbstractObjective) -> TypeGuard[Functional]:
    """Whether the steps are adaptive ones, which only a single record can have."""
    return objective.steps is not None


def _cut(problem: Problem, observations: Observations, formulation: AbstractFormulation) -> tuple[Problem, Layout]:
    """The segments of the record, and the problem with a node state for every segment where there are any."""
    if observations.ts.size < 2:
        raise PdefitError("A fit expects observations at two times or more; with one there is no trajectory")
    # node states do not depend on the step
    layout = formulation.layout(observations.ts, np.inf)
    nodes = formulation.node_states(problem, observations, layout)
    return eqx.tree_at(lambda p: p.nodes, problem, nodes, is_leaf=lambda x: x is None), layout


def _bound(
    problem: Problem, declared: Declaration, key: PRNGKeyArray, observations: Observations, layout: Layout
) -> tuple[Controls, Problem]:
    """The controls, and the problem at their guesses."""
    controls, problem = bind(problem, declared, key, observations)
    if problem.nodes is not None:
        if any(c.kind == "initial" for c in controls.items):
            raise PdefitError(
                "Segments start from the data, so y0 has no influence; make nodes.<field> the control, or none"
            )
        check_free(problem, observations, layout.nodes, [c.path for c in controls.nodes])
    return controls, problem


def _known(regularizers: Sequence[AbstractRegularizer], controls: Controls) -> tuple[AbstractRegularizer, ...]:
    """The regularizers, each of a control that exists."""
    paths = [c.path for c in controls.items]
    for regularizer in regularizers:
        if regularizer.control not in paths:
            raise unknown("control", regularizer.control, paths)
    return tuple(regularizers)
