"""One time step of a system with a solver: the only place that calls a solver."""

import abc
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from pdefit.integrate.mechanical import AbstractSymplectic, MechanicalTerm
from pdefit.systems.system import AbstractSystem

VectorField = Callable[[Array, PyTree, PyTree], PyTree]


class AbstractStepper(eqx.Module):
    """Advances a carry, whose first part is the state, by a step of size h from time t."""

    @abc.abstractmethod
    def init(self, t: Array, y: PyTree) -> tuple[PyTree, Any]:
        """The carry of the time loop at time t: the state and what the solver remembers between steps."""

    @abc.abstractmethod
    def __call__(self, t: Array, h: Array, carry: tuple[PyTree, Any]) -> tuple[PyTree, Any]:
        """The carry at t + h."""


class Stepper(AbstractStepper):
    """A step of a system with a solver.

    Explicit Runge-Kutta tableaus are evaluated here, by a scan over stages: diffrax's own stage loop is either
    forward-differentiable or reverse-differentiable, and unrolled stages let XLA recompute one inside the next. Each
    stage is checkpointed: keeping the intermediate values of all stages of a field costs more than a second evaluation.
    Every other solver steps itself.
    """

    system: AbstractSystem
    solver: diffrax.AbstractSolver
    args: PyTree = None

    def init(self, t, y):
        if isinstance(self.solver, diffrax.AbstractERK | AbstractSymplectic):
            return y, None
        return y, self.solver.init(self._term(), t, t, y, self.args)

    def __call__(self, t, h, carry):
        y, state = carry
        if isinstance(self.solver, diffrax.AbstractERK):
            return tableau_step(self.system.vector_field, self.solver.tableau, t, h, y, self.args), None
        if isinstance(self.solver, AbstractSymplectic):
            # in local time 0..h, so that h keeps its precision however large t is
            term = MechanicalTerm(self.system, t)
            y, *_ = self.solver.step(term, jnp.zeros_like(h), h, y, self.args, state, made_jump=False)
            return y, state
        stepped, _, _, remembered, _ = self.solver.step(self._term(), t, t + h, y, self.args, state, made_jump=False)
        # what a solver remembers between steps must not see the steps of zero length that pad a plan
        return jax.tree.map(lambda new, old: jnp.where(h != 0, new, old), (stepped, remembered), carry)

    def _term(self) -> diffrax.AbstractTerm:
        vector_field: Any = self.system.vector_field
        return diffrax.ODETerm(vector_field)


def stage_matrix(tableau: Any) -> np.ndarray:
    """The strictly lower triangular matrix a_ij of an explicit tableau."""
    a = np.zeros((len(tableau.b_sol),) * 2)
    for i, row in enumerate(tableau.a_lower):
        a[i + 1, : i + 1] = row
    return a


def step_with_error(
    system: AbstractSystem, tableau: Any, t: Array, h: Array, y: PyTree, args: PyTree = None
) -> tuple[PyTree, PyTree]:
    """y after a step, and the error that the embedded method finds in it: h sum_i e_i k_i."""
    slopes = _slopes(system.vector_field, tableau, len(tableau.b_sol), t, h, y, args)
    nothing = jax.tree.map(jnp.zeros_like, y)
    error = jax.tree.map(lambda u, s: _combined(u, s, h, jnp.asarray(tableau.b_error)), nothing, slopes)
    return jax.tree.map(lambda u, s: _combined(u, s, h, jnp.asarray(tableau.b_sol)), y, slopes), error


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
    return jax.tree.map(lambda u, s: _combined(u, s, h, jnp.asarray(weights[:stages])), y, slopes)


def _slopes(field: VectorField, tableau: Any, stages: int, t: Array, h: Array, y: PyTree, args: PyTree) -> PyTree:
    """k_i = f(t + c_i h, y + h sum_j a_ij k_j) on a leading axis."""
    a = stage_matrix(tableau)[:stages, :stages]
    c = np.concatenate([[0.0], tableau.c[: stages - 1]])

    def stage(slopes: PyTree, inputs: tuple[Array, Array, Array]) -> tuple[PyTree, None]:
        i, row, shift = inputs
        y_i = jax.tree.map(lambda u, s: _combined(u, s, h, row), y, slopes)
        k = field(t + shift * h, y_i, args)
        return jax.tree.map(lambda s, k_i: lax.dynamic_update_index_in_dim(s, k_i, i, 0), slopes, k), None

    zeros = jax.tree.map(lambda u: jnp.zeros((stages, *u.shape), u.dtype), y)
    body = jax.checkpoint(stage, prevent_cse=False)
    return lax.scan(body, zeros, (jnp.arange(stages), jnp.asarray(a), jnp.asarray(c)))[0]


def _combined(u: Array, slopes: Array, h: Array, weights: Array) -> Array:
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
