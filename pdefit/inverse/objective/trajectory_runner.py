"""Runs of trajectories, one by one or together, and the weighted residuals of their observations."""

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
from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.problem.problem import Problem

Reduce = Callable[[dict[str, Array]], PyTree]


class ObservationSchedule(eqx.Module):
    """Steps and observations of a record, or of a window of it, for S trajectories of I observations each.

    **Arguments:**

    - `time_grid`: the steps.
    - `index`: indices into `observations`, (S, I).
    - `counts`: for each variable the mask of observations that are residuals, (S, I). Each counts once.
    - `observations`: the data, with masks and sigma.
    """

    time_grid: TimeGrid
    index: Array | np.ndarray
    counts: dict[str, Array]
    observations: Observations

    def residuals(self, observe: AbstractObservationOperator, y: PyTree, args: PyTree, i: PyTree) -> dict[str, Array]:
        """Residuals W (H(t, y, args) - d) of one observation, by variable; 0 if it is missing or no residual.

        **Arguments:**

        - `observe`: the observation operator H.
        - `y`: the state.
        - `args`: the exogenous inputs.
        - `i`: an index and flags, one entry of `inputs`.
        """
        index, counts = i
        data = self.observations
        # as in the steps, times are float64 and handed over in the state's precision
        t = jnp.asarray(data.ts)[index].astype(precision(y))
        observed = observe.placed(data.positions_at(index))(t, y, args)

        def one(name: str) -> Array:
            target, sigma = data.values[name][index], data.sigma[name]
            sigma = jnp.broadcast_to(sigma[index if sigma.shape[0] > 1 else 0], target.shape)
            fitted = data.mask[name][index] & counts[name]
            # 1/sigma is made before the guard, which keeps a masked NaN of the model out of the gradient
            return jnp.where(fitted, (1 / sigma) * (observed[name] - target), 0.0)

        return {name: one(name) for name in observed}

    @property
    def inputs(self) -> tuple[Array, dict[str, Array]]:
        """Index and flags of every observation, which identify the observations in a run."""
        return jnp.asarray(self.index), self.counts


class TrajectoryRunner(eqx.Module):
    """Numerical method of trajectories: solver, adjoint and batch.

    **Arguments:**

    - `solver`: the time stepping method.
    - `adjoint`: the sensitivity algorithm.
    - `batch`: the batch of several trajectories.
    """

    solver: diffrax.AbstractSolver
    adjoint: AbstractAdjoint
    batch: AbstractBatch

    def resolve_for(self, problems: Sequence[Problem], grid: TimeGrid) -> "TrajectoryRunner":
        """The runner with all problem-dependent choices made.

        **Arguments:**

        - `problems`: problems of equal structure, for all of which the choices must be valid.
        - `grid`: the steps of all trajectories.
        """
        adjoint = self.adjoint.resolve_for([(p.system, p.y0) for p in problems], grid, self.solver)
        return TrajectoryRunner(self.solver, adjoint, self.batch)

    def stepper(self, problem: Problem) -> Stepper:
        """Stepper of a problem with this solver."""
        return Stepper(problem.system, self.solver, problem.args, problem.nudge, problem.events)

    def __call__(
        self,
        problem: Problem,
        starts: PyTree,
        schedule: ObservationSchedule,
        reduce: Reduce,
        probes: Array | None = None,
    ) -> tuple[PyTree, PyTree]:
        """A function of the residuals of every observation, stacked (S, I, ...), and the final states (S, ...).

        **Arguments:**

        - `problem`: the equations, the instrument and exogenous inputs.
        - `starts`: the initial states, (S, ...).
        - `schedule`: the steps and observations.
        - `reduce`: a function of the residuals of one observation, by variable; its results are stacked.
        - `probes`: as in `AbstractAdjoint.run`, for each trajectory.
        """

        def emit(y: PyTree, i: PyTree) -> PyTree:
            return reduce(schedule.residuals(problem.instrument, y, problem.args, i))

        return self.run(self.stepper(problem), starts, schedule, emit, probes)

    def run(
        self,
        stepper: AbstractStepper,
        starts: PyTree,
        schedule: ObservationSchedule,
        emit: Callable,
        probes: Array | None = None,
    ) -> tuple[PyTree, PyTree]:
        """A function of the state at every observation, stacked (S, I, ...), and the final states (S, ...).

        **Arguments:** as in `AbstractAdjoint.run`, with S initial states in `starts` and S time grids in `schedule`.
        """

        if not self.adjoint.other_steps:
            stepper = stepper.prepared(schedule.time_grid)

        def trajectory(y0: PyTree, grid: TimeGrid, inputs: PyTree, probes: Array | None) -> tuple[PyTree, PyTree]:
            end, outputs = self.adjoint.run(stepper, y0, grid, emit, inputs, probes)
            return outputs, end

        return self.batch(trajectory, starts, schedule.time_grid, schedule.inputs, probes)
