"""Linear systems whose matrix is known by its products alone, solved as far as one number of their solution asks."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# the number is known when this many products together raised it by no more than a fraction of itself
_PRODUCTS, _FRACTION = 3, 5e-3
# the part of the first squared residual below which only round-off is left
_ROUND_OFF = 1e-18
_MOST_PRODUCTS = 300


def solved(
    product: Callable, scaled: Callable, b: Float[Array, " p"], whole: float = 0.0
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """The solution x of A x = b by conjugate gradients, to half a percent of `whole` - b^T x, and the residual b - A x.

    **Arguments:**

    - `product`, `scaled`: the products with the positive definite A, and with an approximation of its inverse.
    - `b`: the right side, (p,).
    - `whole`: the number from which b^T x is subtracted, if their difference is wanted; default 0, for b^T x itself.
    """
    x, r, gains = jnp.zeros_like(b), b, []
    v = z = scaled(r)
    inner = begin = float(jnp.vdot(r, z))
    for _ in range(_MOST_PRODUCTS):
        step = product(v)
        length = inner / float(jnp.vdot(v, step))
        x, r = x + length * v, r - length * step
        # the gain of b^T x, which is the fall of the squared error in the norm of A (Hestenes, Stiefel 1952,
        # doi:10.6028/jres.049.044)
        gains.append(length * inner)
        z = scaled(r)
        before, inner = inner, float(jnp.vdot(r, z))
        settled = len(gains) > _PRODUCTS and sum(gains[-_PRODUCTS:]) <= _FRACTION * abs(whole - sum(gains))
        if settled or not inner > _ROUND_OFF * begin:
            break
        v = z + inner / before * v
    return np.array(x), np.asarray(r)
