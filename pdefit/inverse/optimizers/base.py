"""Optimizers as ask/tell objects: they can be jitted in chunks, stepped one by one, and saved between any two evaluations."""

import abc
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from pdefit.inverse.controls.vector import Controls
from pdefit.inverse.objective.abstract import Carry


@runtime_checkable
class Evaluated(Protocol):
    """What optimizers need of J(theta): an objective in one program, or one that runs in pieces."""

    @property
    def controls(self) -> Controls:
        """What theta stands for."""
        ...

    def watched_gradient(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, ""]]:
        """J, its gradient, and how much the adjoint grew on its way back."""
        ...

    def gauss_newton_product(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> Float[Array, " p"]:
        """J_r^T J_r v."""
        ...

    def normal_equations(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, "p p"]]:
        """J, its gradient J_r^T r and the Gauss-Newton matrix J_r^T J_r."""
        ...

    def repeat(self, condition: Callable[[Carry], Array], body: Callable[[Carry], Carry], carry: Carry) -> Carry:
        """`carry = body(carry)` while `condition(carry)`."""
        ...


class Evaluation(NamedTuple):
    """Value, gradient and, for Gauss-Newton kinds, curvature of J at a point.

    **Arguments:**

    - `value`, `gradient` (p,): J and its gradient.
    - `matrix` (p, p): J_r^T J_r, where it is formed.
    - `growth`: of the adjoint on its way back, where there was one.
    - `direction`, `curvature` (p,), `norm`: a step that products with the matrix gave, the curvature of each element that
      they showed, and the gradient's norm in such units.
    """

    value: Float[Array, ""]
    gradient: Float[Array, " p"]
    matrix: Float[Array, "p p"] | None = None
    growth: Float[Array, ""] | float = 0.0
    direction: Float[Array, " p"] | None = None
    curvature: Float[Array, " p"] | None = None
    norm: Float[Array, ""] | None = None

    @property
    def finite(self) -> Bool[Array, ""]:
        """Whether the point can be used at all."""
        return jnp.isfinite(self.value) & jnp.all(jnp.isfinite(self.gradient))


class Box(NamedTuple):
    """Bounds of theta."""

    lower: np.ndarray
    upper: np.ndarray

    def clip(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return jnp.clip(theta, self.lower, self.upper)

    def blocked(self, theta: Float[Array, " p"], direction: Float[Array, " p"]) -> Bool[Array, " p"]:
        """Where theta sits on a bound and the direction leads out of it."""
        return ((theta <= self.lower) & (direction < 0)) | ((theta >= self.upper) & (direction > 0))


class AbstractOptimizer(eqx.Module):
    """A minimiser as an ask/tell object.

    `ask` proposes the next point, and `tell` takes the evaluation there. A point that is not finite is rejected and the
    step reduced. The state is a pytree of arrays, so it can be jitted in chunks, stepped one by one, and saved between
    any two evaluations.

    **Arguments:** `tangents` is true where it needs forward tangents instead of the adjoint.
    """

    tangents: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def evaluate(self, functional: Evaluated, state: PyTree) -> Evaluation:
        """What this optimizer needs to know of the point that it asks for."""

    @property
    def most_products(self) -> int:
        """How many products with the Gauss-Newton matrix, about two gradients each, an evaluation may take beside its own."""
        return 0

    @abc.abstractmethod
    def init(self, theta: Float[Array, " p"], box: Box) -> PyTree:
        """The state before the first evaluation."""

    @abc.abstractmethod
    def ask(self, state: PyTree) -> Float[Array, " p"]:
        """The point to evaluate next."""

    @abc.abstractmethod
    def tell(self, state: PyTree, found: Evaluation) -> tuple[PyTree, Bool[Array, ""]]:
        """The state after an evaluation, and whether the point was accepted."""

    @abc.abstractmethod
    def converged(self, state: PyTree) -> Bool[Array, ""]:
        """Whether the best point is a minimum, as far as the optimizer can tell."""

    @abc.abstractmethod
    def finished(self, state: PyTree) -> Bool[Array, ""]:
        """Whether further evaluations are pointless: converged, or stuck."""

    def remark(self, state: PyTree) -> str | None:
        """Why it stopped without having converged, where there is something to be said about that."""
        return None


def by_gradient(functional: Evaluated, theta: Float[Array, " p"]) -> Evaluation:
    """Value and gradient by the adjoint."""
    value, gradient, growth = functional.watched_gradient(theta)
    return Evaluation(value, gradient, growth=growth)
