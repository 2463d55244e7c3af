"""Normal equations of many recordings: a block-arrow matrix of shared unknowns and each recording's own.

    A = | C    B_1^T  B_2^T  ... |      C (s, s) of the s shared unknowns
        | B_1  K_1               |      K_e (q, q) of the q own unknowns of recording e
        | B_2         K_2        |      B_e (q, s) between them

It is solved by elimination of the q (`pdefit.inverse.linear.schur`), so that time and memory are linear in the number
of recordings, not quadratic or cubic.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from pdefit._util.program import Program
from pdefit.inverse.linear.schur import complement, separate
from pdefit.inverse.objective.segment_jacobian import SegmentNormalEquations, added, added_matrices, dense


class ArrowEquations(eqx.Module):
    """Normal equations of E recordings, each in its c = s + q unknowns, the shared ones first.

    The matrix is their sum. The class supports the array operations that a Gauss-Newton matrix needs.

    **Arguments:**

    - `half_square`: J of each recording, (E,). The contribution of shared unknowns alone is divided among all.
    - `gradient`, `matrix`: its J_r^T r and J_r^T J_r, (E, c) and (E, c, c).
    - `shared`, `own`: the indices of these unknowns in theta, (s,) and (E, q). Indices beyond theta are held. `own` is
      None for one record, whose unknowns are the elements of theta in order.
    - `sums`: the Jacobian of linear residuals that couple recordings, (g, p).
    """

    half_square: Float[Array, " E"]
    gradient: Float[Array, "E c"]
    matrix: Float[Array, "E c c"]
    shared: Int[Array | np.ndarray, " s"]
    own: Int[Array | np.ndarray, "E q"] | None
    sums: Float[Array | np.ndarray, "g p"]

    @staticmethod
    def single(value: Float[Array, ""], gradient: Float[Array, " p"], matrix: Float[Array, "p p"]) -> "ArrowEquations":
        """Normal equations of one record."""
        each = jnp.reshape(value, 1), gradient[None], matrix[None]
        return ArrowEquations(*each, np.zeros(0, int), None, np.zeros((0, gradient.size)))

    @property
    def separate(self) -> bool:
        """True if recordings share nothing, so that each is an independent problem."""
        return not self.shared.size and not self.sums.shape[0]

    @property
    def finite(self) -> Bool[Array, " E"]:
        """Mask of recordings with finite normal equations."""
        parts = self.half_square, jnp.sum(self.gradient, axis=1), jnp.sum(self.matrix, axis=(1, 2))
        return jnp.all(jnp.isfinite(jnp.stack(parts)), axis=0)

    @property
    def columns(self) -> Int[Array, "E c"]:
        """Indices in theta of the unknowns of each recording."""
        if self.own is None:
            return jnp.arange(self.sums.shape[1])[None]
        return jnp.concatenate([jnp.tile(self.shared, (len(self.own), 1)), self.own], axis=1)

    @property
    def diagonals(self) -> Float[Array, "E c"]:
        """Diagonals of the matrices of all recordings."""
        return jnp.diagonal(self.matrix, axis1=1, axis2=2)

    def parts(self, v: Shaped[Array, " p"]) -> Shaped[Array, "E c"]:
        """The part of a vector for each recording, 0 for held elements."""
        v = jnp.asarray(v)
        return v[None] if self.own is None else v.at[self.columns].get(mode="fill", fill_value=0)

    def added(self, parts: Float[Array, "E c"]) -> Float[Array, " p"]:
        """Sum of one vector for each recording, at the positions of its elements in theta."""
        return parts[0] if self.own is None else added(parts, self.columns, self.sums.shape[1])

    def only(self, each: Bool[Array, " E"], others: "ArrowEquations") -> "ArrowEquations":
        """These equations for the recordings in the mask `each`, and `others` for the rest."""

        def one(new: Array, old: Array) -> Array:
            return jnp.where(each.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        parts = [(e.half_square, e.gradient, e.matrix) for e in (self, others)]
        return eqx.tree_at(lambda e: (e.half_square, e.gradient, e.matrix), self, tuple(map(one, *parts)))

    @Program
    def diagonal(self) -> Float[Array, " p"]:
        """Diagonal of the whole matrix."""
        return self.added(self.diagonals) + jnp.sum(self.sums**2, axis=0)

    @Program
    def __matmul__(self, v: Float[Array, " p"]) -> Float[Array, " p"]:
        return self.added(jnp.einsum("eij,ej->ei", self.matrix, self.parts(v))) + self.sums.T @ (self.sums @ v)

    @Program
    def dense(self) -> Float[Array, "p p"]:
        """The whole matrix."""
        return added_matrices(self.matrix, self.columns, self.sums.shape[1]) + self.sums.T @ self.sums

    def __array__(self, dtype: type | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.dense(), dtype)

    def scaled(self, scale: Float[Array, " p"]) -> "ArrowEquations":
        """The equations with the matrix scaled by a diagonal matrix from both sides."""
        each = self.parts(scale)
        matrix = each[:, :, None] * self.matrix * each[:, None, :]
        return eqx.tree_at(lambda e: (e.matrix, e.sums), self, (matrix, self.sums * scale[None]))

    def solve(
        self, right: Float[Array, " p"], shift: Float[Array, " p"], held: Bool[Array, " p"]
    ) -> Float[Array, " p"]:
        """Solution x of (A + diag shift) x = right in all elements that are not held; held ones are 0."""
        s, (g, p) = self.shared.size, self.sums.shape
        free = self.parts(~held)
        matrix = jnp.where(free[:, :, None] & free[:, None, :], self.matrix, 0.0)
        lift, right = jnp.where(held, 1.0, shift), jnp.where(held, 0.0, right)
        if self.own is None:
            root = separate(matrix + jnp.diag(lift)[None])
            return root.transposed(root.inverse(right[None, :, None]))[0, :, 0]
        sums = jnp.where(held[None], 0.0, self.sums)
        # what is beyond theta is held, too
        own = matrix[:, s:, s:] + jax.vmap(jnp.diag)(jnp.asarray(lift).at[self.own].get(mode="fill", fill_value=1.0))
        # the sums are unknowns, too: with y = sums x a row for each, and none of them couples recordings any more
        between = jnp.moveaxis(sums.at[:, self.own].get(mode="fill", fill_value=0.0), 0, 2)
        borders = jnp.concatenate([matrix[:, s:, :s], between], axis=2)
        inner = jnp.sum(matrix[:, :s, :s], axis=0) + jnp.diag(lift[self.shared])
        corner = jnp.block([[inner, sums[:, self.shared].T], [sums[:, self.shared], -jnp.eye(g)]])
        few = jnp.concatenate([right[self.shared], jnp.zeros(g)])
        left = complement(separate(own), borders, self.parts(right)[:, s:], corner, few)
        few = jnp.linalg.solve(left.matrix, left.right)
        return jnp.zeros(p).at[self.own].set(left.blocks(few)).at[self.shared].set(few[:s])


class RecordingEquations(NamedTuple):
    """Normal equations of every segment of E recordings.

    **Arguments:**

    - `each`: the normal equations of each recording in its own theta of c elements, stacked.
    - `columns`: the indices in theta of the c elements, (E, c).
    - `shared`, `own`: the positions among the c of shared unknowns, (s,), and of own unknowns, (q,).
    - `sums`, `sum_residuals`: the Jacobian of linear residuals that couple recordings, (g, p), and these residuals,
      (g,).
    """

    each: SegmentNormalEquations
    columns: Array | np.ndarray
    shared: Array | np.ndarray
    own: Array | np.ndarray
    sums: Array | np.ndarray
    sum_residuals: Float[Array, " g"]

    def total(self) -> tuple[Float[Array, ""], Float[Array, " p"], ArrowEquations]:
        """J, J_r^T r and J_r^T J_r of all recordings together, the last in blocks for each recording."""
        half_square, gradient, matrix = jax.vmap(SegmentNormalEquations.total)(self.each._replace(held=None))
        order = np.concatenate([self.shared, self.own])
        places = self.columns[0, self.shared], self.columns[:, self.own]
        arrow = ArrowEquations(
            half_square, gradient[:, order], matrix[:, order[:, None], order], *places, jnp.asarray(self.sums)
        )
        r = self.sum_residuals
        return jnp.sum(half_square) + r @ r / 2, arrow.added(arrow.gradient) + self.sums.T @ r, arrow

    @Program
    def joined(self) -> SegmentNormalEquations:
        """Blocks of all segments in the whole theta, with a dense Jacobian of regularizers and priors."""
        half_square, gradient, matrix, inside, r, jac, _ = self.each
        own = jax.vmap(lambda mine, inside: mine[inside])(jnp.asarray(self.columns), inside)
        return SegmentNormalEquations(
            *(jnp.concatenate(x) for x in (half_square, gradient, matrix, own)),
            extra=jnp.concatenate([jnp.ravel(r), self.sum_residuals]),
            extra_jac=jnp.concatenate([dense(jac, self.columns, self.sums.shape[1]), self.sums]),
        )
