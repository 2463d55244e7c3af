"""Schur complements: linear systems whose many block unknowns are eliminated before the few shared ones.

    | C    B_1^T  B_2^T  ... | |x  |   |c  |      C (s, s) of the s shared unknowns x
    | B_1  K_1               | |y_1| = |b_1|      K_e (q, q) of the q unknowns y_e of block e
    | B_2         K_2        | |y_2|   |b_2|      B_e (q, s) between them

The matrix of x alone is the Schur complement S = C - sum_e B_e^T K_e^-1 B_e. Time and memory are linear in the number
of blocks, not cubic or quadratic. A block may also be coupled to the next one (`chained`).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int

from pdefit.inverse.linear.determined_inverse import determined_inverse

Columns = Float[Array, "E q m"]


class Root(NamedTuple):
    """Root L of a symmetric block matrix K = L L^T, by Cholesky factorisation: K^-1 would lose more to round-off.

    **Arguments:**

    - `inverse`, `transposed`: the products L^-1 v and L^-T v, with columns v of every block, (E, q, m).
    """

    inverse: Callable[[Columns], Columns]
    transposed: Callable[[Columns], Columns]


def separate(blocks: Float[Array, "E q q"]) -> Root:
    """Root of uncoupled positive definite blocks."""
    factor = jnp.linalg.cholesky(blocks)
    return Root(
        lambda v: solve_triangular(factor, v, lower=True), lambda v: solve_triangular(factor, v, lower=True, trans=1)
    )


def chained(blocks: Float[Array, "E q q"], below: Float[Array, "E-1 q q"]) -> Root:
    """Root of a positive definite block-tridiagonal matrix.

    **Arguments:**

    - `blocks`: the diagonal blocks.
    - `below`: the subdiagonal blocks, each coupling a block to the previous one.
    """

    def factorised(before: Array, row: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        coupling = solve_triangular(before, row[1].T, lower=True)
        factor = jnp.linalg.cholesky(row[0] - coupling.T @ coupling)
        return factor, (factor, coupling)

    def forward(before: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        factor, coupling, v = row
        found = solve_triangular(factor, v - coupling.T @ before, lower=True)
        return found, found

    def back(after: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        factor, coupling, v = row
        found = solve_triangular(factor, v - after, lower=True, trans=1)
        return coupling @ found, found

    rows = blocks, jnp.concatenate([jnp.zeros_like(blocks[:1]), below])
    factors = lax.scan(factorised, jnp.eye(blocks.shape[1]), rows)[1]
    return Root(
        lambda v: lax.scan(forward, jnp.zeros_like(v[0]), (*factors, v))[1],
        lambda v: lax.scan(back, jnp.zeros_like(v[0]), (*factors, v), reverse=True)[1],
    )


class Complement(NamedTuple):
    """Linear system S x = r of the shared unknowns, after elimination of all block unknowns.

    **Arguments:**

    - `matrix`: the Schur complement S, (s, s).
    - `right`: r = c - sum_e B_e^T K_e^-1 b_e, (s,).
    - `reduced`: the columns of L^-1 B and of L^-1 b, (E, q, s + 1).
    - `root`: L.
    """

    matrix: Float[Array, "s s"]
    right: Float[Array, " s"]
    reduced: Float[Array, "E q t"]
    root: Root

    def blocks(self, x: Float[Array, " s"]) -> Float[Array, "E q"]:
        """Block unknowns y_e = K_e^-1 (b_e - B_e x), by back substitution."""
        left = self.reduced[:, :, -1] - jnp.einsum("eqi,i->eq", self.reduced[:, :, :-1], x)
        return self.root.transposed(left[:, :, None])[:, :, 0]


def complement(
    root: Root,
    border: Float[Array, "E q s"],
    own: Float[Array, "E q"],
    corner: Float[Array, "s s"],
    right: Float[Array, " s"],
) -> Complement:
    """System of the shared unknowns.

    **Arguments:**

    - `root`: the root of K.
    - `border`, `own`: B and b.
    - `corner`, `right`: C and c.
    """
    reduced = root.inverse(jnp.concatenate([border, own[:, :, None]], axis=2))
    left = jnp.einsum("eqi,eqj->ij", reduced[:, :, :-1], reduced)
    return Complement(corner - left[:, :-1], right - left[:, -1], reduced, root)


def without(
    matrix: Float[np.ndarray, "p p"],
    right: Float[np.ndarray, " p"],
    gone: Int[np.ndarray, " q"],
    kept: Int[np.ndarray, " s"],
) -> Complement:
    """System of some unknowns of a dense one, after elimination of others as far as they are determined.

    **Arguments:**

    - `matrix`, `right`: a positive semidefinite matrix, and the right-hand side.
    - `gone`, `kept`: the eliminated unknowns, and the remaining ones. All others are held.
    """
    half = jnp.asarray(determined_inverse(matrix[np.ix_(gone, gone)]).root)
    root = Root(lambda v: half.T @ v, lambda v: half @ v)
    border, corner = matrix[np.ix_(gone, kept)][None], matrix[np.ix_(kept, kept)]
    return complement(root, *map(jnp.asarray, (border, right[gone][None], corner, right[kept])))
