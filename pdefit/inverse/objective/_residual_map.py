"""The residual map r(theta) of one record."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from pdefit._util.trees import named_fields
from pdefit.inverse.controls.regularizers import AbstractRegularizer
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.residuals import ObservationSchedule, Reduce
from pdefit.inverse.objective.segment_jacobian import jumps
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.formulation import Layout
from pdefit.inverse.shooting.nodes import node_path


class AbstractResidualMap(AbstractObjective):
    """The residual map r(theta) of one record, without derivatives.

        r = (W (H(y(t_i)) - d_i), gaps between segments, regularizers, priors)

    W divides by sigma, H is the observation operator, and d_i are the data at time t_i.

    **Arguments:**

    - `layout`: the record cut into S segments of I observations each.
    - `regularizers`: the regularizers, each of one control.
    - `measured_sigma`: sigma as measured, where that of `observations` may have been estimated anew.
    - `continuity_sigma`: for each free node state the standard deviation of its gaps, (1, ...).
    - `smooth_tangents`: whether derivatives follow the smooth twin of hard switches.
    """

    layout: eqx.AbstractVar[Layout]
    regularizers: eqx.AbstractVar[tuple[AbstractRegularizer, ...]]
    measured_sigma: eqx.AbstractVar[dict[str, Array]]
    continuity_sigma: eqx.AbstractVar[dict[str, Array]]
    smooth_tangents: eqx.AbstractVar[bool]

    @property
    def theta0(self) -> Float[Array, " p"]:
        return self.controls.theta(self.problem)

    def at(self, theta: Float[Array, " p"]) -> Problem:
        return self.controls.problem(self.problem, theta)

    @property
    def schedule(self) -> ObservationSchedule:
        """The whole record, as the formulation cuts it."""
        counts = {n: self._counts(n) for n in self.observed}
        return ObservationSchedule(self.layout.time_grid, self.layout.index, counts, self.observations)

    def starts(self, problem: Problem) -> PyTree:
        """The states from which the trajectories of all segments start, with a leading axis."""
        return self.formulation.starts(problem.y0, problem.nodes)

    def trajectories(self, theta: Float[Array, " p"], reduce: Reduce) -> tuple[PyTree, PyTree]:
        """A function of the residuals of every observation, stacked, and the final states of the segments (S, ...).

        **Arguments:**

        - `theta`: the unknowns, (p,).
        - `reduce`: from the residuals of one observation, by variable, to what is kept of them. Padding has residual
          zero.

        **Returns:** what `reduce` returns, (S, I, ...), and the states.
        """
        problem = self.at(theta)
        return self.runner(problem, self.starts(problem), self.schedule, reduce)

    def _counts(self, name: str) -> Bool[Array, "S I"]:
        """Which observations of a variable may be residuals.

        Each counts once, and not where a node state was made of it.
        """
        counts = jnp.asarray(self.layout.counts)
        if self.problem.nodes is not None:
            free = [c.path for c in self.controls.nodes]
            made = name in named_fields(self.problem.y0) and node_path(self.problem, name) not in free
            counts = counts.at[0, 0].set(False) if made or not free else counts
        return counts

    def fitted(self, name: str) -> Bool[Array, "S I ..."]:
        """Which values of a variable are residuals: measured ones, of observations that may be residuals."""
        seen, counts = self.observations.mask[name][self.layout.index], self._counts(name)
        return seen & counts.reshape(counts.shape + (1,) * (seen.ndim - 2))

    def ends_and_starts(
        self, theta: Float[Array, " p"], ends: PyTree
    ) -> tuple[Float[Array, "S n"], Float[Array, "S n"]]:
        """The free fields at the ends and at the starts of all segments, divided by the standard deviation of a gap.

        **Arguments:**

        - `theta`: the unknowns, (p,).
        - `ends`: the states at the ends of the segments, (S, ...).
        """
        problem, s = self.at(theta), self.layout.segments
        reached = eqx.tree_at(lambda p: p.nodes, problem, ends, is_leaf=lambda x: x is None)

        def flat(p: Problem) -> Array:
            parts = [jnp.reshape(c.where(p) / self.continuity_sigma[c.path], (s, -1)) for c in self.controls.nodes]
            return jnp.concatenate([jnp.zeros((s, 0)), *parts], axis=1)

        return flat(reached), flat(problem)

    def extra_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """Residuals of regularizers and priors."""
        values = self.controls.values(theta)
        return [r.residual(values[r.control]) for r in self.regularizers] + self.controls.prior_residuals(theta)

    def extra_value(self, theta):
        return sum((jnp.sum(r**2) / 2 for r in self.extra_residuals(theta)), start=jnp.zeros(()))

    def remaining_residuals(self, theta: Float[Array, " p"], ends: PyTree) -> list[Array]:
        """Residuals of gaps, of regularizers and of priors, for given states at the ends of the segments."""
        return [jumps(*self.ends_and_starts(theta, ends)), *self.extra_residuals(theta)]

    def residuals(self, theta: Float[Array, " p"]) -> Float[Array, " m"]:
        """The whole vector r(theta).

        For each segment its observations and the gap at its end, then regularizers and priors.
        """
        seen, ends, starts = self.parts_by_segment(theta)
        inside = jnp.concatenate([seen, jumps(ends, starts)], axis=1)
        return jnp.concatenate([jnp.ravel(inside), *self.extra_residuals(theta)]).astype(jnp.float64)

    def parts_by_segment(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "S m"], Float[Array, "S n"], Float[Array, "S n"]]:
        """Residuals of the observations, ends and starts of every segment."""
        seen, ends = self.trajectories(theta, lambda r: jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(r)]))
        flat = jnp.reshape(seen, (self.layout.segments, -1))
        return jax.tree.map(lambda x: x.astype(jnp.float64), (flat, *self.ends_and_starts(theta, ends)))

    def extra_equations(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " e"], Float[Array, "e p"]]:
        """Residuals of regularizers and priors as one vector, and their Jacobian."""

        def extra(theta: Array) -> Array:
            return jnp.concatenate([jnp.zeros(0), *self.extra_residuals(theta)])

        return extra(theta), jax.jacfwd(extra)(theta)

    @property
    def residual_shape(self) -> tuple[int, int]:
        """The shape (m, p) of the Jacobian: residuals, padding included, and controls."""
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
        observed = [x.size for x in self.observed.values()]
        free = [c.size // c.shape[0] for c in self.controls.nodes]
        extra = [x.size for x in jax.eval_shape(self.extra_residuals, self.theta0)]
        segments, times = self.layout.index.shape
        kinds = [*range(len(observed))] * times + [len(observed) + k for k in range(len(free))]
        inside = np.tile(np.repeat(np.asarray(kinds, int), [*observed * times, *free]), segments)
        first = len(observed) + len(free)
        return np.concatenate([inside, np.repeat(first + np.arange(len(extra)), extra)]).astype(int)

    @property
    def observed(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and dtype of what the instrument observes of a state, by variable."""
        observe = self.problem.observe.placed(self.observations.positions_at(0))
        return jax.eval_shape(observe, self.problem.y0)

    @property
    def observed_values(self) -> int:
        return int(_count(self))


@eqx.filter_jit
def _count(functional: AbstractResidualMap) -> Array:
    return sum((jnp.sum(functional.fitted(name)) for name in functional.observed), start=jnp.zeros((), int))
