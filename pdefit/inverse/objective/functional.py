"""The functional J(theta) of one record: half the squared norm of residuals, with its derivatives."""

from functools import partial
from typing import Any, TypeVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import cast, demand_float64, named_fields, with_parts
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed, NoReverse, demand_tangents
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.controller import step_error
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.forward_runs import Numerics
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.integrate.loop.stable_step import settle
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_loop import growth
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.controls.declare import Declaration
from pdefit.inverse.controls.priors import AbstractRegularizer
from pdefit.inverse.objective.accumulate import Misfit, TangentLinearMisfit
from pdefit.inverse.objective.normal_equations import Tangents, held_equations
from pdefit.inverse.objective.record_residuals import AbstractRecord
from pdefit.inverse.objective.smooth_tangents import check_switches
from pdefit.inverse.objective.trajectory_runner import TrajectoryRunner
from pdefit.inverse.problem.instrument import check_observed
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.continuity import continuity_sigma
from pdefit.inverse.shooting.formulation import AbstractFormulation, Single
from pdefit.inverse.shooting.nodes import check_shown
from pdefit.inverse.shooting.trajectories import (
    bound,
    constant_steps,
    cut,
    frozen_steps,
    known,
    laid_out,
    remaining,
    started,
)

Same = TypeVar("Same", bound="Functional")


