"""Steps of explicit Runge-Kutta tableaus.

The loop over stages is our own and not diffrax's (0.7.2). The latter is differentiable forward and in reverse only with
`scan_kind="bounded"`, and slower. A gradient of 50 steps of a reaction-diffusion field of 128 x 128 cells takes 1.8
(RK4) and 1.7 times (Heun) as long in float64, 2.1 and 1.9 times in float32 (two CPU cores). Two tangents take 1.3 to
2.6 times as long. Unrolled stages are no remedy: XLA recomputes one inside the next.
"""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit.integrate.solvers.method import AbstractEmbedded, AbstractMethod, AbstractOneStep, method_of

VectorField = Callable[[Array, PyTree, PyTree], PyTree]
# from what belongs to a stage, and its state, to its slope and what else is kept
Slope = Callable[[PyTree, PyTree], tuple[PyTree, PyTree]]

# diffrax has none for Euler, and demands two stages, of which the second has no weight here
_EULER = diffrax.ButcherTableau(a_lower=(np.ones(1),), b_sol=np.array([1.0, 0.0]), b_error=np.zeros(2), c=np.ones(1))


class AbstractExplicit(AbstractOneStep):
    """A solver given by an explicit tableau.

    Each stage is checkpointed. Storing the intermediate values of all stages of a field costs more than a second
    evaluation.
    """

    solver: diffrax.AbstractERK | diffrax.Euler

    @property
    def real_stability(self):
        x = np.arange(0.01, 20.0, 0.005)
        unstable = np.flatnonzero(self.growth(-x) > 1 + 1e-9)
        return float(x[unstable[0]]) if unstable.size else 20.0

    def growth(self, z: np.ndarray) -> np.ndarray:
        """Amplification factors |y_1 / y_0| of a step of size 1 for y' = z y, with complex numbers z, (k,)."""
        tableau = tableau_of(self.solver)
        a, stages = stage_matrix(tableau), tableau.num_stages
        slopes = np.linalg.solve(np.eye(stages) - z[:, None, None] * a, np.ones((z.size, stages, 1)))[..., 0]
        return np.abs(1 + z * (slopes @ np.asarray(tableau.b_sol)))

    def one_step(self, system, t, h, y, args):
        return tableau_step(system.vector_field, tableau_of(self.solver), t, h, y, args)


class ExplicitTableau(AbstractExplicit):
    """An explicit tableau without an error estimate."""


class EmbeddedTableau(AbstractExplicit, AbstractEmbedded):
    """An explicit pair of orders p and p - 1, whose difference estimates the error."""

    @property
    def estimate_order(self):
        terms: PyTree = None
        return int(self.solver.order(terms) or 0)

    def step_with_error(self, system, t, h, y, args):
        tableau = tableau_of(self.solver)
        times = t + np.concatenate([[0.0], tableau.c]) * h
        field = system.vector_field
        slopes, _ = _slopes(lambda t, y: (field(t, y, args), None), stage_matrix(tableau), h, y, times)
        zeros = jax.tree.map(jnp.zeros_like, y)
        return _combine(y, slopes, h, tableau.b_sol), _combine(zeros, slopes, h, tableau.b_error)


@method_of.register
def _(solver: diffrax.Euler) -> AbstractMethod:
    return ExplicitTableau(solver)


@method_of.register
def _(solver: diffrax.AbstractERK) -> AbstractMethod:
    # diffrax demands an error estimate of every tableau, so zeros stand for none
    return EmbeddedTableau(solver) if np.any(tableau_of(solver).b_error) else ExplicitTableau(solver)


def tableau_of(solver: diffrax.AbstractRungeKutta | diffrax.Euler) -> diffrax.ButcherTableau:
    """The tableau of a solver, which must not be a pair of an explicit and an implicit one."""
    if isinstance(solver, diffrax.Euler):
        return _EULER
    assert isinstance(solver.tableau, diffrax.ButcherTableau)
    return solver.tableau


def stage_matrix(tableau: diffrax.ButcherTableau) -> Float[np.ndarray, "s s"]:
    """Strictly lower triangular matrix a_ij of an explicit tableau, or that part of an implicit one."""
    a = np.zeros((tableau.num_stages,) * 2)
    for i, row in enumerate(tableau.a_lower):
        a[i + 1, : i + 1] = row
    return a


def tableau_step(
    field: VectorField, tableau: diffrax.ButcherTableau, t: Array, h: Array, y: PyTree, args: PyTree
) -> PyTree:
    """A step y + h sum_i b_i k_i of an explicit Runge-Kutta method for y' = field(t, y, args).

    **Arguments:**

    - `field`: the right-hand side.
    - `tableau`: the coefficients of the method.
    - `t`, `h`: start and size of the step.
    - `y`: the state at t.
    - `args`: passed to the field.
    """
    return step_by_stages(lambda t, y: (field(t, y, args), None), tableau, h, y, stage_times(tableau, t, h))[0]


