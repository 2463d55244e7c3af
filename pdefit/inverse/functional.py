"""The functional J(theta): half the squared norm of residuals, and everything optimizers ask of it."""

from collections.abc import Callable, Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from pdefit.arrays.trees import cast, named_fields
from pdefit.errors import PdefitError, unknown
from pdefit.integrate.adjoint import AbstractAdjoint, Checkpointed
from pdefit.integrate.runge_kutta4 import RK4
from pdefit.integrate.stepper import Stepper
from pdefit.integrate.trajectory import choose_dt
from pdefit.inverse.blocks import Blocks, jumps, pattern, push_blocks
from pdefit.inverse.controls import Controls, resolve
from pdefit.inverse.formulation import AbstractFormulation, Layout, Single
from pdefit.inverse.node_states import check_free, node_path
from pdefit.inverse.problem import Problem
from pdefit.inverse.regularizers import AbstractRegularizer
from pdefit.systems.interfaces import AbstractGridded
from pdefit.systems.observations import Observations

# entries of a dense Jacobian, 2 GB in float64
_DENSE_LIMIT = 250_000_000


class Functional(eqx.Module):
    """J(theta) = 1/2 |r(theta)|^2 with r = (W (H(y(t_i)) - d_i), jumps between segments, regularizers, priors).

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
    # what a jump of a free node state is divided by, by control, (1, ...)
    jump_sigma: dict[str, Array]
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
        layout = self.formulation.layout(ts, np.inf)
        nodes = self.formulation.node_states(problem, observations, layout)
        problem = eqx.tree_at(lambda p: p.nodes, problem, nodes, is_leaf=lambda x: x is None)
        key = jax.random.key(0) if key is None else key
        self.controls, self.problem = resolve(problem, controls, key, observations)
        if nodes is not None:
            if any(c.path.split(".")[0] == "y0" for c in self.controls.items):
                raise PdefitError(
                    "Segments start from the data, so y0 has no influence; make nodes.<field> the control, or none"
                )
            check_free(problem, observations, layout.nodes, [c.path for c in self.controls.nodes])
        self.jump_sigma = self._jump_sigma()
        corners = [self.controls.problem(self.problem, theta) for theta in self.controls.corners(self.theta0)]
        self.dt = choose_dt([(p.system, p.y0) for p in (self.problem, *corners)], dt, self.solver)
        self.layout = self.formulation.layout(ts, self.dt)
        self.regularizers = tuple(regularizers)
        for regularizer in self.regularizers:
            paths = [c.path for c in self.controls.items]
            if regularizer.control not in paths:
                raise unknown("control", regularizer.control, paths)
        self._check_observations()

    def _jump_sigma(self) -> dict[str, Array]:
        """The deviation of a jump of every free node state, from the nodes at their guess."""
        system, free = self.problem.system, {c.path: c for c in self.controls.nodes}
        coords = system.coords() if isinstance(system, AbstractGridded) else {}
        fields = {node_path(self.problem, n): n for n in named_fields(self.problem.y0)}
        found = {
            path: self.formulation.jump_sigma(fields[path], c.where(self.problem), coords.get(fields[path]))
            for path, c in free.items()
        }
        return {path: jnp.broadcast_to(sigma, (1, *free[path].shape[1:])) for path, sigma in found.items()}

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

    def trajectories(
        self, theta: Float[Array, " p"], reduce: Callable[[dict[str, Array]], PyTree]
    ) -> tuple[PyTree, PyTree]:
        """`reduce` of the weighted residuals of every observation, stacked (S, I, ...), padding having residual zero; and
        the states (S, ...) at the ends of the segments."""
        problem = self.at(theta)
        stepper = Stepper(problem.system, self.solver)

        def emit(y: PyTree, inputs: Any) -> PyTree:
            targets, weights = inputs
            seen = problem.observe(y)
            # the guard keeps a masked NaN of the model out of the gradient
            return reduce({n: jnp.where(w > 0, w * (seen[n] - targets[n]), 0.0) for n, w in weights.items()})

        def segment(y0: PyTree, plan: Any, inputs: Any) -> tuple[PyTree, PyTree]:
            end, outputs = self.adjoint.run(stepper, y0, plan, emit, inputs)
            return outputs, end

        starts = self.formulation.starts(problem.y0, problem.nodes)
        inputs = self._targets(tuple(jax.eval_shape(problem.observe, problem.y0)))
        if self.layout.segments == 1:
            first = jax.tree.map(lambda x: x[0], (starts, self.layout.plan, inputs))
            return jax.tree.map(lambda x: x[None], segment(*first))
        return jax.vmap(segment)(starts, self.layout.plan, inputs)

    def fitted(self, name: str) -> Bool[Array, "S I ..."]:
        """Which observations of a variable are residuals: those that exist, once each, and not those at the first node that
        the node state itself was made of."""
        seen, real = self.observations.mask[name][self.layout.index], jnp.asarray(self.layout.real)
        if self.problem.nodes is not None:
            free = [c.path for c in self.controls.nodes]
            made = name in named_fields(self.problem.y0) and node_path(self.problem, name) not in free
            real = real.at[0, 0].set(False) if made or not free else real
        return seen & real.reshape(real.shape + (1,) * (seen.ndim - 2))

    def _targets(self, names: tuple[str, ...]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Data and weights 1/sigma (0 where they are not fitted) of every observation of every segment."""
        data, index = self.observations, self.layout.index

        def weights(name: str) -> Array:
            sigma = jnp.broadcast_to(data.sigma[name], data.values[name].shape)
            return jnp.where(self.fitted(name), 1 / sigma[index], 0.0)

        return {n: data.values[n][index] for n in names}, {n: weights(n) for n in names}

    def _ends_and_starts(
        self, theta: Float[Array, " p"], ends: PyTree
    ) -> tuple[Float[Array, "S n"], Float[Array, "S n"]]:
        """The free fields of the ends and of the node states of all segments, in deviations of a jump."""
        problem, s = self.at(theta), self.layout.segments
        reached = eqx.tree_at(lambda p: p.nodes, problem, ends, is_leaf=lambda x: x is None)

        def flat(p: Problem) -> Array:
            parts = [jnp.reshape(c.where(p) / self.jump_sigma[c.path], (s, -1)) for c in self.controls.nodes]
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

    def value(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """J(theta)."""

        def half_square(residuals: dict[str, Array]) -> Array:
            return sum((jnp.sum(r.astype(jnp.float64) ** 2) for r in residuals.values()), start=jnp.zeros(())) / 2

        halves, ends = self.trajectories(theta, half_square)
        rest = [jumps(*self._ends_and_starts(theta, ends)), *self.extra_residuals(theta)]
        return sum((jnp.sum(r.astype(jnp.float64) ** 2) / 2 for r in rest), start=jnp.sum(halves))

    def value_and_grad(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, " p"]]:
        """J and its gradient by the discrete adjoint."""
        return jax.value_and_grad(self.value)(theta)

    def jvp(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """J and its derivative along v, by the tangent-linear model."""
        return jax.jvp(self.value, (theta,), (v,))

    def residuals(self, theta: Float[Array, " p"]) -> Float[Array, " m"]:
        """The whole vector r(theta): for each segment its observations and the jump at its end, then regularizers and
        priors."""
        seen, ends, starts = self._parts(theta)
        inside = jnp.concatenate([seen, jumps(ends, starts)], axis=1)
        return jnp.concatenate([jnp.ravel(inside), *self.extra_residuals(theta)]).astype(jnp.float64)

    def _parts(self, theta: Float[Array, " p"]) -> tuple[Float[Array, "S m"], Float[Array, "S n"], Float[Array, "S n"]]:
        """Residuals of the observations, ends and starts of every segment."""
        seen, ends = self.trajectories(theta, lambda r: jnp.concatenate([jnp.ravel(x) for x in r.values()]))
        flat = jnp.reshape(seen, (self.layout.segments, -1))
        return jax.tree.map(lambda x: x.astype(jnp.float64), (flat, *self._ends_and_starts(theta, ends)))

    def _blocks(self, theta: Float[Array, " p"]) -> tuple[Blocks, Float[Array, " e"], Float[Array, "e p"]]:
        """The blocks of all segments; residuals and Jacobian of regularizers and priors."""

        def extra(theta: Array) -> Array:
            return jnp.concatenate([jnp.zeros(0), *self.extra_residuals(theta)])

        blocks = push_blocks(self._parts, theta, pattern(self.controls, self.layout.segments))
        return blocks, extra(theta), jax.jacfwd(extra)(theta)

    def residuals_and_jacobian(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " m"], Float[Array, "m p"]]:
        """r and dr/dtheta by forward mode, all directions at once. For few controls."""
        m, p = self.residual_shape
        _refuse_dense(m, p)
        blocks, r, jac = self._blocks(theta)
        return jnp.concatenate([jnp.ravel(blocks.r), r]), jnp.concatenate([blocks.dense(p), jac])

    def jacobian(self, theta: Float[Array, " p"]) -> Float[Array, "m p"]:
        """dr/dtheta."""
        return self.residuals_and_jacobian(theta)[1]

    def normal_equations(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, "p p"]]:
        """J, its gradient J_r^T r and the Gauss-Newton matrix J_r^T J_r."""
        _refuse_dense(self.residual_shape[0], self.tangents)
        blocks, r, jac = self._blocks(theta)
        gradient, matrix = blocks.normal_equations(self.controls.size)
        half_square = (jnp.sum(blocks.r**2) + jnp.sum(r**2)) / 2
        return half_square, gradient + jac.T @ r, matrix + jac.T @ jac

    # --- shapes --------------------------------------------------------------------------------------------------------

    @property
    def residual_shape(self) -> tuple[int, int]:
        """(m, p): residuals, padding included, and controls."""
        return int(jax.eval_shape(self.residuals, self.theta0).shape[0]), self.controls.size

    @property
    def tangents(self) -> int:
        """How many tangents the Jacobian costs: one for each shared control and each element of one node state."""
        return self.controls.shared_size + sum(c.size // c.shape[0] for c in self.controls.nodes)

    @property
    def jump_values(self) -> int:
        """How many jumps of free node states are residuals."""
        return sum(c.size - c.size // c.shape[0] for c in self.controls.nodes)

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
        return sum(int(jnp.sum(self.fitted(n))) for n in jax.eval_shape(self.problem.observe, self.problem.y0))

    # --- variants --------------------------------------------------------------------------------------------------------

    def reformulated(self, formulation: AbstractFormulation, theta: Float[Array, " p"]) -> "Functional":
        """The same functional with the record cut in another way, its shared controls starting from theta. Node states are
        made of the data again and are no controls any more: they belong to the windows for which they were declared."""
        layout = formulation.layout(self.observations.ts, self.dt)
        problem, controls = self.at(theta), self.controls.shared
        if not controls.items:
            raise PdefitError("Windows of another length need a control other than node states; remove stage.window")
        nodes = formulation.node_states(problem, self.observations, layout)
        problem = eqx.tree_at(lambda p: p.nodes, problem, nodes, is_leaf=lambda x: x is None)
        kept = tuple(r for r in self.regularizers if r.control in [c.path for c in controls.items])
        return eqx.tree_at(
            lambda f: (f.formulation, f.layout, f.problem, f.controls, f.jump_sigma, f.regularizers),
            self,
            (formulation, layout, problem, controls, {}, kept),
            is_leaf=lambda x: x is None,
        )

    def reweighted(self, sigma: Mapping[str, Any]) -> "Functional":
        """The same functional with other standard deviations."""
        return eqx.tree_at(lambda f: f.observations, self, self.observations.with_sigma(sigma))


def _refuse_dense(rows: int, columns: int) -> None:
    """Refuse a Jacobian that would not fit."""
    if rows * columns > _DENSE_LIMIT:
        raise PdefitError(
            f"A dense Jacobian of {rows} residuals and {columns} controls is refused above {_DENSE_LIMIT:.0e} entries; "
            f"use stages=lbfgs, or fewer observations or controls"
        )
