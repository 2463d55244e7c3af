"""The interface of optimizers: objects with `ask` and `tell`.

They can be jitted in chunks, stepped one by one, and saved between any two evaluations.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from pdefit._util.expected import check_fields
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.controls.transforms import Identity, Scale
from pdefit.inverse.objective.abstract import AbstractEvaluated
from pdefit.inverse.objective.recording_equations import ArrowEquations

# standard deviations of round-off that are not taken for a change
_NOISE = 4.0
# the part of J that its round-off may be where residuals are as large as sigma
_MOST_NOISE = 1e-3
# residuals whose mean square is below this part of sigma^2 are no noise
_NOISY = 0.5
# the Newton decrement of a tenth of a standard error, in units of the variance of residuals
_TENTH = 0.01


class Evaluation(NamedTuple):
    """Value, gradient and, for Gauss-Newton kinds, curvature of J at a point.

    **Arguments:**

    - `value`, `gradient`: J and its gradient, (p,).
    - `matrix`: J_r^T J_r, (p, p), where it is formed; of recordings as the normal equations of each.
    - `growth`: the growth of the adjoint on its way back, where there was one.
    - `found`: what else the optimizer found there.
    """

    value: Float[Array, ""]
    gradient: Float[Array, " p"]
    matrix: Float[Array, "p p"] | ArrowEquations | None = None
    growth: Float[Array, ""] | float = 0.0
    found: PyTree = None

    @property
    def finite(self) -> Bool[Array, ""]:
        """Whether the point can be used at all."""
        return jnp.isfinite(self.value) & jnp.all(jnp.isfinite(self.gradient))


class Point(NamedTuple):
    """An iterate: a point that was accepted, with what was evaluated there.

    **Arguments:**

    - `theta`: the point, (p,).
    - `value`, `gradient`: J and its gradient there, (p,).
    """

    theta: Float[Array, " p"]
    value: Float[Array, ""]
    gradient: Float[Array, " p"]

    @staticmethod
    def before(theta: Float[Array, " p"]) -> "Point":
        """The first point before its evaluation, with zeros for value and gradient."""
        return Point(theta, jnp.zeros((), theta.dtype), jnp.zeros_like(theta))

    @staticmethod
    def at(theta: Float[Array, " p"], evaluation: Evaluation) -> "Point":
        """A point with its evaluation."""
        return Point(theta, evaluation.value, evaluation.gradient)


def select(accepted: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    """The new one of two equal trees where a step is accepted, and the old one where it is rejected."""
    # both are there: inside a compiled loop a step has no branches
    return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)


def straight(controls: Controls) -> Bool[np.ndarray, " p"]:
    """The elements of theta that are numbers or node states in a unit of their own, so that their size means nothing.

    An initial state is none: its limit keeps trajectories of the whole record near the data.
    """
    return controls.mask(lambda c: isinstance(c.transform, Identity | Scale) and c.kind != "initial")


class Box(NamedTuple):
    """Limits of a search: bounds of theta, the round-off of J, and the number of residuals.

    **Arguments:**

    - `lower`, `upper`: the bounds, (p,); infinite where there are none.
    - `round_off`: the round-off of J over sqrt(2 J), which is the round-off of one residual.
    - `values`: the number of residuals of data and gaps; infinite where their size says nothing about noise.
    - `nothing`: normal equations of zero, in the form that an optimizer will be given; None for a matrix (p, p).
    - `straight`: elements of theta in a unit of their own, whose moves are limited relative to their size, (p,).
    """

    lower: np.ndarray | Array
    upper: np.ndarray | Array
    round_off: Float[Array | np.ndarray, ""] | float = 0.0
    values: Float[Array | np.ndarray, ""] | float = np.inf
    nothing: ArrowEquations | None = None
    straight: np.ndarray | Array | bool = False

    def variance(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """The variance of residuals in sigma^2, at least 1; 0 where they are far below sigma, so that they are no noise.

        **Arguments:** `value` is J.
        """
        variance = 2 * value / self.values
        return jnp.where(variance >= _NOISY, jnp.maximum(1.0, variance), 0.0)

    def noise(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """The difference that two values of J about this one may have by round-off.

        No more than a thousandth of J, unless residuals are far below sigma: a trajectory that amplifies round-off is not
        at a minimum because its J cannot be told.
        """
        noise = _NOISE * self.round_off * jnp.sqrt(2 * jnp.abs(value))
        return jnp.where(self.variance(value) > 0, jnp.minimum(noise, _MOST_NOISE * jnp.abs(value)), noise)

    def slack(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """The fall of J that is lost in its round-off; `value` is J."""
        return jnp.maximum(1e-13 * value, self.noise(value))

    def lost(self, value: Array, promised: Array, fallen: Array) -> Bool[Array, "..."]:
        """Test for an improvement that is lost in the round-off of J: no more than that was promised.

        **Arguments:**

        - `value`: J before the step.
        - `promised`, `fallen`: the promised and the actual fall of J.
        """
        slack = self.slack(value)
        return (promised <= slack) & (fallen >= -slack)

    def matters(self, fall: Array, value: Array, decrement: Array | float) -> Bool[Array, ""]:
        """Test for a fall of J that may move unknowns by more than a tenth of their standard errors, if residuals are noise.

        **Arguments:**

        - `fall`, `value`: the fall of J, and J.
        - `decrement`: the Newton decrement that does not matter, if it is more than a tenth of a standard error allows.
        """
        variance = self.variance(value)
        return (variance > 0) & (fall > jnp.maximum(_TENTH, decrement) * variance / 2)

    def clip(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return jnp.clip(theta, self.lower, self.upper)

    def blocked(self, theta: Float[Array, " p"], direction: Float[Array, " p"]) -> Bool[Array, " p"]:
        """The elements of theta on a bound out of which the direction leads, (p,)."""
        return ((theta <= self.lower) & (direction < 0)) | ((theta >= self.upper) & (direction > 0))


class AbstractOptimizer(eqx.Module):
    """A minimiser as an object with `ask` and `tell`.

    `ask` proposes the next point, and `tell` takes the evaluation there. A point that is not finite is rejected and the
    step reduced. The state is a pytree of arrays, so it can be jitted in chunks, stepped one by one, and saved between
    any two evaluations. `tangents` is whether it needs forward tangents in place of the adjoint.
    """

    tangents: eqx.AbstractClassVar[bool]

    def __check_init__(self):
        check_fields(self)

    def on(self, objective: Any) -> "AbstractOptimizer":
        """The optimizer of a stage that minimises an objective; by default itself.

        **Arguments:**

        - `objective`: the objective, with its problem and record.
        """
        return self

    def evaluate(self, functional: AbstractEvaluated, state: PyTree) -> Evaluation:
        """The evaluation of J at the point of `ask`, with as much as this optimizer needs; by default J and its gradient.

        **Arguments:**

        - `functional`: the objective.
        - `state`: the state of the optimizer.
        """
        return by_gradient(functional, self.ask(state))

    @property
    def most_products(self) -> int:
        """The most products with the Gauss-Newton matrix, of about two gradients each, in one evaluation."""
        return 0

    @abc.abstractmethod
    def init(self, theta: Float[Array, " p"], box: Box) -> PyTree:
        """The state before the first evaluation.

        **Arguments:**

        - `theta`: the first point, (p,).
        - `box`: the bounds of theta.
        """

    @abc.abstractmethod
    def ask(self, state: PyTree) -> Float[Array, " p"]:
        """The point to evaluate next, (p,)."""

    @abc.abstractmethod
    def tell(self, state: PyTree, evaluation: Evaluation) -> tuple[PyTree, Bool[Array, ""]]:
        """The state after an evaluation, and whether the point was accepted.

        **Arguments:**

        - `state`: the state before.
        - `evaluation`: what `evaluate` returned for it.
        """

    def best(self, state: PyTree, theta: Float[Array, " p"], value: Float[Array, ""]) -> tuple[Array, Array]:
        """The point that was reached, and J there; by default the one that was evaluated.

        **Arguments:**

        - `state`: the state after an evaluation.
        - `theta`, `value`: the point that was evaluated, and J there.
        """
        return theta, value

    def converged(self, state: PyTree) -> Bool[Array, ""]:
        """Test for a best point that is a minimum, as far as the optimizer can judge, by default its `Convergence`."""
        return state.convergence.converged

    def finished(self, state: PyTree) -> Bool[Array, ""]:
        """Test for a fit that has converged or is stuck, so that further evaluations are pointless."""
        return jnp.logical_or(state.convergence.converged, state.convergence.stuck)

    def remark(self, state: PyTree) -> str | None:
        """The reason why it stopped, as a sentence for the user; None where it needs none."""
        return None


def by_gradient(functional: AbstractEvaluated, theta: Float[Array, " p"]) -> Evaluation:
    """Value and gradient of J by the adjoint, as an `Evaluation`."""
    value, gradient, growth = functional.watched_gradient(theta)
    return Evaluation(value, gradient, growth=growth)
