"""Preconditioners. For scalars and an initial state: an exact matrix of the scalars, and a scale for each element.

    M^-1 = Z (Z^T A Z)^-1 Z^T  +  | 0                    |
                                  |    L^-T E^-1 L^-1    |

Both parts use the sum over all observations of (dp, df)^T (dp, df) at every point. dp is the derivative of the
residuals there in the scalars, and df the derivative in a uniform change of a field of the initial state:

    | C    B_1^T  B_2^T  ... |      C (k, k) of the k scalars
    | B_1  F_1               |      F_x (f, f) of the f fields at point x, L_x L_x^T
    | B_2         F_2        |      B_x (f, k) between them

If points do not interact, this block-arrow matrix is A. If they do, it is a poor approximation: an element that changes
alone may change the data a thousand times less than one that changes with its neighbours, or a hundred times more at a
front. So E scales every element by the norm of its row of L^-1 A L^-T, measured by products with random signs. Columns
of Z are scalars together with the response of the fields to them, -F^-1 B, and their matrix is the projection of A
itself.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from pdefit.adjoints.tangent.tangents_together import jvp_many
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.abstract import AbstractEvaluated
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.normal_equations import NormalEquations, Tangents
from pdefit.inverse.optimizers.cell_equations import cell_equations, has_points, restraint

# the part of the diagonal that is added to it
_LEAST = 1e-9
# vectors of random signs of one sweep over all rows, and how far from the identity a matrix needs no scale
_SIGNS, _SCALED = 6, 0.1
# sweeps that find the norms of rows from nothing
SWEEPS = 2


class TwoLevel(NamedTuple):
    """The two-level preconditioner in parts.

    **Arguments:**

    - `root`, `inverse_root`: L of every point, (n, f, f), and its inverse.
    - `scale`: the diagonal of E, (n, f).
    - `following`: the response of the fields to a change of a scalar, -F^-1 B, (n, f, k).
    - `numbers`: the inverse of Z^T A Z, damping included, (k, k).
    - `damping`: the multiple of L E L^T + R that is added to A.
    - `restraint`: the diagonal R of elements that the data do not determine, (n, f).
    """

    root: Float[Array, "n f f"]
    inverse_root: Float[Array, "n f f"]
    scale: Float[Array, "n f"]
    following: Float[Array, "n f k"]
    numbers: Float[Array, "k k"]
    damping: Float[Array, ""]
    restraint: Float[Array, "n f"]

    def damping_product(self, v: Float[Array, " p"]) -> Float[Array, " p"]:
        """Product of the damping matrix of the fields with v."""
        fields = self.fields(v)
        turned = self.scale * jnp.einsum("xji,xj->xi", self.root, fields)
        return self.elements(self.damping * (jnp.einsum("xij,xj->xi", self.root, turned) + self.restraint * fields))

    def solve(self, r: Float[Array, " p"]) -> Float[Array, " p"]:
        """Product M^-1 r."""
        k, fields = self.numbers.shape[0], self.fields(r)
        scale = (1 + self.damping) * self.scale + self.damping * self.restraint / jnp.sum(self.root**2, axis=-1)
        turned = jnp.einsum("xij,xj->xi", self.inverse_root, fields) / scale
        moved = self.numbers @ (r[:k] + jnp.einsum("xik,xi->k", self.following, fields))
        alone = jnp.einsum("xji,xj->xi", self.inverse_root, turned)
        return self.elements(alone + jnp.einsum("xik,k->xi", self.following, moved)).at[:k].set(moved)

    def little(
        self, direction: Float[Array, " p"], decrement: Float[Array, ""], variance: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Negligible Newton decrement: `decrement` for each value of a state, if scalars hardly move.

        **Arguments:**

        - `direction`: the step, (p,).
        - `decrement`, `variance`: the negligible decrement of scalars in units of the variance of residuals, and that
          variance.
        """
        k, size = self.numbers.shape[0], self.scale.size
        if k == 0:
            return decrement
        moved = jnp.vdot(direction[:k], jnp.linalg.solve(self.numbers, direction[:k]))
        return decrement * jnp.where(moved <= decrement * variance, float(size), 1.0)

    @property
    def measured(self) -> Float[Array, " p"]:
        """E as elements of theta, to start from at the next point."""
        return self.elements(self.scale)

    def fields(self, v: Float[Array, " p"]) -> Float[Array, "n f"]:
        """The fields in a vector of elements of theta, point by point."""
        n, f = self.scale.shape
        return v[v.size - n * f :].reshape(f, n).T

    def elements(self, fields: Float[Array, "n f"]) -> Float[Array, " p"]:
        """Fields as elements of theta, with zeros for the scalars."""
        return jnp.concatenate([jnp.zeros(self.numbers.shape[0]), jnp.ravel(fields.T)])


