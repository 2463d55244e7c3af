"""The functional J(theta): half the squared norm of residuals, and everything optimizers ask of it."""

from collections.abc import Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import cast, named_fields
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed, demand_tangents
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.step_error import step_error
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.integrate.loop.stable_step import MARGIN, choose_steps, settle
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.controls.bind import bind
from pdefit.inverse.controls.regularizers import AbstractRegularizer
from pdefit.inverse.controls.vector import Controls
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.accumulate import Misfit, TangentLinearMisfit
from pdefit.inverse.objective.normal_equations import Tangents
from pdefit.inverse.objective.residuals import ObservationSchedule, Reduce, TrajectoryRunner, residual_kinds
from pdefit.inverse.objective.segment_jacobian import jumps, jvp_blocks, pattern, refuse_dense
from pdefit.inverse.objective.smooth_tangents import check_switches
from pdefit.inverse.problem.instrument import check_observed
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.continuity import continuity_sigma
from pdefit.inverse.shooting.formulation import AbstractFormulation, Layout, Single
from pdefit.inverse.shooting.frozen_steps import frozen_steps, refuse_dt
from pdefit.inverse.shooting.nodes import check_free, node_path


class Functional(AbstractObjective):
    """J(theta) = 1/2 |r(theta)|^2 with r = (W (H(y(t_i)) - d_i), jumps between segments, regularizers, priors).

    **Arguments:** `problem` holds the nominal values; `ts` the times at which it is observed, the first being that of the
    initial state; `observations` at these times; `controls` nested like the problem (see `pdefit.inverse.controls.declare`);
    `dt` the largest step (default: 0.8 of what is stable at the guess; a fit chooses it again where it must), or `steps` in
    its place, chosen at the guess and frozen until `renewed`; with `smooth_tangents` hard switches keep their residuals while
    Gauss-Newton follows the smooth twin (see `pdefit.inverse.objective.smooth_tangents`); `key` draws perturbed guesses.

    The run has the precision of `y0`: data, weights, states and adjoints. Times, theta with its map to the controls, and
    sums are float64. The misfit is accumulated observation by observation in the time loop, so that neither states nor
    residuals of a whole trajectory are held, except by `residuals` and `jacobian`.
    """

    problem: Problem
    observations: Observations
    # sigma as measured; that of `observations` may have been re-estimated
    measured_sigma: dict[str, Array]
    controls: Controls
    # what a jump of a free node state is divided by, by control, (1, ...)
    continuity_sigma: dict[str, Array]
    layout: Layout
    runner: TrajectoryRunner
    formulation: AbstractFormulation
    regularizers: tuple[AbstractRegularizer, ...]
    steps: Adaptive | None
    smooth_tangents: bool
    # of adaptive steps the smallest at the guess
    dt: float
    # constant steps as they were asked for
    asked_solver: diffrax.AbstractSolver
    asked_dt: float | None

    def __init__(
        self,
        problem: Problem,
        ts: Any,
        observations: Observations,
        controls: Mapping[str, Any],
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
        ts = np.asarray(ts, np.float64)
        if ts.shape != observations.ts.shape or not np.array_equal(ts, observations.ts):
            raise PdefitError(f"ts has {ts.size} times that are not those of the {observations.ts.size} observations")
        if ts.size < 2:
            raise PdefitError("A fit expects observations at two times or more; with one there is no trajectory")
        check_switches(problem.system, smooth_tangents)
        self.smooth_tangents = smooth_tangents
        solver = solver or RK4()
        self.formulation = Single() if formulation is None else formulation
        # the state's precision is the run's
        observations = cast(observations, jax.tree.leaves(problem.y0)[0].dtype)
        self.observations = observations
        self.measured_sigma = observations.sigma
        # node states do not depend on the step
        layout = self.formulation.layout(ts, np.inf)
        nodes = self.formulation.node_states(problem, observations, layout)
        problem = eqx.tree_at(lambda p: p.nodes, problem, nodes, is_leaf=lambda x: x is None)
        key = jax.random.key(0) if key is None else key
        self.controls, self.problem = bind(problem, controls, key, observations)
        if nodes is not None:
            if any(c.kind == "initial" for c in self.controls.items):
                raise PdefitError(
                    "Segments start from the data, so y0 has no influence; make nodes.<field> the control, or none"
                )
            check_free(problem, observations, layout.nodes, [c.path for c in self.controls.nodes])
        self.continuity_sigma = continuity_sigma(self.problem, self.controls.nodes, self.formulation)
        self.steps, self.asked_solver, self.asked_dt = steps, solver, dt
        if steps is None:
            solver, self.dt = choose_steps([(self.problem.system, self.problem.y0)], dt, solver, MARGIN)
            self.layout = self.formulation.layout(ts, self.dt)
        else:
            refuse_dt(dt)
            starts, args = self.starts(self.problem), self.problem.args
            plan = frozen_steps(self.problem.system, starts, ts, layout, solver, steps, args)
            self.layout, self.dt = eqx.tree_at(lambda x: x.plan, layout, plan), plan.smallest
        self.runner = TrajectoryRunner(settle([], None, solver), adjoint or Checkpointed(), batch or Vmap())
        self.regularizers = tuple(regularizers)
        for regularizer in self.regularizers:
            paths = [c.path for c in self.controls.items]
            if regularizer.control not in paths:
                raise unknown("control", regularizer.control, paths)
        check_observed(self.observed, {n: v.shape[1:] for n, v in observations.values.items()})
        self.runner = self.runner.resolve_for(self.controls.extremes(self.problem), self.layout.plan)

    # --- the map from theta to residuals -----------------------------------------------------------------------------

    @property
    def theta0(self) -> Float[Array, " p"]:
        return self.controls.theta(self.problem)

    def at(self, theta: Float[Array, " p"]) -> Problem:
        return self.controls.problem(self.problem, theta)

    @property
    def schedule(self) -> ObservationSchedule:
        """The whole record, as the formulation cuts it."""
        counts = {n: self._counts(n) for n in self.observed}
        return ObservationSchedule(self.layout.plan, self.layout.index, counts, self.observations)

    def starts(self, problem: Problem) -> PyTree:
        """Where the trajectories of all segments start, with a leading axis."""
        return self.formulation.starts(problem.y0, problem.nodes)

    def step_error(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """The largest error of the steps, which adaptive ones have, at theta: 1 at the tolerance. One forward run."""
        if self.steps is None:
            raise PdefitError("Constant steps have no tolerance; give the functional steps=pdefit.Adaptive()")
        problem, runner = self.at(theta), self.runner
        given = {"steps": self.steps, "args": problem.args, "solver": runner.solver, "batch": runner.batch}
        return step_error(problem.system, self.starts(problem), self.layout.plan, **given)

    def trajectories(self, theta: Float[Array, " p"], reduce: Reduce) -> tuple[PyTree, PyTree]:
        """`reduce` of the weighted residuals of every observation, stacked (S, I, ...), padding having residual zero; and
        the states (S, ...) at the ends of the segments."""
        problem = self.at(theta)
        return self.runner(problem, self.starts(problem), self.schedule, reduce)

    def _counts(self, name: str) -> Bool[Array, "S I"]:
        """Which observations of a variable may be residuals: each once, and not those at the first node that the node state
        itself was made of."""
        counts = jnp.asarray(self.layout.counts)
        if self.problem.nodes is not None:
            free = [c.path for c in self.controls.nodes]
            made = name in named_fields(self.problem.y0) and node_path(self.problem, name) not in free
            counts = counts.at[0, 0].set(False) if made or not free else counts
        return counts

    def fitted(self, name: str) -> Bool[Array, "S I ..."]:
        """Which values of a variable are residuals: those that were measured, where they may be."""
        seen, counts = self.observations.mask[name][self.layout.index], self._counts(name)
        return seen & counts.reshape(counts.shape + (1,) * (seen.ndim - 2))

    def ends_and_starts(
        self, theta: Float[Array, " p"], ends: PyTree
    ) -> tuple[Float[Array, "S n"], Float[Array, "S n"]]:
        """The free fields of the ends and of the node states of all segments, in deviations of a jump."""
        problem, s = self.at(theta), self.layout.segments
        reached = eqx.tree_at(lambda p: p.nodes, problem, ends, is_leaf=lambda x: x is None)

        def flat(p: Problem) -> Array:
            parts = [jnp.reshape(c.where(p) / self.continuity_sigma[c.path], (s, -1)) for c in self.controls.nodes]
            return jnp.concatenate([jnp.zeros((s, 0)), *parts], axis=1)

        return flat(reached), flat(problem)

    def squared_residuals(self, theta: Float[Array, " p"]) -> dict[str, Array]:
        """The squares of the weighted residuals of every observation by variable (S, I, ...)."""
        return self.trajectories(theta, lambda r: {n: jnp.square(x) for n, x in r.items()})[0]

    def extra_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """Residuals of regularizers and priors."""
        values = self.controls.values(theta)
        return [r.residual(values[r.control]) for r in self.regularizers] + self.controls.prior_residuals(theta)

    # --- what optimizers ask -------------------------------------------------------------------------------------------

    def value(self, theta: Float[Array, " p"], probes: Float[Array, "S E 2"] | None = None) -> Float[Array, ""]:
        """J(theta). The derivative in `probes` (zeros) is what `pdefit.integrate.loop.adjoint_norms` tells of the adjoint."""
        return Misfit(self).whole(theta, probes)

    def remaining_residuals(self, theta: Float[Array, " p"], ends: PyTree) -> list[Array]:
        """Residuals of jumps from these ends of the segments, of regularizers and of priors."""
        return [jumps(*self.ends_and_starts(theta, ends)), *self.extra_residuals(theta)]

    def value_and_grad(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, " p"]]:
        return self.watched_gradient(theta)[:2]

    def watched_gradient(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, ""]]:
        probes = jnp.zeros((self.layout.segments, self.layout.plan.intervals + 1, 2))
        return self.runner.adjoint.gradient(self.value, theta, probes, self.controls.sizes(theta))

    def jvp(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        demand_tangents(self.runner.adjoint)
        return jax.jvp(self.value, (theta,), (v,))

    def gauss_newton_product(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> Float[Array, " p"]:
        return jax.grad(TangentLinearMisfit(self, theta).whole)(v)

    def hessian_vector_product(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> Float[Array, " p"]:
        return jax.jvp(jax.grad(self.value), (theta,), (v,))[1]

    def residuals(self, theta: Float[Array, " p"]) -> Float[Array, " m"]:
        """The whole vector r(theta): for each segment its observations and the jump at its end, then regularizers and
        priors."""
        seen, ends, starts = self._parts(theta)
        inside = jnp.concatenate([seen, jumps(ends, starts)], axis=1)
        return jnp.concatenate([jnp.ravel(inside), *self.extra_residuals(theta)]).astype(jnp.float64)

    def _parts(self, theta: Float[Array, " p"]) -> tuple[Float[Array, "S m"], Float[Array, "S n"], Float[Array, "S n"]]:
        """Residuals of the observations, ends and starts of every segment."""
        seen, ends = self.trajectories(theta, lambda r: jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(r)]))
        flat = jnp.reshape(seen, (self.layout.segments, -1))
        return jax.tree.map(lambda x: x.astype(jnp.float64), (flat, *self.ends_and_starts(theta, ends)))

    def extra_equations(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " e"], Float[Array, "e p"]]:
        """Residuals of regularizers and priors as one vector, and their Jacobian."""

        def extra(theta: Array) -> Array:
            return jnp.concatenate([jnp.zeros(0), *self.extra_residuals(theta)])

        return extra(theta), jax.jacfwd(extra)(theta)

    def residuals_and_jacobian(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " m"], Float[Array, "m p"]]:
        m, p = self.residual_shape
        refuse_dense(m, p)
        demand_tangents(self.runner.adjoint)
        blocks = jvp_blocks(self._parts, theta, pattern(self.controls, self.layout.segments))
        r, jac = self.extra_equations(theta)
        return jnp.concatenate([jnp.ravel(blocks.r), r]), jnp.concatenate([blocks.dense(p), jac])

    def jacobian(self, theta: Float[Array, " p"]) -> Float[Array, "m p"]:
        """dr/dtheta."""
        return self.residuals_and_jacobian(theta)[1]

    def grouped_equations(self, theta):
        demand_tangents(self.runner.adjoint)
        return Tangents(self, theta).groups()

    @property
    def residual_shape(self) -> tuple[int, int]:
        """(m, p): residuals, padding included, and controls."""
        return int(jax.eval_shape(self.residuals, self.theta0).shape[0]), self.controls.size

    @property
    def tangents(self) -> int:
        # one for each shared control and each element of one node state
        return self.controls.shared_size + sum(c.size // c.shape[0] for c in self.controls.nodes)

    @property
    def continuity_values(self) -> int:
        return sum(c.size - c.size // c.shape[0] for c in self.controls.nodes)

    @property
    def groups(self) -> int:
        return self.layout.segments

    def kinds(self):
        return residual_kinds(self)

    @property
    def observed(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and dtype of what the instrument sees of a state, by variable."""
        return jax.eval_shape(self.problem.observe, self.problem.y0)

    @property
    def observed_values(self) -> int:
        return sum(int(jnp.sum(self.fitted(n))) for n in self.observed)

    # --- variants --------------------------------------------------------------------------------------------------------

    def reformulated(self, formulation: AbstractFormulation, theta: Float[Array, " p"]) -> "Functional":
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
        return [(self.at(theta), self.layout.plan.largest)]

    def renewed(self, theta: Float[Array, " p"]) -> "Functional":
        """The same functional with the steps that an adaptive pass takes at theta, if it has adaptive steps."""
        if self.steps is None:
            return self
        problem, (ts, solver) = self.at(theta), (self.observations.ts, self.runner.solver)
        starts = self.starts(problem)
        plan = frozen_steps(problem.system, starts, ts, self.layout, solver, self.steps, problem.args)
        return self.with_plan(plan)

    def with_plan(self, plan: TimeGrid) -> "Functional":
        """The same functional with other steps of the same trajectories."""
        return eqx.tree_at(lambda f: f.layout.plan, self, plan)

    def each(self, change, theta):
        return change(self, theta)

    def parts(self, theta):
        return [(self, theta)]

    def emptied(self):
        items = self.controls.items
        return eqx.tree_at(lambda f: [c.where(f.problem) for c in items], self, replace_fn=jnp.zeros_like)

    def reweighted(self, sigma: Mapping[str, Any]) -> "Functional":
        return eqx.tree_at(lambda f: f.observations, self, self.observations.with_sigma(sigma))
