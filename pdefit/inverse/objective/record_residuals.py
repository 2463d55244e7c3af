"""Residuals of one record: of trajectories as a function of theta, of gaps, of regularizers and priors."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from pdefit._util.trees import is_traced
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import on_one_device
from pdefit.inverse.controls.priors import AbstractRegularizer
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.segment_jacobian import ResidualParts
from pdefit.inverse.objective.trajectory_runner import ObservationSchedule, Reduce, TrajectoryRunner
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.continuity import gaps, in_deviations
from pdefit.inverse.shooting.formulation import AbstractFormulation, Layout
from pdefit.inverse.shooting.trajectories import residual_counts, started


class AbstractRecord(AbstractObjective):
    """The trajectories and the residuals r(theta) of one record, without derivatives.

    `Functional` is the objective made of them. Sums along trajectories, such as J and the normal equations, use this
    class.

    Its fields are explained at `Functional`, which sets them.
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

    def at(self, theta):
        return self.controls.problem(self.problem, theta)

    @property
    def observed(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and dtype of the instrument's observation of a state, by variable."""
        return self.problem.observed(self.observations)

    @property
    def schedule(self) -> ObservationSchedule:
        """The whole record, cut by the formulation."""
        each = {n: residual_counts(n, self.problem, self.controls, self.layout) for n in self.observed}
        counts = {n: jnp.asarray(x, bool) for n, x in each.items()}
        return ObservationSchedule(self.layout.time_grid, self.layout.index, counts, self.observations)

    def fitted(self, name: str) -> Bool[Array | np.ndarray, "S I ..."]:
        """Mask of the measured values of a variable that count as residuals."""
        mask = self.observations.mask[name]
        observed = (mask if is_traced(mask) else np.asarray(on_one_device(mask)))[self.layout.index]
        counts = residual_counts(name, self.problem, self.controls, self.layout)
        return observed & counts.reshape(counts.shape + (1,) * (observed.ndim - 2))

    def starts(self, problem: Problem) -> PyTree:
        """Initial states of the trajectories of all segments, with a leading axis."""
        return self.formulation.starts(problem.y0, problem.nodes)

    def trajectories(self, theta: Float[Array, " p"], reduce: Reduce) -> tuple[PyTree, PyTree]:
        """Results of `reduce` for the residuals of every observation, (S, I, ...), and the final states, (S, ...).

        `reduce` receives the residuals by variable, which are zero in padding.
        """
        problem = self.at(theta)
        return self.runner(problem, self.starts(problem), self.schedule, reduce)

    def ends_and_starts(self, theta: Float[Array, " p"], ends: PyTree) -> list[Float[Array, "S n"]]:
        """Free fields at the ends and at the starts of all segments, divided by the standard deviation of a gap.

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
        """Residuals of gaps, regularizers and priors, for given states at the ends of the segments."""
        return [gaps(*self.ends_and_starts(theta, ends)), *self.extra_residuals(theta)]

    def residual_parts(self, theta: Float[Array, " p"]) -> ResidualParts:
        """Residuals by kind, each with its own axes."""
        observed, ends = self.trajectories(theta, lambda r: r)
        edges = self.ends_and_starts(theta, ends)
        return ResidualParts(observed, edges[0], edges[1], self.extra_residuals(theta))

    def residuals(self, theta):
        outputs, ends = self.trajectories(theta, lambda r: jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(r)]))
        each = jnp.reshape(outputs, (self.layout.segments, -1)), *self.ends_and_starts(theta, ends)
        observed, ends, starts = (x.astype(jnp.float64) for x in each)
        # for each segment its observations and the gap at its end, then regularizers and priors
        inside = jnp.concatenate([observed, gaps(ends, starts)], axis=1)
        return jnp.concatenate([jnp.ravel(inside), *self.extra_residuals(theta)]).astype(jnp.float64)

    @property
    def tangents(self):
        # one for each shared control and each element of one node state
        return self.controls.shared.size + sum(c.size // c.shape[0] for c in self.controls.nodes)

    @property
    def count(self):
        return sum((self.fitted(name).sum() for name in self.observed), start=np.zeros((), int))

    @property
    def continuity_values(self):
        return sum(c.size - c.size // c.shape[0] for c in self.controls.nodes)

    @property
    def groups(self):
        return self.layout.segments
