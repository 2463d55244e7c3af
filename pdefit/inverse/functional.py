"""The functional J(theta): half the squared norm of residuals, and everything optimizers ask of it."""

from collections.abc import Callable, Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from pdefit.arrays.trees import cast
from pdefit.errors import PdefitError, unknown
from pdefit.integrate.adjoint import AbstractAdjoint, Checkpointed
from pdefit.integrate.runge_kutta4 import RK4
from pdefit.integrate.stepper import Stepper
from pdefit.integrate.trajectory import choose_dt
from pdefit.inverse.controls import Controls, resolve
from pdefit.inverse.formulation import AbstractFormulation, Layout, Single
from pdefit.inverse.problem import Problem
from pdefit.inverse.regularizers import AbstractRegularizer
from pdefit.systems.observations import Observations

# entries of a dense Jacobian, 2 GB in float64
_DENSE_LIMIT = 250_000_000


class Functional(eqx.Module):
    """J(theta) = 1/2 |r(theta)|^2 with r = (W (H(y(t_i)) - d_i), regularizers, priors).

    **Arguments:** `problem` holds the nominal values; `ts` the times at which it is observed, the first being that of the
    initial state; `observations` at these times; `controls` nested like the problem (see `pdefit.inverse.controls`);
    `dt` the largest step (default: 0.8 of what is stable at the guess and at the bounds); `key` draws perturbed guesses.

    The run has the precision of `y0`: data, weights, states and adjoints. Times, theta with its map to the controls, and
    sums are float64. The misfit is accumulated observation by observation in the time loop, so that neither states nor
    residuals of a whole trajectory are held, except by `residuals` and `jacobian`.
    """

    problem: Problem
    observations: Observations
    # sigma as measured; that of `observations` may have been re-estimated
    measured_sigma: dict[str, Array]
    controls: Controls
    layout: Layout
    solver: diffrax.AbstractSolver
    adjoint: AbstractAdjoint
    formulation: AbstractFormulation
    regularizers: tuple[AbstractRegularizer, ...]
    dt: float = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        ts: Any,
        observations: Observations,
        controls: Mapping[str, Any],
        *,
        solver: diffrax.AbstractSolver | None = None,
        dt: float | None = None,
        adjoint: AbstractAdjoint | None = None,
        formulation: AbstractFormulation | None = None,
        regularizers: tuple[AbstractRegularizer, ...] = (),
        key: PRNGKeyArray | None = None,
    ):
        ts = np.asarray(ts, np.float64)
        if ts.shape != observations.ts.shape or not np.array_equal(ts, observations.ts):
            raise PdefitError(f"ts has {ts.size} times that are not those of the {observations.ts.size} observations")
        if ts.size < 2:
            raise PdefitError("A fit expects observations at two times or more; with one there is no trajectory")
        self.solver = RK4() if solver is None else solver
        self.adjoint = Checkpointed() if adjoint is None else adjoint
        self.formulation = Single() if formulation is None else formulation
        # the state's precision is the run's
        observations = cast(observations, jax.tree.leaves(problem.y0)[0].dtype)
        self.observations = observations
        self.measured_sigma = observations.sigma
        # node states do not depend on the step
        nodes = self.formulation.node_states(problem.y0, observations, self.formulation.layout(ts, np.inf))
        problem = eqx.tree_at(lambda p: p.nodes, problem, nodes, is_leaf=lambda x: x is None)
        key = jax.random.key(0) if key is None else key
        self.controls, self.problem = resolve(problem, controls, key, observations)
        if nodes is not None and any(c.path.split(".")[0] == "y0" for c in self.controls.items):
            raise PdefitError(
                "Segments start from the data, so y0 has no influence; make nodes.<field> the control, or none"
            )
        corners = [self.controls.problem(self.problem, theta) for theta in self.controls.corners(self.theta0)]
        self.dt = choose_dt([(p.system, p.y0) for p in (self.problem, *corners)], dt, self.solver)
        self.layout = self.formulation.layout(ts, self.dt)
        self.regularizers = tuple(regularizers)
        for regularizer in self.regularizers:
            paths = [c.path for c in self.controls.items]
            if regularizer.control not in paths:
                raise unknown("control", regularizer.control, paths)
        self._check_observations()

    def _check_observations(self) -> None:
        seen = jax.eval_shape(self.problem.observe, self.problem.y0)
        missing = [name for name in seen if name not in self.observations.values]
        if missing:
            raise PdefitError(
                f"The model observes {', '.join(seen)}, but the data hold {', '.join(self.observations.values)}; "
                f"set observe to the fields that were measured"
            )
        for name, shape in seen.items():
            got = self.observations.values[name].shape[1:]
            if got != shape.shape:
                raise PdefitError(
                    f"The model sees '{name}' with shape {shape.shape}, but the data have {got}; "
                    f"make the grid match the data, or observe through Subsample"
                )

    # --- the map from theta to residuals -----------------------------------------------------------------------------

    @property
    def theta0(self) -> Float[Array, " p"]:
        """The vector at the guesses."""
        return self.controls.theta(self.problem)

    def at(self, theta: Float[Array, " p"]) -> Problem:
        """The problem that theta stands for."""
        return self.controls.problem(self.problem, theta)

    def observe(self, theta: Float[Array, " p"], reduce: Callable[[dict[str, Array]], PyTree]) -> PyTree:
        """`reduce` of the weighted residuals of every observation, stacked (S, I, ...); padding has residual zero."""
        problem = self.at(theta)
        stepper = Stepper(problem.system, self.solver)

        def emit(y: PyTree, inputs: Any) -> PyTree:
            targets, weights = inputs
            seen = problem.observe(y)
            # the guard keeps a masked NaN of the model out of the gradient
            return reduce({n: jnp.where(w > 0, w * (seen[n] - targets[n]), 0.0) for n, w in weights.items()})

        def segment(y0: PyTree, plan: Any, inputs: Any) -> PyTree:
            return self.adjoint.run(stepper, y0, plan, emit, inputs)[1]

        starts = self.formulation.starts(problem.y0, problem.nodes)
        inputs = self._targets(tuple(jax.eval_shape(problem.observe, problem.y0)))
        if self.layout.segments == 1:
            first = jax.tree.map(lambda x: x[0], (starts, self.layout.plan, inputs))
            return jax.tree.map(lambda x: x[None], segment(*first))
        return jax.vmap(segment)(starts, self.layout.plan, inputs)

    def _targets(self, names: tuple[str, ...]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Data and weights 1/sigma (0 where missing or padded) of every observation of every segment."""
        data, real = self.observations, jnp.asarray(self.layout.real)

        def weights(name: str) -> Array:
            weight = jnp.where(data.mask[name], 1 / data.sigma[name], 0.0)[self.layout.index]
            return jnp.where(real.reshape(real.shape + (1,) * (weight.ndim - 2)), weight, 0.0)

        return {n: data.values[n][self.layout.index] for n in names}, {n: weights(n) for n in names}

    def squared_residuals(self, theta: Float[Array, " p"]) -> dict[str, Array]:
        """The squares of the weighted residuals of every observation by variable (S, I, ...)."""
        return self.observe(theta, lambda r: {n: jnp.square(x) for n, x in r.items()})

    def extra_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """Residuals of regularizers and priors."""
        values = self.controls.values(theta)
        return [r.residual(values[r.control]) for r in self.regularizers] + self.controls.prior_residuals(theta)

    # --- what optimizers ask -------------------------------------------------------------------------------------------

    def value(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """J(theta)."""

        def half_square(residuals: dict[str, Array]) -> Array:
            return sum((jnp.sum(r.astype(jnp.float64) ** 2) for r in residuals.values()), start=jnp.zeros(())) / 2

        total = jnp.sum(self.observe(theta, half_square))
        return sum((jnp.sum(r.astype(jnp.float64) ** 2) / 2 for r in self.extra_residuals(theta)), start=total)

    def value_and_grad(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, " p"]]:
        """J and its gradient by the discrete adjoint."""
        return jax.value_and_grad(self.value)(theta)

    def jvp(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """J and its derivative along v, by the tangent-linear model."""
        return jax.jvp(self.value, (theta,), (v,))

    def residuals(self, theta: Float[Array, " p"]) -> Float[Array, " m"]:
        """The whole vector r(theta), segment after segment, then regularizers and priors."""
        per_segment = self.observe(theta, lambda r: jnp.concatenate([jnp.ravel(x) for x in r.values()]))
        return jnp.concatenate([jnp.ravel(per_segment), *self.extra_residuals(theta)]).astype(jnp.float64)

    def residuals_and_jacobian(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " m"], Float[Array, "m p"]]:
        """r and dr/dtheta by forward mode, all directions at once. For few controls."""
        m, p = self.residual_shape
        if m * p > _DENSE_LIMIT:
            raise PdefitError(
                f"A dense Jacobian of {m} residuals and {p} controls is refused above {_DENSE_LIMIT:.0e} entries; "
                f"use stages=lbfgs, or fewer observations or controls"
            )

        def push(v: Array) -> tuple[Array, Array]:
            return jax.jvp(self.residuals, (theta,), (v,))

        return jax.vmap(push, out_axes=(None, 1))(jnp.eye(p))

    def jacobian(self, theta: Float[Array, " p"]) -> Float[Array, "m p"]:
        """dr/dtheta."""
        return self.residuals_and_jacobian(theta)[1]

    def normal_equations(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, "p p"]]:
        """J, its gradient J_r^T r and the Gauss-Newton matrix J_r^T J_r."""
        r, jac = self.residuals_and_jacobian(theta)
        return jnp.sum(r**2) / 2, jac.T @ r, jac.T @ jac

    # --- shapes --------------------------------------------------------------------------------------------------------

    @property
    def residual_shape(self) -> tuple[int, int]:
        """(m, p): residuals, padding included, and controls."""
        return int(jax.eval_shape(self.residuals, self.theta0).shape[0]), self.controls.size

    def clusters(self) -> np.ndarray:
        """(m,) which independent group a residual belongs to: its segment; each regularizer or prior residual is its own."""
        m, _ = self.residual_shape
        extra = sum(r.size for r in jax.eval_shape(self.extra_residuals, self.theta0))
        count = self.layout.segments
        inside = np.repeat(np.arange(count), (m - extra) // count)
        return np.concatenate([inside, count + np.arange(extra)])

    @property
    def observed_values(self) -> int:
        """How many numbers were measured and are fitted."""
        _, weights = self._targets(tuple(jax.eval_shape(self.problem.observe, self.problem.y0)))
        return int(sum(int(jnp.sum(w > 0)) for w in weights.values()))

    # --- variants --------------------------------------------------------------------------------------------------------

    def reformulated(self, formulation: AbstractFormulation, theta: Float[Array, " p"]) -> "Functional":
        """The same functional with the record cut in another way, its controls starting from theta."""
        if any(c.path.split(".")[0] == "nodes" for c in self.controls.items):
            raise PdefitError(
                "Windows cannot change from stage to stage while node states are controls; remove stage.window"
            )
        layout = formulation.layout(self.observations.ts, self.dt)
        problem = self.at(theta)
        nodes = formulation.node_states(problem.y0, self.observations, layout)
        problem = eqx.tree_at(lambda p: p.nodes, problem, nodes, is_leaf=lambda x: x is None)
        return eqx.tree_at(
            lambda f: (f.formulation, f.layout, f.problem),
            self,
            (formulation, layout, problem),
            is_leaf=lambda x: x is None,
        )

    def first(self, count: int) -> "Functional":
        """The same functional on its first `count` observation times."""
        observations = self.observations.at(slice(0, count))
        layout = self.formulation.layout(observations.ts, self.dt)
        nodes = jax.tree.map(lambda x: x[: layout.segments], self.problem.nodes)
        return eqx.tree_at(
            lambda f: (f.observations, f.layout, f.problem.nodes),
            self,
            (observations, layout, nodes),
            is_leaf=lambda x: x is None,
        )

    def reweighted(self, sigma: Mapping[str, Any]) -> "Functional":
        """The same functional with other standard deviations."""
        return eqx.tree_at(lambda f: f.observations, self, self.observations.with_sigma(sigma))
