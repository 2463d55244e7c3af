"""Conjugate gradients: linear systems with a matrix known only by its products."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

# the number b^T x is known when this many products together raised it by no more than a fraction of itself
_PRODUCTS, _FRACTION = 3, 5e-3
# the part of the first squared residual below which only round-off is left
_ROUND_OFF = 1e-18
_MOST_PRODUCTS = 300

Product = Callable[[Float[Array, " p"]], Float[Array, " p"]]
Carry = TypeVar("Carry")


class Iterate(NamedTuple):
    """Iterate of conjugate gradients for A x = b.

    **Arguments:**

    - `products`: the number of products with A.
    - `solution`, `residual`: x and b - A x, (p,).
    - `direction`: the next direction, (p,).
    - `squared`: the squared norm of the residual in the metric of the preconditioner.
    - `falls`: the decrease of x^T A x / 2 - b^T x at each product, (most + 1,).
    - `curved`: whether A has positive curvature along all directions so far.
    """

    products: Int[Array, ""]
    solution: Float[Array, " p"]
    residual: Float[Array, " p"]
    direction: Float[Array, " p"]
    squared: Float[Array, ""]
    falls: Float[Array, " m"]
    curved: Bool[Array, ""]


def in_turn(condition: Callable[[Carry], Array], body: Callable[[Carry], Carry], carry: Carry) -> Carry:
    """A loop as in `lax.while_loop`, outside compiled programs."""
    while bool(condition(carry)):
        carry = body(carry)
    return carry


def conjugate_gradients(
    product: Product,
    scaled: Product,
    b: Float[Array, " p"],
    enough: Callable[[Iterate], Bool[Array, ""]],
    most: int,
    repeat: Callable = in_turn,
) -> Iterate:
    """Solution of A x = b by preconditioned conjugate gradients, up to a stopping criterion.

    **Arguments:**

    - `product`, `scaled`: products with the positive semidefinite A, and with an approximate inverse (preconditioner).
    - `b`: the right-hand side, (p,).
    - `enough`: the stopping criterion.
    - `most`: the largest number of products.
    - `repeat`: the loop; by default a loop outside compiled programs.

    Source: M. R. Hestenes, E. Stiefel, J. Res. Natl. Bur. Stand. 49:409 (1952), doi:10.6028/jres.049.044.
    """

    def body(at: Iterate) -> Iterate:
        bent = product(at.direction)
        bend = jnp.vdot(at.direction, bent)
        # a direction without curvature is one that does not change the data
        curved = bend > 0
        length = jnp.where(curved, at.squared / jnp.where(curved, bend, 1.0), 0.0)
        residual = at.residual - length * bent
        z = scaled(residual)
        new = jnp.vdot(residual, z)
        return Iterate(
            products=at.products + 1,
            solution=at.solution + length * at.direction,
            residual=residual,
            direction=z + new / jnp.where(at.squared > 0, at.squared, 1.0) * at.direction,
            squared=new,
            falls=at.falls.at[at.products + 1].set(at.falls[at.products] + length * at.squared / 2),
            curved=curved,
        )

    z = scaled(b)
    begin = Iterate(
        jnp.zeros((), int), jnp.zeros_like(b), b, z, jnp.vdot(b, z), jnp.zeros(most + 1), jnp.ones((), bool)
    )
    return repeat(lambda at: at.curved & (at.products < most) & ~enough(at), body, begin)


def known_product(product: Product, scaled: Product, b: Float[Array, " p"], whole: float = 0.0) -> Iterate:
    """Solution x of A x = b, accurate enough for `whole` - b^T x to half a percent.

    **Arguments:** as in `conjugate_gradients`, and

    - `whole`: the number from which b^T x is subtracted, if their difference is needed; default 0, for b^T x itself.
    """
    begin = jnp.vdot(b, scaled(b))

    def enough(at: Iterate) -> Bool[Array, ""]:
        # twice the fall is b^T x
        last = 2 * (at.falls[at.products] - at.falls[at.products - _PRODUCTS])
        settled = (at.products > _PRODUCTS) & (last <= _FRACTION * jnp.abs(whole - 2 * at.falls[at.products]))
        return settled | ~(at.squared > _ROUND_OFF * begin)

    return conjugate_gradients(product, scaled, b, enough, _MOST_PRODUCTS)
