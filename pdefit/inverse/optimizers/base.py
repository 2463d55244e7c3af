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
    - `matrix`: J_r^T J_r, (p, p), if it is formed; for recordings the normal equations of each.
    - `growth`: the growth of the adjoint in the reverse pass, if there was one.
    - `found`: further results of the optimizer at this point.
    """

    value: Float[Array, ""]
    gradient: Float[Array, " p"]
    matrix: Float[Array, "p p"] | ArrowEquations | None = None
    growth: Float[Array, ""] | float = 0.0
    found: PyTree = None

    @property
    def finite(self) -> Bool[Array, ""]:
        """True if the point can be used at all."""
        return jnp.isfinite(self.value) & jnp.all(jnp.isfinite(self.gradient))


class Point(NamedTuple):
    """An iterate: an accepted point with its evaluation.

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
    """The new tree if a step is accepted, the old one if it is rejected."""
    # both are there: inside a compiled loop a step has no branches
    return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)


def straight(controls: Controls) -> Bool[np.ndarray, " p"]:
    """Mask of scalars and node states in arbitrary units, whose steps are limited relative to their size.

    Initial states are excluded: their limit keeps trajectories of the whole record near the data.
    """
    return controls.mask(lambda c: isinstance(c.transform, Identity | Scale) and c.kind != "initial")


class Box(NamedTuple):
    """Limits of a search: bounds of theta, the round-off of J, and the number of residuals.

    **Arguments:**

    - `lower`, `upper`: the bounds, (p,); infinite without bounds.
    - `round_off`: the round-off of J over sqrt(2 J), which is the round-off of one residual.
    - `values`: the number of residuals of data and gaps; infinite if their size tells nothing about noise.
    - `nothing`: zero normal equations, in the form that an optimizer receives; None for a matrix (p, p).
    - `straight`: mask of elements of theta in arbitrary units, whose moves are limited relative to their size, (p,).
    """

    lower: np.ndarray | Array
    upper: np.ndarray | Array
    round_off: Float[Array | np.ndarray, ""] | float = 0.0
    values: Float[Array | np.ndarray, ""] | float = np.inf
    nothing: ArrowEquations | None = None
    straight: np.ndarray | Array | bool = False

    def variance(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """Variance of residuals in sigma^2, at least 1; 0 if they are so far below sigma that they are no noise.

        **Arguments:** `value`: J.
        """
        variance = 2 * value / self.values
        return jnp.where(variance >= _NOISY, jnp.maximum(1.0, variance), 0.0)

    def noise(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """Possible difference between two values of J near this one by round-off.

        It is at most a thousandth of J, unless residuals are far below sigma: a trajectory that amplifies round-off is
        not at a minimum just because its J is uncertain.
        """
        noise = _NOISE * self.round_off * jnp.sqrt(2 * jnp.abs(value))
        return jnp.where(self.variance(value) > 0, jnp.minimum(noise, _MOST_NOISE * jnp.abs(value)), noise)

    def slack(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """Decrease of J that is lost in its round-off; `value` is J."""
        return jnp.maximum(1e-13 * value, self.noise(value))

    def lost(self, value: Array, promised: Array, fallen: Array) -> Bool[Array, "..."]:
        """True if the predicted decrease of J is within its round-off, and J rose by no more than that.

        **Arguments:**

        - `value`: J before the step.
        - `promised`, `fallen`: the predicted and the actual decrease of J.
        """
        slack = self.slack(value)
        return (promised <= slack) & (fallen >= -slack)

    def matters(self, fall: Array, value: Array, decrement: Array | float) -> Bool[Array, ""]:
        """True if a decrease of J may move unknowns by more than a tenth of their standard errors, if residuals are noise.

        **Arguments:**

        - `fall`, `value`: the decrease of J, and J.
        - `decrement`: the negligible Newton decrement, if it exceeds that of a tenth of a standard error.
        """
        variance = self.variance(value)
        return (variance > 0) & (fall > jnp.maximum(_TENTH, decrement) * variance / 2)

    def clip(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return jnp.clip(theta, self.lower, self.upper)

    def blocked(self, theta: Float[Array, " p"], direction: Float[Array, " p"]) -> Bool[Array, " p"]:
        """Mask of elements of theta on a bound across which the direction leads, (p,)."""
        return ((theta <= self.lower) & (direction < 0)) | ((theta >= self.upper) & (direction > 0))


class AbstractOptimizer(eqx.Module):
    """A minimiser as an object with `ask` and `tell`.

    `ask` proposes the next point, and `tell` takes the evaluation there. A point that is not finite is rejected and the
    step reduced. The state is a pytree of arrays, so it can be jitted in chunks, stepped one by one, and saved between
    any two evaluations. `tangents` is whether it needs forward tangents instead of the adjoint.
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
        """Evaluation of J at the point of `ask`, with the derivatives that this optimizer needs; by default the gradient.

        **Arguments:**

        - `functional`: the objective.
        - `state`: the state of the optimizer.
        """
        return by_gradient(functional, self.ask(state))

    @property
    def most_products(self) -> int:
        """Largest number of products with the Gauss-Newton matrix (about two gradients each) in one evaluation."""
        return 0

    @abc.abstractmethod
    def init(self, theta: Float[Array, " p"], box: Box) -> PyTree:
        """State before the first evaluation.

        **Arguments:**

        - `theta`: the first point, (p,).
        - `box`: the bounds of theta.
        """

    @abc.abstractmethod
    def ask(self, state: PyTree) -> Float[Array, " p"]:
        """The point to evaluate next, (p,)."""

    @abc.abstractmethod
    def tell(self, state: PyTree, evaluation: Evaluation) -> tuple[PyTree, Bool[Array, ""]]:
        """State after an evaluation, and whether the point was accepted.

        **Arguments:**

        - `state`: the previous state.
        - `evaluation`: the result of `evaluate` for it.
        """

    def best(self, state: PyTree, theta: Float[Array, " p"], value: Float[Array, ""]) -> tuple[Array, Array]:
        """The point reached, and J there; by default the evaluated point.

        **Arguments:**

        - `state`: the state after an evaluation.
        - `theta`, `value`: the evaluated point, and J there.
        """
        return theta, value

    def converged(self, state: PyTree) -> Bool[Array, ""]:
        """True if the best point is a minimum, as far as the optimizer can judge; by default by its `Convergence`."""
        return state.convergence.converged

    def finished(self, state: PyTree) -> Bool[Array, ""]:
        """True if a fit has converged or is stuck, so that further evaluations are pointless."""
        return jnp.logical_or(state.convergence.converged, state.convergence.stuck)

    def remark(self, state: PyTree) -> str | None:
        """The reason for its end, as a sentence for the user; None if no reason is needed."""
        return None


def by_gradient(functional: AbstractEvaluated, theta: Float[Array, " p"]) -> Evaluation:
    """Value and gradient of J by the adjoint, as an `Evaluation`."""
    value, gradient, growth = functional.watched_gradient(theta)
    return Evaluation(value, gradient, growth=growth)
