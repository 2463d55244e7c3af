"""Covariance of scalars, marginalised over unknown fields, from matrix-vector products alone."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from pdefit.inverse.linear.conjugate_gradients import known_product
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import GRADIENT, PRODUCT
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.optimizers.preconditioner import preconditioner
from pdefit.inverse.uncertainty.covariance import Covariance

_PRECONDITIONER: Callable = eqx.filter_jit(preconditioner)
_SOLVE: Callable = eqx.filter_jit(lambda parts, r: parts.solve(r))


def marginal_inverse(
    functional: AbstractObjective, theta: Float[Array, " p"], free: Bool[np.ndarray, " p"]
) -> Float[np.ndarray, "k p"]:
    """Rows of (J_r^T J_r)^-1 for scalars, marginalised over unknown fields.

    The k scalars are the first elements of theta. J_r^T J_r is never formed: each scalar costs a linear system, solved
    by preconditioned conjugate gradients as in `GaussNewtonCG`. The diagonal element rises with every product, and the
    iteration ends when it changes by less than half a percent. Off-diagonal elements use the residuals of both
    solutions, and are equally accurate.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: its minimum, (p,).
    - `free`: mask of elements that are not held. The rows and columns of held elements are zero.
    """
    functional = with_tangents(functional)
    yes, no = jnp.ones((), bool), jnp.zeros((), bool)
    parts = _PRECONDITIONER(functional, theta, jnp.zeros(()), jnp.zeros(theta.size), no, yes)
    k = functional.controls.tabulated.size
    rows, left = np.zeros((2, k, theta.size))
    for j in np.flatnonzero(free[:k]):
        unit = jnp.zeros(theta.size).at[j].set(1.0)
        found = known_product(
            lambda v: jnp.where(free, PRODUCT(functional, theta, v), 0.0),
            lambda r: jnp.where(free, _SOLVE(parts, r), 0.0),
            unit,
        )
        rows[j], left[j] = found.solution, found.residual
    # x_i^T b_j + b_i^T x_j - x_i^T A x_j, whose error is of second order
    rows[:, :k] = rows[:, :k].T + rows @ left.T
    return rows


def marginal_covariance(functional: AbstractObjective, theta: Float[Array, " p"]) -> Covariance:
    """Covariance of scalars, marginalised over unknown fields.

    **Arguments:** `functional`, `theta`: the objective and its minimum, (p,).
    """
    free, k = functional.controls.bounds.free(theta), functional.controls.tabulated.size
    inverse = marginal_inverse(functional, theta, free)
    block = (inverse[:, :k] + inverse[:, :k].T) / 2
    degrees = max(functional.observed_values - int(np.count_nonzero(free)), 1)
    value, gradient, _ = GRADIENT(functional, theta)
    return Covariance(
        matrix=2 * float(value) / degrees * block,
        inverse=inverse,
        undetermined=~(np.diag(block) > 0),
        gradient=np.asarray(gradient),
        method="Gauss-Newton covariance times the residual variance, fields unknown too",
        degrees=degrees,
    )
