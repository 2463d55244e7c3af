"""Few unknowns beside fields that were estimated along with them: what is left of the normal equations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.sparse.linalg import LinearOperator, cg

from pdefit.inverse.objective import AbstractObjective
from pdefit.inverse.with_adjoint import with_tangents

# the error of what fields explain is the square of this
_TOLERANCE = 0.02
_MOST_PRODUCTS = 200


@eqx.filter_jit
def _product(functional: AbstractObjective, theta: Float[Array, " p"], v: Float[Array, " p"]) -> Float[Array, " p"]:
    return functional.gauss_newton_product(theta, v)


def marginal_matrix(functional: AbstractObjective, theta: Float[Array, " p"]) -> Float[np.ndarray, "k k"]:
    """The Schur complement A_ss - A_sf A_ff^-1 A_fs of A = J_r^T J_r for the k controls that are numbers, the first elements
    of theta; the others are fields f. Its inverse is the block of A^-1 that belongs to the numbers.

    A is never formed: each number costs a linear system, solved by conjugate gradients with products A v, scaled by the mean
    curvature of each field. The relative error of what fields explain is the square of the systems', 4e-4.
    """
    functional = with_tangents(functional)
    k, p = functional.controls.recorded.size, theta.size

    def product(v: np.ndarray) -> np.ndarray:
        return np.asarray(_product(functional, theta, jnp.asarray(v)))

    scale = np.ones(p - k)
    signs = np.asarray(jax.random.rademacher(jax.random.key(0), (p,), theta.dtype))
    for mask in functional.controls.elements.values():
        if np.any(mask[k:]):
            v = np.where(mask, signs, 0.0)
            scale[mask[k:]] = max(float(v @ product(v)) / float(np.sum(mask)), np.finfo(float).tiny)
    columns = np.stack([product(np.eye(1, p, j)[0]) for j in range(k)], axis=1)
    fields = LinearOperator((p - k, p - k), matvec=lambda x: product(np.concatenate([np.zeros(k), np.ravel(x)]))[k:])
    inverse = LinearOperator((p - k, p - k), matvec=lambda x: np.ravel(x) / scale)
    explained = np.stack(
        [cg(fields, columns[k:, j], rtol=_TOLERANCE, maxiter=_MOST_PRODUCTS, M=inverse)[0] for j in range(k)], axis=1
    )
    found = columns[:k] - columns[k:].T @ explained
    return (found + found.T) / 2