class MeanCurvature(NamedTuple):
    """The preconditioner for other unknowns: the mean curvature of each control, or of each group within a field.

    **Arguments:**

    - `measured`: the curvature of every element, (p,).
    - `damping`: the fraction of it that is added to A.
    """

    measured: Float[Array, " p"]
    damping: Float[Array, ""]

    def damping_product(self, v: Float[Array, " p"]) -> Float[Array, " p"]:
        return self.damping * self.measured * v

    def solve(self, r: Float[Array, " p"]) -> Float[Array, " p"]:
        return r / ((1 + self.damping) * self.measured)

    def little(
        self, direction: Float[Array, " p"], decrement: Float[Array, ""], variance: Float[Array, ""]
    ) -> Float[Array, ""]:
        return decrement


def preconditioner(
    functional: AbstractEvaluated,
    theta: Float[Array, " p"],
    damping: Float[Array, ""],
    measured: Float[Array, " p"],
    started: Bool[Array, ""],
    wanted: Bool[Array, ""],
) -> TwoLevel | MeanCurvature:
    """Choice of the preconditioner for the unknowns.

    **Arguments:**

    - `functional`, `theta`, `damping`: the objective, the point, and the fraction of its matrix that is added to the
      matrix.
    - `measured`, `started`: the measurements at an earlier point, and whether there are any.
    - `wanted`: whether the result is used; otherwise no product is computed.
    """
    if not has_points(functional):
        return MeanCurvature(_mean_curvatures(functional, theta, measured, ~started & wanted), damping)
    fields = functional.controls.states
    scale = jnp.where(started, measured[-fields.size :].reshape(len(fields.items), -1).T, 1.0)
    sweeps = jnp.where(started, 1, SWEEPS)
    shapes = eqx.filter_eval_shape(two_level, functional, theta, damping, scale, sweeps)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return lax.cond(wanted, lambda: two_level(functional, theta, damping, scale, sweeps), lambda: nothing)


def _mean_curvatures(
    functional: AbstractEvaluated, theta: Float[Array, " p"], before: Float[Array, " p"], wanted: Bool[Array, ""]
) -> Float[Array, " p"]:
    """Mean curvature of every control, or group within a field: the previous one or, if wanted, from one product for each."""
    controls = functional.controls
    groups = np.concatenate([c.parametrization.groups for c in controls.items])
    alike = [mask & (groups == g) for mask in controls.elements.values() for g in np.unique(groups[mask])]
    masks = jnp.asarray(np.stack(alike), theta.dtype)
    signs = jax.random.rademacher(jax.random.key(0), theta.shape, theta.dtype)

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        i, curvature = carry
        v = masks[i] * signs
        mean = jnp.vdot(v, functional.gauss_newton_product(theta, v)) / jnp.sum(masks[i])
        return i + 1, jnp.where(masks[i] > 0, mean, curvature)

    def more(carry: tuple[Array, Array]) -> Array:
        return (carry[0] < len(masks)) & wanted

    found = functional.repeat(more, body, (jnp.zeros((), int), before))[1]
    # a control without any curvature keeps its place in the scale of the others
    most = jnp.max(found, initial=0.0)
    return jnp.where(found > 0, found, most + (most <= 0))