def stage_times(tableau: diffrax.ButcherTableau, t: Array, h: Array) -> Float[Array, " s"]:
    """Times t + c_i h of every stage that a step needs."""
    # a tableau leaves out the first c_i
    return t + np.concatenate([[0.0], tableau.c])[: _stages(tableau)].astype(h.dtype) * h


def _stages(tableau: diffrax.ButcherTableau) -> int:
    # those after the last nonzero weight serve error estimates only
    return int(np.flatnonzero(tableau.b_sol)[-1]) + 1


def step_by_stages(
    slope: Slope, tableau: diffrax.ButcherTableau, h: Array, y: PyTree, inputs: PyTree
) -> tuple[PyTree, PyTree]:
    """A step y + h sum_i b_i k_i with a slope for every stage, and the slopes' auxiliary outputs, stacked.

    **Arguments:**

    - `slope`: from `inputs[i]` and the state of stage i to k_i and an auxiliary output.
    - `tableau`: the coefficients of the method.
    - `h`: the size of the step.
    - `y`: the state before it.
    - `inputs`: the inputs of each stage, on a leading axis, as long as `stage_times`.
    """
    stages = _stages(tableau)
    weights, a = np.asarray(tableau.b_sol)[:stages], stage_matrix(tableau)[:stages, :stages]
    if stages == 1:
        k, outputs = slope(jax.tree.map(lambda x: x[0], inputs), y)
        stepped = jax.tree.map(lambda u, k: u + (h * weights[0]).astype(u.dtype) * k, y, k)
        return stepped, jax.tree.map(lambda x: x[None], outputs)
    if not np.any(np.tril(a, -2)):
        return _chained_step(slope, np.append(np.diag(a, -1), 0.0), weights, h, y, inputs)
    slopes, outputs = _slopes(slope, a, h, y, inputs)
    return _combine(y, slopes, h, weights), outputs


def _slopes(slope: Slope, a: np.ndarray, h: Array, y: PyTree, inputs: PyTree) -> tuple[PyTree, PyTree]:
    """Slopes k_i = f(y + h sum_j a_ij k_j) on a leading axis, and their auxiliary outputs."""

    def stage(slopes: PyTree, inputs: tuple[Array, Array, PyTree]) -> tuple[PyTree, PyTree]:
        i, row, x = inputs
        k, outputs = slope(x, _combine(y, slopes, h, row))
        return jax.tree.map(lambda s, k_i: lax.dynamic_update_index_in_dim(s, k_i, i, 0), slopes, k), outputs

    zeros = jax.tree.map(lambda u: jnp.zeros((len(a), *u.shape), u.dtype), y)
    each = (jnp.arange(len(a)), jnp.asarray(a), inputs)
    return lax.scan(jax.checkpoint(stage, prevent_cse=False), zeros, each)


def _combine(y: PyTree, slopes: PyTree, h: Array, weights: Array | np.ndarray) -> PyTree:
    """y + h sum_i w_i k_i, with the slopes k_i on a leading axis."""

    def combined(u: Array, k: Array) -> Array:
        # a sum of products, not a matrix product: twice as fast under vmapped tangents
        weight = (h * jnp.asarray(weights)).astype(u.dtype).reshape(-1, *(1,) * u.ndim)
        return u + jnp.sum(weight * k, axis=0)

    return jax.tree.map(combined, y, slopes)


def _chained_step(
    slope: Slope, a: np.ndarray, b: np.ndarray, h: Array, y: PyTree, inputs: PyTree
) -> tuple[PyTree, PyTree]:
    """A step of a tableau in which each stage needs only the previous slope (RK4, Heun, Bosh3).

    With k_(i+1) = f(y + h a_i k_i) two states are carried instead of a slope for every stage: the state of the next
    stage, and the accumulated sum of slopes.
    """

    def stage(carry: tuple[PyTree, PyTree], inputs: tuple[Array, Array, PyTree]) -> tuple[tuple[PyTree, PyTree], Any]:
        y_i, total = carry
        ahead, weight, x = inputs
        k, outputs = slope(x, y_i)
        y_i = jax.tree.map(lambda u, s: u + (h * ahead).astype(u.dtype) * s, y, k)
        return (y_i, jax.tree.map(lambda u, s: u + (h * weight).astype(u.dtype) * s, total, k)), outputs

    each = (jnp.asarray(a), jnp.asarray(b), inputs)
    (_, total), outputs = lax.scan(jax.checkpoint(stage, prevent_cse=False), (y, y), each)
    return total, outputs
