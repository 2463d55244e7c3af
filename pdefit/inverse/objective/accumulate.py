"""Sums along trajectories that can be cut into windows, and so run whole or piece by piece."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from pdefit.adjoints.tangent.tangents_together import TangentLinearStepper, push
from pdefit.inverse.objective.record_residuals import AbstractRecord
from pdefit.inverse.objective.trajectory_runner import ObservationSchedule
from pdefit.inverse.problem.instrument import AbstractObservationOperator


class AbstractAccumulation(eqx.Module):
    """A scalar function of a vector x that is summed along trajectories.

    It starts from a state and passes through the windows of the record in order, each of which adds its part. At the
    end it adds a function of the final state.
    """

    functional: eqx.AbstractVar[AbstractRecord]

    @abc.abstractmethod
    def start(self, x: Float[Array, " p"]) -> PyTree:
        """State (S, ...) before the first window."""

    @abc.abstractmethod
    def advance(
        self, x: Float[Array, " p"], state: PyTree, schedule: ObservationSchedule, probes: Float[Array, "S E 2"] | None
    ) -> tuple[PyTree, Float[Array, ""]]:
        """State after a window, and the window's contribution.

        **Arguments:**

        - `x`: the vector, (p,).
        - `state`: the state at the start of the window, (S, ...).
        - `schedule`: the window with its steps and observations.
        - `probes`: as in `AbstractAdjoint.run`, for each of S trajectories.
        """

    @abc.abstractmethod
    def close(self, x: Float[Array, " p"], state: PyTree) -> Float[Array, ""]:
        """The contribution at the end, a function of the final state."""

    def whole(self, x: Float[Array, " p"], probes: Float[Array, "S E 2"] | None = None) -> Float[Array, ""]:
        """The function itself, with one window over the whole record."""
        state, part = self.advance(x, self.start(x), self.functional.schedule, probes)
        return part + self.close(x, state)


class Misfit(AbstractAccumulation):
    """The objective J(theta) as a sum along trajectories."""

    functional: AbstractRecord

    def start(self, x):
        return self.functional.starts(self.functional.at(x))

    def advance(self, x, state, schedule, probes):
        halves, ends = self.functional.runner(self.functional.at(x), state, schedule, half_square, probes)
        return ends, jnp.sum(halves)

    def close(self, x, state):
        return sum(map(_half, self.functional.remaining_residuals(x, state)), start=jnp.zeros(()))


class TangentLinearMisfit(AbstractAccumulation):
    """1/2 |J_r v|^2 as a function of v, whose gradient is J_r^T J_r v.

    The tangent-linear model is stepped together with the trajectory, so that neither the Jacobian nor residuals are stored.

    **Arguments:**

    - `functional`: the objective of one record.
    - `theta`: the point of linearisation, (p,).
    """

    functional: AbstractRecord
    theta: Float[Array, " p"]

    def start(self, x):
        return push(lambda theta: self.functional.starts(self.functional.at(theta)), (self.theta,), (x,))

    def advance(self, x, state, schedule, probes):
        problem, tangent = push(self.functional.at, (self.theta,), (x,))
        tangent = self.functional.controls.touched(tangent)
        runner = self.functional.runner

        def emit(pair: tuple[PyTree, PyTree], i: PyTree) -> Array:
            def residuals(observe: AbstractObservationOperator, y: PyTree, args: PyTree) -> dict[str, Array]:
                return schedule.residuals(observe, y, args, i)

            y, dy = pair
            moved = tangent.instrument, dy, tangent.args
            return half_square(push(residuals, (problem.instrument, y, problem.args), moved)[1])

        stepper = TangentLinearStepper(runner.stepper(problem), runner.stepper(tangent))
        halves, ends = runner.run(stepper, state, schedule, emit, probes)
        return ends, jnp.sum(halves)

    def close(self, x, state):
        functional = self.functional
        parts = push(functional.remaining_residuals, (self.theta, state[0]), (x, state[1]))[1]
        return sum(map(_half, parts), start=jnp.zeros(()))


def half_square(residuals: dict[str, Array]) -> Float[Array, ""]:
    """1/2 |r|^2 of one observation, in float64."""
    return sum(map(_half, residuals.values()), start=jnp.zeros(()))


def _half(r: Array) -> Float[Array, ""]:
    return jnp.sum(r.astype(jnp.float64) ** 2) / 2