def two_level(
    functional: Functional,
    theta: Float[Array, " p"],
    damping: Float[Array, ""],
    scale: Float[Array, "n f"],
    sweeps: Int[Array, ""],
) -> TwoLevel:
    """Preconditioner at theta, by two tangents for each scalar, one for each field, and a few products.

    **Arguments:**

    - `functional`: a functional for which `has_points` is true.
    - `theta`: the point, (p,).
    - `damping`: the fraction of the matrix of the fields that is added to it.
    - `scale`: the diagonal of E at a previous point, (n, f), or ones.
    - `sweeps`: the number of new measurements.
    """
    k = functional.controls.without_states.size
    gram, _ = cell_equations(functional, theta)
    root = jnp.linalg.cholesky(_lifted(jnp.moveaxis(gram[k:-1, k:-1], -1, 0)))
    borders = jnp.moveaxis(gram[k:-1, :k], -1, 0)
    inverse = solve_triangular(root, jnp.broadcast_to(jnp.eye(root.shape[-1]), root.shape), lower=True)
    following = -jnp.einsum("xji,xjl,xlk->xik", inverse, inverse, borders)
    parts = TwoLevel(root, inverse, scale, following, jnp.zeros((k, k)), damping, restraint(functional, theta))
    parts = parts._replace(scale=_row_norms(functional, theta, parts, sweeps))
    if k == 0:
        return parts
    columns = jax.vmap(parts.elements, in_axes=-1)(following).at[:, :k].set(jnp.eye(k))
    matrix = _matrix_along(functional, theta, columns) + columns @ jax.vmap(parts.damping_product)(columns).T
    return parts._replace(numbers=jnp.linalg.inv(_lifted(matrix)))


def _row_norms(
    functional: Functional, theta: Float[Array, " p"], parts: TwoLevel, sweeps: Int[Array, ""]
) -> Float[Array, "n f"]:
    """Diagonal of E: each sweep multiplies it by the norms of the rows of E^-1/2 L^-1 A L^-T E^-1/2.

    Source: P. A. Knight, D. Ruiz, B. Ucar, SIAM J. Matrix Anal. Appl. 35:931 (2014), doi:10.1137/110825753 (the iteration);
    A. M. Bradley, W. Murray (2012), arXiv:1110.2805 (norms by products).
    """
    n, f = parts.scale.shape

    def body(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        i, scale, total, _ = carry
        signs = jax.random.rademacher(jax.random.fold_in(jax.random.key(0), i), (n, f), scale.dtype)
        turned = jnp.einsum("xji,xj->xi", parts.inverse_root, signs / jnp.sqrt(scale))
        product = parts.fields(functional.gauss_newton_product(theta, parts.elements(turned)))
        row = jnp.einsum("xij,xj->xi", parts.inverse_root, product) / jnp.sqrt(scale)
        total, last = total + row**2 / _SIGNS, (i + 1) % _SIGNS == 0
        scale = jnp.where(last, jnp.maximum(scale * jnp.sqrt(total), _LEAST), scale)
        # the identity needs no scale
        known = (i == 0) & jnp.all(jnp.abs(row - signs) < _SCALED)
        return i + 1, scale, jnp.where(last, 0.0, total), known

    def more(carry: tuple[Array, ...]) -> Array:
        return (carry[0] < _SIGNS * sweeps) & ~carry[-1]

    begin = jnp.zeros((), int), parts.scale, jnp.zeros((n, f)), jnp.zeros((), bool)
    return functional.repeat(more, body, begin)[1]


def _matrix_along(
    functional: Functional, theta: Float[Array, " p"], directions: Float[Array, "k p"]
) -> Float[Array, "k k"]:
    """J_r^T J_r along directions, each of which changes one scalar and the initial state."""
    numbers, k = functional.controls.without_states, len(directions)
    owners = tuple(Controls((c,)) for c in numbers.items for _ in range(c.size))
    tangents = Tangents(functional, theta, directions, owners)
    none = NormalEquations(jnp.zeros(1), jnp.zeros((1, k)), jnp.zeros((1, k, k)))
    total = tangents.advance(tangents.start(none), functional.schedule).total
    return (
        jax.tree.map(lambda x: x[0], total).plus(*jvp_many(functional.extra_residuals, (theta,), (directions,))).matrix
    )


def _lifted(matrix: Float[Array, "... m m"]) -> Float[Array, "... m m"]:
    """The matrix with a slightly larger diagonal, also at zeros, so that it can be inverted."""
    size = jnp.diagonal(matrix, axis1=-2, axis2=-1)
    # the matrix of no numbers has no diagonal
    least = jnp.maximum(size, _LEAST * jnp.max(size, axis=-1, keepdims=True, initial=0.0))
    least = jnp.where(least > 0, least, 1.0)
    return matrix + _LEAST * jnp.einsum("...i,ij->...ij", least, jnp.eye(matrix.shape[-1]))
