"""Sums along trajectories that can be cut into parts: what both drivers, traced and hosted, differentiate."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from pdefit.integrate.loop.stepper import Stepper
from pdefit.inverse.objective.residuals import ObservationSchedule
from pdefit.inverse.objective.tangent_linear import TangentLinearStepper, push


class AbstractAccumulation(eqx.Module):
    """A scalar function of a vector x: start somewhere, march through one window after the other, each adding its part, and
    look at where it ended. `functional` says what a Functional is made of (which imports this file)."""

    functional: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def start(self, x: Float[Array, " p"]) -> PyTree:
        """The state (S, ...) before the first window."""

    @abc.abstractmethod
    def through(
        self, x: Float[Array, " p"], state: PyTree, window: ObservationSchedule, probes: Float[Array, "S E 2"] | None
    ) -> tuple[PyTree, Float[Array, ""]]:
        """The state after a window, and what the window adds."""

    @abc.abstractmethod
    def finish(self, x: Float[Array, " p"], state: PyTree) -> Float[Array, ""]:
        """What is added at the end."""

    def whole(self, x: Float[Array, " p"], probes: Float[Array, "S E 2"] | None = None) -> Float[Array, ""]:
        """The function itself, in one window."""
        state, part = self.through(x, self.start(x), self.functional.window, probes)
        return part + self.finish(x, state)


class Misfit(AbstractAccumulation):
    """J(theta)."""

    functional: Any

    def start(self, x):
        return self.functional.starts(self.functional.at(x))

    def through(self, x, state, window, probes):
        halves, ends = self.functional.sweep(self.functional.at(x), state, window, half_square, probes)
        return ends, jnp.sum(halves)

    def finish(self, x, state):
        return sum(map(_half, self.functional.remaining_residuals(x, state)), start=jnp.zeros(()))


class TangentLinearMisfit(AbstractAccumulation):
    """1/2 |J_r v|^2 as a function of v, whose gradient is J_r^T J_r v: the tangent-linear model is stepped beside the
    trajectory, so that neither the Jacobian nor residuals are held."""

    functional: Any
    theta: Float[Array, " p"]

    def start(self, x):
        return push(lambda theta: self.functional.starts(self.functional.at(theta)), (self.theta,), (x,))

    def through(self, x, state, window, probes):
        problem, tangent = push(self.functional.at, (self.theta,), (x,))
        tangent = self.functional.controls.touched(tangent)
        sweep = self.functional.sweep

        def emit(pair: tuple[PyTree, PyTree], i: Any) -> Array:
            def residuals(observe: Any, y: PyTree) -> dict[str, Array]:
                return window.residuals(observe, y, i)

            y, dy = pair
            return half_square(push(residuals, (problem.observe, y), (tangent.observe, dy))[1])

        stepper = TangentLinearStepper(_stepper(problem, sweep), _stepper(tangent, sweep))
        halves, ends = sweep.run(stepper, state, window, emit, probes)
        return ends, jnp.sum(halves)

    def finish(self, x, state):
        functional = self.functional
        parts = push(functional.remaining_residuals, (self.theta, state[0]), (x, state[1]))[1]
        return sum(map(_half, parts), start=jnp.zeros(()))


def _stepper(problem: Any, sweep: Any) -> Stepper:
    return Stepper(problem.system, sweep.solver, problem.args)


def half_square(residuals: dict[str, Array]) -> Float[Array, ""]:
    """1/2 |r|^2 of one observation, in float64."""
    return sum(map(_half, residuals.values()), start=jnp.zeros(()))


def _half(r: Array) -> Float[Array, ""]:
    return jnp.sum(r.astype(jnp.float64) ** 2) / 2
