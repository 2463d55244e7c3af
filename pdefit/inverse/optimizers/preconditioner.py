"""The block-arrow preconditioner: the Gauss-Newton matrix of numbers and an initial state, point by point.

    M = | C    B_1^T  B_2^T  ... |      C (k, k) of the k numbers
        | B_1  F_1               |      F_x (f, f) of the f fields at point x
        | B_2         F_2        |      B_x (f, k) between them

It is the sum over all observations of (dp, df)^T (dp, df) at every point. dp is the derivative of the residuals there
in the numbers, and df that in a field of the initial state which changes everywhere alike. Diffusion makes it wrong as
a matrix. As a preconditioner it has the influence of the numbers in full, and that of the initial state wherever it
stays local.
"""

from typing import NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit.adjoints.tangent.tangents_together import jvp_many
from pdefit.inverse.controls.vector import FEW, Controls
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.normal_equations import Tangents
from pdefit.systems.grid import AbstractGrid

# the part of the diagonal that is added to it
_LEAST = 1e-9


class BlockArrow(NamedTuple):
    """The inverse of a block-arrow matrix in parts.

    **Arguments:**

    - `points`: the inverse of the block of every point, (n, f, f).
    - `borders`: the blocks B_x between fields and numbers, (n, f, k).
    - `numbers`: the inverse of what is left of C when the points are eliminated, (k, k).
    - `curvature`: the diagonals of the blocks F_x, without damping, (n, f).
    """

    points: Float[Array, "n f f"]
    borders: Float[Array, "n f k"]
    numbers: Float[Array, "k k"]
    curvature: Float[Array, "n f"]

    def damping_product(self, v: Float[Array, " p"], damping: Float[Array, ""]) -> Float[Array, " p"]:
        """The product of the diagonal damping matrix of the fields with v."""
        k = self.numbers.shape[0]
        return jnp.zeros_like(v).at[k:].set(damping * jnp.ravel(self.curvature.T) * v[k:])

    def solve(self, r: Float[Array, " p"]) -> Float[Array, " p"]:
        """The solution M^-1 r."""
        k, (n, f) = self.numbers.shape[0], self.points.shape[:2]
        alone = jnp.einsum("xij,jx->xi", self.points, r[k:].reshape(f, n))
        moved = self.numbers @ (r[:k] - jnp.einsum("xik,xi->k", self.borders, alone))
        fields = alone - jnp.einsum("xij,xjk,k->xi", self.points, self.borders, moved)
        return jnp.concatenate([moved, jnp.ravel(fields.T)])

    def little(
        self, direction: Float[Array, " p"], decrement: Float[Array, ""], variance: Float[Array, ""]
    ) -> Float[Array, ""]:
        """The Newton decrement that does not matter: `decrement` for each value of a state where numbers hardly move.

        **Arguments:**

        - `direction`: the step, (p,).
        - `decrement`: that of numbers, in units of `variance`, the variance of residuals.
        """
        k, size = self.numbers.shape[0], self.curvature.size
        if k == 0:
            return decrement
        moved = jnp.vdot(direction[:k], jnp.linalg.solve(self.numbers, direction[:k]))
        return decrement * jnp.where(moved <= decrement * variance, float(size), 1.0)


class _PointTally(NamedTuple):
    """The sum over observations of products of what moves at each point: (s, K, K, n)."""

    gram: Float[Array, "... K K n"]

    def plus(self, r: PyTree, jac: PyTree) -> "_PointTally":
        gram = self.gram
        for residual, moved in zip(jax.tree.leaves(r), jax.tree.leaves(jac), strict=True):
            if residual.size == gram.shape[-1]:
                rows = jnp.concatenate([moved, residual[None]]).reshape(len(moved) + 1, -1).astype(jnp.float64)
                gram = gram + rows[:, None] * rows[None]
        return _PointTally(gram)


