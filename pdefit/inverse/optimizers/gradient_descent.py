"""Gradient transformations of optax (Adam, Lion, ...) as optimizers."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, by_gradient


class _State(NamedTuple):
    trial: Array
    theta: Array
    update: Array
    transformation: PyTree
    scale: Array
    box: Box


class Optax(AbstractOptimizer):
    """Any optax gradient transformation, projected onto the bounds.

    Where the new point is not finite it is rejected, the step halved and tried again. The step size recovers by 1.2
    with every accepted point. It never counts as converged, because a fixed schedule of steps has no criterion.

    **Arguments:**

    - `transformation`: a transformation of optax, such as `optax.lion(1e-2)`.
    """

    tangents: ClassVar[bool] = False

    transformation: optax.GradientTransformation = eqx.field(static=True)

    def evaluate(self, functional, state):
        return by_gradient(functional, self.ask(state))

    def init(self, theta, box):
        one = jnp.ones((), theta.dtype)
        return _State(theta, theta, jnp.zeros_like(theta), self.transformation.init(theta), one, box)

    def ask(self, state):
        return state.trial

    def tell(self, state, found):
        accepted = found.finite
        gradient = jnp.where(accepted, found.gradient, 0.0)
        update, transformation = self.transformation.update(gradient, state.transformation, state.trial)
        theta = jnp.where(accepted, state.trial, state.theta)
        update = jnp.where(accepted, jnp.asarray(update), state.update)
        scale = jnp.where(accepted, jnp.minimum(1.2 * state.scale, 1.0), state.scale / 2)
        transformation = jax.tree.map(
            lambda new, old: jnp.where(accepted, new, old), transformation, state.transformation
        )
        return _State(state.box.clip(theta + scale * update), theta, update, transformation, scale, state.box), accepted

    def converged(self, state):
        # a fixed schedule of steps has no criterion for that
        return jnp.zeros((), bool)

    def finished(self, state):
        return state.scale < 1e-12


def Adam(learning_rate: float = 1e-2) -> Optax:
    """Adam with a constant learning rate in search space.

    **Arguments:**

    - `learning_rate`: the size of a step of theta; default 0.01.

    Source: D. Kingma, J. Ba (2015), arXiv:1412.6980.
    """
    return Optax(optax.adam(learning_rate))
