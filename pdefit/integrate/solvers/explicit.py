"""Steps of explicit Runge-Kutta tableaus."""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from pdefit.integrate.solvers.method import AbstractMethod, AbstractOneStep, method_of

VectorField = Callable[[Array, PyTree, PyTree], PyTree]


class ExplicitTableau(AbstractOneStep):
    """A solver given by an explicit tableau.

    Evaluated here, by a scan over stages: diffrax's own stage loop is either forward-differentiable or
    reverse-differentiable, and unrolled stages let XLA recompute one inside the next. Each stage is checkpointed: keeping
    the intermediate values of all stages of a field costs more than a second evaluation.
    """

    solver: diffrax.AbstractERK

    @property
    def _tableau(self) -> Any:
        return self.solver.tableau

    @property
    def real_stability(self):
        tableau, a = self._tableau, stage_matrix(self._tableau)
        stages = len(a)
        x = np.arange(0.01, 20.0, 0.005)
        slopes = np.linalg.solve(np.eye(stages) + x[:, None, None] * a, np.ones((x.size, stages, 1)))[..., 0]
        growth = np.abs(1 - x * (slopes @ np.asarray(tableau.b_sol)))
        unstable = np.flatnonzero(growth > 1 + 1e-9)
        return float(x[unstable[0]]) if unstable.size else 20.0

    @property
    def estimate_order(self):
        # of a pair of orders p and p - 1
        terms: Any = None
        return int(self.solver.order(terms) or 0) if np.any(self._tableau.b_error) else None

    def one_step(self, system, t, h, y, args):
        return tableau_step(system.vector_field, self._tableau, t, h, y, args)

    def step_with_error(self, system, t, h, y, args):
        tableau = self._tableau
        slopes = _slopes(system.vector_field, tableau, len(tableau.b_sol), t, h, y, args)
        nothing = jax.tree.map(jnp.zeros_like, y)
        error = jax.tree.map(lambda u, s: combined(u, s, h, jnp.asarray(tableau.b_error)), nothing, slopes)
        return jax.tree.map(lambda u, s: combined(u, s, h, jnp.asarray(tableau.b_sol)), y, slopes), error


@method_of.register
def _(solver: diffrax.AbstractERK) -> AbstractMethod:
    return ExplicitTableau(solver)


def stage_matrix(tableau: Any) -> np.ndarray:
    """The strictly lower triangular matrix a_ij of an explicit tableau."""
    a = np.zeros((len(tableau.b_sol),) * 2)
    for i, row in enumerate(tableau.a_lower):
        a[i + 1, : i + 1] = row
    return a


def tableau_step(field: VectorField, tableau: Any, t: Array, h: Array, y: PyTree, args: PyTree) -> PyTree:
    """y + h sum_i b_i k_i: a step of an explicit Runge-Kutta method for y' = field(t, y, args)."""
    weights = np.asarray(tableau.b_sol)
    # stages after the last nonzero weight serve error estimates only
    stages = int(np.flatnonzero(weights)[-1]) + 1
    if stages == 1:
        return jax.tree.map(lambda u, k: u + (h * weights[0]).astype(u.dtype) * k, y, field(t, y, args))
    a = stage_matrix(tableau)[:stages, :stages]
    if not np.any(np.tril(a, -2)):
        c = np.concatenate([[0.0], tableau.c[: stages - 1]])
        return _chained_step(field, np.append(np.diag(a, -1), 0.0), weights[:stages], c, t, h, y, args)
    slopes = _slopes(field, tableau, stages, t, h, y, args)
    return jax.tree.map(lambda u, s: combined(u, s, h, jnp.asarray(weights[:stages])), y, slopes)


def _slopes(field: VectorField, tableau: Any, stages: int, t: Array, h: Array, y: PyTree, args: PyTree) -> PyTree:
    """k_i = f(t + c_i h, y + h sum_j a_ij k_j) on a leading axis."""
    a = stage_matrix(tableau)[:stages, :stages]
    c = np.concatenate([[0.0], tableau.c[: stages - 1]])

    def stage(slopes: PyTree, inputs: tuple[Array, Array, Array]) -> tuple[PyTree, None]:
        i, row, shift = inputs
        y_i = jax.tree.map(lambda u, s: combined(u, s, h, row), y, slopes)
        k = field(t + shift * h, y_i, args)
        return jax.tree.map(lambda s, k_i: lax.dynamic_update_index_in_dim(s, k_i, i, 0), slopes, k), None

    zeros = jax.tree.map(lambda u: jnp.zeros((stages, *u.shape), u.dtype), y)
    body = jax.checkpoint(stage, prevent_cse=False)
    return lax.scan(body, zeros, (jnp.arange(stages), jnp.asarray(a), jnp.asarray(c)))[0]


def combined(u: Array, slopes: Array, h: Array, weights: Array) -> Array:
    """u + h sum_i w_i k_i."""
    # a sum of products, not a matrix product: twice as fast under vmapped tangents
    weight = (h * weights).astype(u.dtype).reshape(-1, *(1,) * u.ndim)
    return u + jnp.sum(weight * slopes, axis=0)


def _chained_step(
    field: VectorField, a: np.ndarray, b: np.ndarray, c: np.ndarray, t: Array, h: Array, y: PyTree, args: PyTree
) -> PyTree:
    """The same where each stage needs only the slope before it (RK4, Heun, Bosh3): k_(i+1) = f(t + c h, y + h a_i k_i).

    Two states are carried instead of a slope for every stage: the state of the next stage, and the sum of slopes so far.
    """

    def stage(carry: tuple[PyTree, PyTree], inputs: tuple[Array, Array, Array]) -> tuple[tuple[PyTree, PyTree], None]:
        y_i, total = carry
        ahead, weight, shift = inputs
        k = field(t + shift * h, y_i, args)
        y_i = jax.tree.map(lambda u, s: u + (h * ahead).astype(u.dtype) * s, y, k)
        return (y_i, jax.tree.map(lambda u, s: u + (h * weight).astype(u.dtype) * s, total, k)), None

    weights = (jnp.asarray(a), jnp.asarray(b), jnp.asarray(c))
    (_, total), _ = lax.scan(jax.checkpoint(stage, prevent_cse=False), (y, y), weights)
    return total
