"""The functional J(theta) of one record: half the squared norm of residuals, with its derivatives."""

from typing import TypeVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import cast, demand_float64
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed, demand_tangents
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.controller import step_error
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.integrate.loop.stable_step import settle
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import precision
from pdefit.integrate.solve import Numerics
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.controls.declare import Declaration
from pdefit.inverse.controls.priors import AbstractRegularizer
from pdefit.inverse.controls.vector import Controls
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.accumulate import Misfit, TangentLinearMisfit
from pdefit.inverse.objective.normal_equations import Tangents
from pdefit.inverse.objective.residuals import ObservationSchedule, Reduce, TrajectoryRunner
from pdefit.inverse.objective.smooth_tangents import check_switches
from pdefit.inverse.problem.instrument import check_observed
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.continuity import continuity_sigma, gaps, in_deviations
from pdefit.inverse.shooting.formulation import AbstractFormulation, Layout, Single
from pdefit.inverse.shooting.trajectories import (
    bound,
    cut,
    first_steps,
    frozen_steps,
    known,
    laid_out,
    remaining,
    residual_counts,
    started,
)

Same = TypeVar("Same", bound="Functional")


class Functional(AbstractObjective):
    """The objective J(theta) = 1/2 |r(theta)|^2 of one record.

        r = (W (H(t_i, y(t_i), args) - d_i), gaps between segments, regularizers, priors)

    W divides by sigma, H is the observation operator, and d_i are the data at time t_i. The run has the precision of
    `y0`: data, weights, states and adjoints. Times, theta with its map to the controls, and sums are float64. The
    misfit is accumulated observation by observation in the time loop. So neither states nor residuals of a whole
    trajectory are held, except by `residuals` and `jacobian`.

    **Arguments:**

    - `problem`: the system, its initial state and its inputs at their nominal values.
    - `observations`: what was measured, at times of which the first is that of the initial state. Where it was earlier,
      `Observations.with_nothing_at` adds its time.
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

    It holds the problem at its guesses, with bound `controls`. `layout` is the record cut into S segments of I
    observations each, with their steps. `runner` is the solver, adjoint and batch. `measured_sigma` is sigma as
    measured, where that of `observations` was estimated anew. `continuity_sigma` is the standard deviation of the gaps
    of each free node state, (1, ...).
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
    dt: float
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
        # the record is cut before controls are bound: node states are arrays that a control may name
        problem, layout = cut(problem, self.observations, self.formulation)
        key = jax.random.key(0) if key is None else key
        self.controls, self.problem = bound(problem, controls, key, self.observations, layout)
        self.continuity_sigma = continuity_sigma(self.problem, self.controls.nodes, self.formulation.continuity_sigma)
        self.regularizers = known(regularizers, self.controls)
        check_observed(self.observed, {n: v.shape[1:] for n, v in self.observations.values.items()})
        # steps are chosen at the guesses, and the adjoint is settled for these steps
        given = self.formulation, self.asked_solver, dt, steps, self.at, self.theta0
        solver, self.dt, self.layout = first_steps(self.problem, self.observations.ts, layout, *given)
        runner = TrajectoryRunner(settle([], None, solver), adjoint or Checkpointed(), batch or Vmap())
        self.runner = runner.resolve_for(self.controls.extremes(self.problem), self.layout.time_grid)

    # --- trajectories and residuals ------------------------------------------------------------------------------------

    def at(self, theta):
        return self.controls.problem(self.problem, theta)

    @property
    def observed(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and dtype of what the instrument observes of a state, by variable."""
        problem, data = self.problem, self.observations
        t = jnp.asarray(data.ts)[0].astype(precision(problem.y0))
        observe = problem.instrument.placed(data.positions_at(0))
        return jax.eval_shape(lambda y: observe(t, y, problem.args), problem.y0)

    @property
    def schedule(self) -> ObservationSchedule:
        """The whole record, as the formulation cuts it."""
        counts = {n: residual_counts(n, self.problem, self.controls, self.layout) for n in self.observed}
        return ObservationSchedule(self.layout.time_grid, self.layout.index, counts, self.observations)

    def fitted(self, name: str) -> Bool[Array, "S I ..."]:
        """Which values of a variable are residuals: measured ones, of observations that may be residuals."""
        observed = self.observations.mask[name][self.layout.index]
        counts = residual_counts(name, self.problem, self.controls, self.layout)
        return observed & counts.reshape(counts.shape + (1,) * (observed.ndim - 2))

    def starts(self, problem: Problem) -> PyTree:
        """The states from which the trajectories of all segments start, with a leading axis."""
        return self.formulation.starts(problem.y0, problem.nodes)

    def trajectories(self, theta: Float[Array, " p"], reduce: Reduce) -> tuple[PyTree, PyTree]:
        """What `reduce` makes of the residuals of every observation, (S, I, ...), and the final states, (S, ...).

        It is given the residuals by variable, which are zero in padding.
        """
        problem = self.at(theta)
        return self.runner(problem, self.starts(problem), self.schedule, reduce)

    def ends_and_starts(self, theta: Float[Array, " p"], ends: PyTree) -> list[Float[Array, "S n"]]:
        """The free fields at the ends and at the starts of all segments, divided by the standard deviation of a gap.

        **Arguments:**

        - `theta`: the unknowns, (p,).
        - `ends`: the states at the ends of the segments, (S, ...).
        """
        problem, free = self.at(theta), self.controls.nodes
        both = started(problem, ends, problem.nudge), problem
        return [in_deviations(p, free, self.continuity_sigma, self.layout.segments) for p in both]

    def extra_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """Residuals of regularizers and priors."""
        values = self.controls.values(theta)
        return [r.residual(values[r.control]) for r in self.regularizers] + self.controls.prior_residuals(theta)

    def extra_value(self, theta):
        return sum((jnp.sum(r**2) / 2 for r in self.extra_residuals(theta)), start=jnp.zeros(()))

    def remaining_residuals(self, theta: Float[Array, " p"], ends: PyTree) -> list[Array]:
        """Residuals of gaps, of regularizers and of priors, for given states at the ends of the segments."""
        return [gaps(*self.ends_and_starts(theta, ends)), *self.extra_residuals(theta)]

    def residuals(self, theta):
        outputs, ends = self.trajectories(theta, lambda r: jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(r)]))
        each = jnp.reshape(outputs, (self.layout.segments, -1)), *self.ends_and_starts(theta, ends)
        observed, ends, starts = (x.astype(jnp.float64) for x in each)
        # for each segment its observations and the gap at its end, then regularizers and priors
        inside = jnp.concatenate([observed, gaps(ends, starts)], axis=1)
        return jnp.concatenate([jnp.ravel(inside), *self.extra_residuals(theta)]).astype(jnp.float64)

    # --- values and derivatives ----------------------------------------------------------------------------------------

    def value(self, theta: Float[Array, " p"], probes: Float[Array, "S E 2"] | None = None) -> Float[Array, ""]:
        """J(theta), of zeros `probes` in which the derivative is what `pdefit.integrate.loop.time_loop` measures."""
        return Misfit(self).whole(theta, probes)

    def watched_gradient(self, theta):
        probes = jnp.zeros((self.layout.segments, self.layout.time_grid.intervals + 1, 2))
        reversed = eqx.tree_at(lambda f: f.runner.adjoint, self, self.runner.adjoint.for_gradients())
        return self.runner.adjoint.gradient(reversed.value, theta, probes, self.controls.sizes(theta))

    def gauss_newton_product(self, theta, v):
        return jax.grad(TangentLinearMisfit(self, theta).whole)(v)

    def grouped_equations(self, theta):
        demand_tangents(self.runner.adjoint)
        return Tangents(self, theta).groups()

    @property
    def tangents(self):
        # one for each shared control and each element of one node state
        return self.controls.shared.size + sum(c.size // c.shape[0] for c in self.controls.nodes)

    @property
    def count(self):
        return sum((jnp.sum(self.fitted(name)) for name in self.observed), start=jnp.zeros((), int))

    @property
    def continuity_values(self):
        return sum(c.size - c.size // c.shape[0] for c in self.controls.nodes)

    @property
    def groups(self):
        return self.layout.segments

    # --- variants --------------------------------------------------------------------------------------------------------

    def each(self, change, theta):
        return change(self, theta)

    def parts(self, theta):
        return [(self, theta)]

    def problems_and_steps(self, theta):
        return [(self.controls.filled(self.problem, theta), self.layout.time_grid.largest)]

    def emptied(self):
        items = self.controls.items
        return eqx.tree_at(lambda f: [c.where(f.problem) for c in items], self, replace_fn=jnp.zeros_like)

    def cut_anew(self: Same, formulation: AbstractFormulation, theta: Float[Array, " p"]) -> Same:
        """The functional with the record cut in another way, as of `reformulated`."""
        before = self.at(theta)
        layout = laid_out(formulation, self.at, theta, self.observations.ts, self.dt)
        nodes = formulation.node_states(before, self.observations, layout)
        if nodes is not None and self.observations.first_frame:
            # nothing is seen there, and the state is known or guessed
            nodes = jax.tree.map(lambda x, y: x.at[0].set(y), nodes, before.y0)
        problem = started(before, nodes, formulation.nudging(before, self.observations))
        controls = remaining(self.controls, before, nodes, formulation)
        paths = [c.path for c in controls.items]
        regularizers = tuple(r for r in self.regularizers if r.control in paths)
        functional = eqx.tree_at(
            lambda f: (f.formulation, f.layout, f.problem, f.controls, f.continuity_sigma, f.regularizers),
            self,
            (formulation, layout, problem, controls, {}, regularizers),
            is_leaf=lambda x: x is None,
        )
        return functional.renewed(functional.theta0)

    def renewed(self: Same, theta: Float[Array, " p"]) -> Same:
        """The same functional with the steps that an adaptive pass takes at theta; itself where steps are constant."""
        if self.steps is None:
            return self
        problem, ts = self.at(theta), self.observations.ts
        grid = frozen_steps(problem, self.starts(problem), ts, self.layout, self.runner.solver, self.steps)
        return self.with_time_grid(grid)

    def with_time_grid(self: Same, grid: TimeGrid) -> Same:
        """The same functional with other steps of the same trajectories."""
        return eqx.tree_at(lambda f: f.layout.time_grid, self, grid)

    def step_error(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """The largest error of adaptive steps at theta, 1 at the tolerance, by one forward run."""
        if self.steps is None:
            raise PdefitError("Constant steps have no tolerance; give the functional steps=pdefit.Adaptive()")
        problem, runner = self.at(theta), self.runner
        given = {"steps": self.steps, "args": problem.args, "solver": runner.solver, "batch": runner.batch}
        return step_error(problem.system, self.starts(problem), self.layout.time_grid, **given)

    def numerics(self, problem: Problem) -> Numerics:
        """The numerical method of forward runs of a problem, with its own exogenous inputs, beside this functional's."""
        return Numerics(self.runner.solver, self.dt, self.steps, problem.args)
