"""Operations whose value and gradient stay finite where the textbook formula does not.

`where(x > 0, sqrt(x), 0)` still has a NaN gradient at zero, because both branches are differentiated; each function here
therefore guards the *input* of the branch that would fail. At the guarded point the gradient is zero.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def safe_sqrt(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """sqrt(x) for x > 0, and 0 with gradient 0 elsewhere."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def safe_norm(x: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Euclidean norm along `axis`, with gradient 0 at the zero vector."""
    return safe_sqrt(jnp.sum(x * x, axis=axis, keepdims=keepdims))


def safe_div(numerator: Array, denominator: Array, otherwise: float = 0.0) -> Array:
    """numerator / denominator, and `otherwise` with gradient 0 where the denominator is 0."""
    nonzero = denominator != 0
    return jnp.where(nonzero, numerator / jnp.where(nonzero, denominator, 1), otherwise)