def has_points(functional: object) -> TypeGuard[Functional]:
    """Whether the preconditioner applies: to numbers and fields of one initial state, observed point by point."""
    if not isinstance(functional, Functional) or functional.groups != 1:
        return False
    numbers, fields = functional.controls.without_states, functional.controls.states.items
    gridded = isinstance(getattr(functional.problem.system, "grid", None), AbstractGrid)
    if numbers.size > FEW or not fields or not (gridded or all(c.is_field for c in fields)):
        return False
    if not all(c.kind == "initial" and c.smoothing is None and c.modes is None for c in fields):
        return False
    shapes = {c.shape for c in fields}
    return len(shapes) == 1 and shapes <= {x.shape for x in functional.observed.values()}


def cell_equations(
    functional: Functional, theta: Float[Array, " p"]
) -> tuple[Float[Array, "K K n"], Float[Array, "l l"]]:
    """Products of residuals and derivatives of every cell, and of the residuals of numbers alone.

    There is one tangent for each of k numbers and f fields, which change everywhere alike. Rows and columns are numbers,
    fields, and the residual itself. Priors of fields count with the cells.

    **Arguments:**

    - `functional`: one for which `has_points`.
    - `theta`: the point, (p,).
    """
    numbers, fields = functional.controls.without_states, functional.controls.states.items
    k, n = numbers.size, fields[0].size
    seeds = np.zeros((k + len(fields), theta.size))
    seeds[:k, :k] = np.eye(k)
    for i in range(len(fields)):
        seeds[k + i, k + i * n : k + (i + 1) * n] = 1
    owners = tuple(Controls((c,)) for c in numbers.items for _ in range(c.size))
    owners += tuple(Controls((c,)) for c in fields)
    size = len(seeds) + 1
    tangents = Tangents(functional, theta, jnp.asarray(seeds), owners)
    state = tangents.start(_PointTally(jnp.zeros((1, size, size, n))))
    gram = tangents.advance(state, functional.schedule).total.gram[0]
    extra, moved = jvp_many(functional.extra_residuals, (theta,), (jnp.asarray(seeds),))
    of_cells = [r.size == n for r in extra]
    points = [[x for x, here in zip(part, of_cells, strict=True) if here] for part in (extra, moved)]
    gram = _PointTally(gram).plus(*points).gram
    corner = jnp.zeros((k + 1, k + 1))
    for r, jac, here in zip(extra, moved, of_cells, strict=True):
        if not here:
            rows = jnp.concatenate([jac[:k], r[None]]).reshape(k + 1, -1)
            corner = corner + rows @ rows.T
    return gram, corner


def block_arrow(
    functional: Functional, theta: Float[Array, " p"], damping: Float[Array, ""] | None = None
) -> BlockArrow:
    """The block-arrow matrix at theta, by one tangent for each number and for each field.

    **Arguments:**

    - `functional`: one for which `has_points`.
    - `theta`: the point, (p,).
    - `damping`: the part of the diagonal of every F_x that is added to it; default none.
    """
    k = functional.controls.without_states.size
    gram, extra = cell_equations(functional, theta)
    blocks = jnp.moveaxis(gram[k:-1, k:-1], -1, 0)
    borders = jnp.moveaxis(gram[k:-1, :k], -1, 0)
    curvature = jnp.diagonal(blocks, axis1=-2, axis2=-1)
    if damping is not None:
        blocks = blocks + damping * jnp.einsum("xi,ij->xij", curvature, jnp.eye(curvature.shape[-1]))
    points = jnp.linalg.inv(_lifted(blocks))
    corner = jnp.sum(gram[:k, :k], axis=-1) + extra[:k, :k]
    left = corner - jnp.einsum("xik,xij,xjl->kl", borders, points, borders)
    numbers = jnp.linalg.inv(_lifted(left + _LEAST * jnp.diag(jnp.diag(corner))))
    return BlockArrow(points, borders, numbers, curvature)


def _lifted(matrix: Float[Array, "... m m"]) -> Float[Array, "... m m"]:
    """The matrix with a little more on its diagonal, also where that is zero, so that it can be inverted."""
    size = jnp.diagonal(matrix, axis1=-2, axis2=-1)
    # the matrix of no numbers has no diagonal
    least = jnp.maximum(size, _LEAST * jnp.max(size, axis=-1, keepdims=True, initial=0.0))
    least = jnp.where(least > 0, least, 1.0)
    return matrix + _LEAST * jnp.einsum("...i,ij->...ij", least, jnp.eye(matrix.shape[-1]))
