"""Gradient transformations of optax (Adam, Lion, ...) as optimizers."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from pdefit._util.expected import Positive, check_rule
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, select


class _State(NamedTuple):
    trial: Array
    theta: Array
    update: Array
    transformation: PyTree
    scale: Array
    box: Box


class Optax(AbstractOptimizer):
    """Gradient descent by any optax transformation, projected onto the bounds.

    For networks in an equation. Not if a minimum or an interval is wanted: it never counts as converged, because a
    fixed schedule of steps has no criterion.

    If the new point is not finite, it is rejected, and half the step is tried. The step size recovers by a factor 1.2
    with every accepted point.

    **Arguments:**

    - `transformation`: a transformation of optax, such as `optax.lion(1e-2)`.
    """

    tangents: ClassVar[bool] = False

    transformation: optax.GradientTransformation = eqx.field(static=True)

    def init(self, theta, box):
        one = jnp.ones((), theta.dtype)
        return _State(theta, theta, jnp.zeros_like(theta), self.transformation.init(theta), one, box)

    def ask(self, state):
        return state.trial

    def tell(self, state, evaluation):
        accepted = evaluation.finite
        gradient = jnp.where(accepted, evaluation.gradient, 0.0)
        update, transformation = self.transformation.update(gradient, state.transformation, state.trial)
        new, old = (state.trial, jnp.asarray(update), transformation), (state.theta, state.update, state.transformation)
        theta, update, transformation = select(accepted, new, old)
        scale = jnp.where(accepted, jnp.minimum(1.2 * state.scale, 1.0), state.scale / 2)
        return _State(state.box.clip(theta + scale * update), theta, update, transformation, scale, state.box), accepted

    def converged(self, state):
        # a fixed schedule of steps has no criterion for that
        return jnp.zeros((), bool)

    def finished(self, state):
        return state.scale < 1e-12


def Adam(learning_rate: Positive = 1e-2) -> Optax:
    """Adam with a constant learning rate in search space.

    For networks in an equation. Not if a minimum or an interval is wanted, because it never counts as converged.

    **Arguments:**

    - `learning_rate`: the size of a step of theta; default 0.01.

    Source: D. Kingma, J. Ba (2015), arXiv:1412.6980.
    """
    check_rule("Adam", "learning_rate", Positive, learning_rate)
    return Optax(optax.adam(learning_rate))
