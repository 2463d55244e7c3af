"""Weighted residuals along one run of the time loop."""

from collections.abc import Callable, Sequence

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit.adjoints.base import AbstractAdjoint
from pdefit.data.observations import Observations
from pdefit.integrate.loop.batch import AbstractBatch
from pdefit.integrate.loop.stepper import AbstractStepper, Stepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.problem.problem import Problem

Reduce = Callable[[dict[str, Array]], PyTree]


class ObservationSchedule(eqx.Module):
    """A record, or a part of it, that S trajectories of I observations each run through.

    `index` (S, I) into `observations`, by variable `counts` (S, I) which of them are residuals, once each.
    """

    time_grid: TimeGrid
    index: Array | np.ndarray
    counts: dict[str, Array]
    observations: Observations

    def residuals(self, observe: AbstractObservationOperator, y: PyTree, i: PyTree) -> dict[str, Array]:
        """W (H(y) - d) of one observation, 0 where it is missing or no residual; `i` are an index and flags as in `inputs`."""
        index, counts = i
        seen, data = observe(y), self.observations

        def one(name: str) -> Array:
            target, sigma = data.values[name][index], data.sigma[name]
            sigma = jnp.broadcast_to(sigma[index if sigma.shape[0] > 1 else 0], target.shape)
            fitted = data.mask[name][index] & counts[name]
            # 1/sigma is made before the guard, which keeps a masked NaN of the model out of the gradient
            return jnp.where(fitted, (1 / sigma) * (seen[name] - target), 0.0)

        return {name: one(name) for name in seen}

    @property
    def inputs(self) -> tuple[Array, dict[str, Array]]:
        """What tells the observations of a run apart."""
        return jnp.asarray(self.index), self.counts


class TrajectoryRunner(eqx.Module):
    """How trajectories are run: the solver, its adjoint, and how several are batched."""

    solver: diffrax.AbstractSolver
    adjoint: AbstractAdjoint
    batch: AbstractBatch

    def resolve_for(self, problems: Sequence[Problem], grid: TimeGrid) -> "TrajectoryRunner":
        """The same with everything decided that depends on the problem, which may be any of these."""
        adjoint = self.adjoint.resolve_for([(p.system, p.y0) for p in problems], grid, self.solver)
        return TrajectoryRunner(self.solver, adjoint, self.batch)

    def __call__(
        self,
        problem: Problem,
        starts: PyTree,
        schedule: ObservationSchedule,
        reduce: Reduce,
        probes: Array | None = None,
    ) -> tuple[PyTree, PyTree]:
        """`reduce` of the residuals of every observation, stacked (S, I, ...), and the states at the ends (S, ...)."""
        stepper = Stepper(problem.system, self.solver, problem.args)
        return self.run(
            stepper, starts, schedule, lambda y, i: reduce(schedule.residuals(problem.observe, y, i)), probes
        )

    def run(
        self,
        stepper: AbstractStepper,
        starts: PyTree,
        schedule: ObservationSchedule,
        emit: Callable,
        probes: Array | None = None,
    ) -> tuple[PyTree, PyTree]:
        """`emit` of every observation, stacked (S, I, ...), and what the stepper steps at the ends (S, ...)."""

        def trajectory(y0: PyTree, grid: TimeGrid, inputs: PyTree, probes: Array | None) -> tuple[PyTree, PyTree]:
            end, outputs = self.adjoint.run(stepper, y0, grid, emit, inputs, probes)
            return outputs, end

        return self.batch(trajectory, starts, schedule.time_grid, schedule.inputs, probes)