class Functional(AbstractRecord):
    """The objective J(theta) = 1/2 |r(theta)|^2 of one record.

        r = (W (H(t_i, y(t_i), args) - d_i), gaps between segments, regularizers, priors)

    W divides by sigma, H is the observation operator, and d_i are the data at time t_i. Data, weights, states and
    adjoints have the precision of `y0`. Times, theta with its map to the controls, and sums are float64. The misfit is
    accumulated observation by observation in the time loop. So neither states nor residuals of a whole trajectory are
    stored, except by `residuals` and `jacobian`.

    **Arguments:**

    - `problem`: the system, its initial state and its inputs at their nominal values.
    - `observations`: the data. Their first time is the time of the initial state. If the trajectory begins earlier,
      `Observations.with_nothing_at` adds its time.
    - `controls`: the unknowns, nested like the problem: `{"D": Control(...), "y0": {"u": Log()}}`.
    - `solver`: the time stepping method; default `RK4()`.
    - `dt`: the largest step, in the system's time unit. By default it is 0.8 of the largest stable step at the guess. A
      fit renews it if it becomes unstable.
    - `steps`: adaptive steps in place of `dt`, chosen at the guess and frozen until `renewed`.
    - `adjoint`: the sensitivity algorithm; default `Checkpointed()`.
    - `batch`: the batch of several segments; default all at once (`Vmap()`).
    - `formulation`: single or multiple shooting; default one segment (`Single()`).
    - `regularizers`: penalties on controls, added to the objective as residuals.
    - `smooth_tangents`: whether Gauss-Newton uses the smooth twin of hard switches, while residuals keep the switches
      (see `pdefit.inverse.objective.smooth_tangents`); default False.
    - `key`: the random key of guesses; default `jax.random.key(0)`.

    It holds the problem at its guesses, with bound `controls`. `layout` is the record cut into S segments of I
    observations each, with their steps. `runner` is the solver, adjoint and batch. `measured_sigma` is the sigma of the
    data before any estimate from residuals. `continuity_sigma` is the standard deviation of the gaps of each free node
    state, (1, ...).
    """

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
        ts, solver = self.observations.ts, self.asked_solver
        if steps is None:
            lay_out = partial(laid_out, self.formulation, self.at, self.theta0, ts)
            solver, self.dt, self.layout = constant_steps(self.problem, solver, dt, lay_out)
        else:
            steps.refuse_dt(dt)
            grid = frozen_steps(self.problem, self.starts(self.problem), ts, layout, solver, steps)
            self.dt, self.layout = grid.smallest, eqx.tree_at(lambda x: x.time_grid, layout, grid)
        runner = TrajectoryRunner(settle([], None, solver), adjoint or Checkpointed(), batch or Vmap())
        self.runner = runner.resolve_for(self.controls.extremes(self.problem), self.layout.time_grid)

    # --- values and derivatives ----------------------------------------------------------------------------------------

    def value(self, theta: Float[Array, " p"], probes: Float[Array, "S E 2"] | None = None) -> Float[Array, ""]:
        """J(theta), with zeros `probes` whose derivative reports the adjoint (see `pdefit.integrate.loop.time_loop`)."""
        return Misfit(self).whole(theta, probes)

    def watched_gradient(self, theta):
        return self.gradient_in_buffers(theta, None)[0]

    def gradient_in_buffers(self, theta: Float[Array, " p"], buffers: PyTree) -> tuple[tuple[Any, ...], PyTree]:
        """The watched gradient with its checkpoints in given buffers (None for fresh ones), and these buffers."""
        probes, adjoint = jnp.zeros((self.layout.segments, self.layout.time_grid.intervals + 1, 2)), self.runner.adjoint

        def value(theta: Array, watched: tuple[Array, PyTree] | None) -> Array:
            probes, buffers = watched or (None, None)
            reversed = eqx.tree_at(lambda f: f.runner.adjoint, self, adjoint.for_gradients(buffers))
            return reversed.value(theta, probes)

        j, slope, (norms, buffers) = adjoint.gradient(value, theta, (probes, buffers), self.controls.sizes(theta))
        return (j, slope, growth(norms)), buffers

    def gauss_newton_product(self, theta, v):
        return jax.grad(TangentLinearMisfit(self, theta).whole)(v)

    def grouped_equations(self, theta):
        demand_tangents(self.runner.adjoint)
        return Tangents(self, theta).groups()

    def held_equations(self, theta):
        demand_tangents(self.runner.adjoint)
        return held_equations(self, theta)

    # --- variants --------------------------------------------------------------------------------------------------------

    def each(self, change, theta):
        return change(self, theta)

    def parts(self, theta):
        return [(self, theta)]

    def problems_and_steps(self, theta):
        return [(self.controls.problem(self.problem, theta), self.layout.time_grid.largest)]

    def emptied(self):
        items = self.controls.items
        return eqx.tree_at(lambda f: [c.where(f.problem) for c in items], self, replace_fn=jnp.zeros_like)

    def cut_anew(self: Same, formulation: AbstractFormulation, theta: Float[Array, " p"]) -> Same:
        """The functional with the record cut in another way, as in `reformulated`."""
        before = self.at(theta)
        ts, adaptive = self.observations.ts, self.steps is not None
        # adaptive steps follow, the smallest of which may be tiny
        layout = formulation.layout(ts, np.inf) if adaptive else laid_out(formulation, self.at, theta, ts, self.dt)
        nodes = formulation.node_states(before, self.observations, layout)
        if nodes is not None:
            check_shown(before, self.observations, [*named_fields(before.y0)])
        if nodes is not None and self.observations.first_frame:
            # nothing is seen there, and the state is known or guessed
            nodes = jax.tree.map(lambda x, y: x.at[0].set(y), nodes, before.y0)
        problem = started(before, nodes, formulation.nudging(before, self.observations))
        controls = remaining(self.controls, before, nodes, formulation)
        paths = [c.path for c in controls.items]
        regularizers = tuple(r for r in self.regularizers if r.control in paths)
        functional = with_parts(
            self,
            lambda f: (f.formulation, f.layout, f.problem, f.controls, f.continuity_sigma, f.regularizers),
            (formulation, layout, problem, controls, {}, regularizers),
        )
        return functional.renewed(functional.theta0)

    def renewed(self, theta):
        if self.steps is None:
            return self
        problem, ts = self.at(theta), self.observations.ts
        grid = frozen_steps(problem, self.starts(problem), ts, self.layout, self.runner.solver, self.steps)
        return self.with_time_grid(grid)

    @property
    def time_grid(self):
        return self.layout.time_grid

    def with_time_grid(self, grid):
        return eqx.tree_at(lambda f: f.layout.time_grid, self, grid)

    def by_count(self):
        return self.with_time_grid(self.time_grid.by_count()).without_reverse()

    def without_reverse(self: Same) -> Same:
        """The functional without the adjoint and the step as asked, on which no forward run depends."""
        # in a stack some of these are None
        return eqx.tree_at(
            lambda f: (f.runner.adjoint, f.dt, f.asked_dt), self, (NoReverse(), None, None), is_leaf=lambda x: x is None
        )

    def step_error(self, theta):
        if self.steps is None:
            raise PdefitError("Constant steps have no tolerance; give the functional steps=pdefit.Adaptive()")
        problem, runner = self.at(theta), self.runner
        stepper = Stepper(problem.system, runner.solver, problem.args, None, problem.events)
        return step_error(stepper, self.starts(problem), self.layout.time_grid, self.steps, runner.batch)

    def guessing(self, theta):
        return eqx.tree_at(lambda f: f.problem, self, self.controls.problem(self.problem, jnp.asarray(theta)))

    def numerics(self, problem: Problem) -> Numerics:
        """The functional's numerical method for forward runs of a problem, with the problem's exogenous inputs."""
        return Numerics(self.runner.solver, self.dt, self.steps, problem.args, problem.events)
