"""Operations whose value and gradient stay finite even if the textbook formula does not.

`where(x > 0, sqrt(x), 0)` still has a NaN gradient at zero, because both branches are differentiated. So each function
here guards the *input* of the branch that would fail. At the guarded point the gradient is zero.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def safe_sqrt(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Square root with a finite gradient: sqrt(x) for x > 0, and 0 with gradient 0 elsewhere.

    **Arguments:**

    - `x`: an array of any shape. Negative entries give 0, not NaN.
    """
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def safe_norm(x: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Euclidean norm with a finite gradient, which is 0 at the zero vector.

    **Arguments:**

    - `x`: an array of any shape.
    - `axis`: the axis or axes to sum over; by default all.
    - `keepdims`: whether summed axes stay, with length 1.
    """
    return safe_sqrt(jnp.sum(x * x, axis=axis, keepdims=keepdims))


def safe_div(numerator: Array, denominator: Array, otherwise: float = 0.0) -> Array:
    """Quotient with a finite gradient even if the denominator is 0.

    **Arguments:**

    - `numerator`, `denominator`: arrays of shapes that broadcast.
    - `otherwise`: the result if the denominator is exactly 0. Its gradient is 0 there.
    """
    nonzero = denominator != 0
    return jnp.where(nonzero, numerator / jnp.where(nonzero, denominator, 1), otherwise)
