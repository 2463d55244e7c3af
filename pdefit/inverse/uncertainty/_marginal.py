"""The marginal covariance of few numbers beside fields: their part of the inverse of the normal matrix."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.optimizers.preconditioner import block_arrow, has_points

# a diagonal element is known when this many products together raised it by no more than a fraction of itself
_PRODUCTS, _FRACTION = 3, 5e-3
# the part of the first squared residual below which only round-off is left
_ROUND_OFF = 1e-18
_MOST_PRODUCTS = 300

_PRODUCT: Callable = eqx.filter_jit(lambda functional, theta, v: functional.gauss_newton_product(theta, v))
_ARROW: Callable = eqx.filter_jit(block_arrow)
_SOLVE: Callable = eqx.filter_jit(lambda block_arrow, r: block_arrow.solve(r))


def marginal_inverse(functional: AbstractObjective, theta: Float[Array, " p"]) -> Float[np.ndarray, "k p"]:
    """The rows of (J_r^T J_r)^-1 that belong to numbers, where the other unknowns are fields.

    The k numbers are the first elements of theta. J_r^T J_r is never formed: each number costs a linear system, which
    conjugate gradients with products solve, preconditioned as in `GaussNewtonCG`. The diagonal element rises with every
    product, and the solution ends where it stands still to half a percent of itself.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: its minimum, (p,).
    """
    functional = with_tangents(functional)
    scaled = _preconditioner(functional, theta)
    k = functional.controls.tabulated.size
    units = [jnp.zeros(theta.size).at[j].set(1.0) for j in range(k)]
    return np.stack([_solved(lambda v: _PRODUCT(functional, theta, v), scaled, b) for b in units])


def _preconditioner(functional: AbstractObjective, theta: Float[Array, " p"]) -> Callable[[Array], Array]:
    """An approximate (J_r^T J_r)^-1: block-arrow beside an initial state, else one curvature for each control."""
    if has_points(functional):
        found = _ARROW(functional, theta)
        return lambda r: _SOLVE(found, r)
    signs = jax.random.rademacher(jax.random.key(0), theta.shape, theta.dtype)
    curvature = jnp.ones(theta.size)
    for mask in functional.controls.elements.values():
        v = jnp.where(mask, signs, 0.0)
        bend = jnp.vdot(v, _PRODUCT(functional, theta, v)) / np.sum(mask)
        curvature = jnp.where(mask, jnp.maximum(bend, np.finfo(float).tiny), curvature)
    return lambda r: r / curvature


def _solved(product: Callable, scaled: Callable, b: Array) -> np.ndarray:
    """The solution x of A x = b by conjugate gradients, to a tolerance in b^T x."""
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
        settled = len(gains) > _PRODUCTS and sum(gains[-_PRODUCTS:]) <= _FRACTION * sum(gains)
        if settled or not inner > _ROUND_OFF * begin:
            break
        v = z + inner / before * v
    return np.asarray(x)
