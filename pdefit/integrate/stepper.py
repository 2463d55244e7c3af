"""One time step of a system with a solver: the only place that calls a solver."""

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


class Stepper(eqx.Module):
    """Advances `(y, solver_state)` by a step of size h from time t.

    Explicit Runge-Kutta tableaus are evaluated here, by a scan over stages: diffrax's own stage loop is either
    forward-differentiable or reverse-differentiable, and unrolled stages let XLA recompute one inside the next.
    Every other solver steps itself.
    """

    system: AbstractSystem
    solver: diffrax.AbstractSolver
    args: PyTree = None

    def init(self, t: Array, y: PyTree) -> tuple[PyTree, Any]:
        """The carry of the time loop at time t: the state and what the solver remembers between steps."""
        if isinstance(self.solver, diffrax.AbstractERK | AbstractSymplectic):
            return y, None
        return y, self.solver.init(self._term(), t, t, y, self.args)

    def __call__(self, t: Array, h: Array, carry: tuple[PyTree, Any]) -> tuple[PyTree, Any]:
        y, state = carry
        if isinstance(self.solver, diffrax.AbstractERK):
            return _tableau_step(self.system, self.solver.tableau, t, h, y, self.args), None
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


def _tableau_step(system: AbstractSystem, tableau: Any, t: Array, h: Array, y: PyTree, args: PyTree) -> PyTree:
    """y + h sum_i b_i k_i with k_i = f(t + c_i h, y + h sum_j a_ij k_j)."""
    weights = np.asarray(tableau.b_sol)
    # stages after the last nonzero weight serve error estimates only
    stages = int(np.flatnonzero(weights)[-1]) + 1
    if stages == 1:
        return jax.tree.map(lambda u, k: u + (h * weights[0]).astype(u.dtype) * k, y, system.vector_field(t, y, args))
    a = stage_matrix(tableau)[:stages, :stages]
    c = np.concatenate([[0.0], tableau.c[: stages - 1]])

    def combine(u: Array, slopes: Array, row: Array) -> Array:
        # a sum of products, not a matrix product: twice as fast under vmapped tangents
        weight = (h * row).astype(u.dtype).reshape(-1, *(1,) * u.ndim)
        return u + jnp.sum(weight * slopes, axis=0)

    def stage(slopes: PyTree, inputs: tuple[Array, Array, Array]) -> tuple[PyTree, None]:
        i, row, shift = inputs
        y_i = jax.tree.map(lambda u, s: combine(u, s, row), y, slopes)
        k = system.vector_field(t + shift * h, y_i, args)
        return jax.tree.map(lambda s, k_i: lax.dynamic_update_index_in_dim(s, k_i, i, 0), slopes, k), None

    zeros = jax.tree.map(lambda u: jnp.zeros((stages, *u.shape), u.dtype), y)
    slopes, _ = lax.scan(stage, zeros, (jnp.arange(stages), jnp.asarray(a), jnp.asarray(c)))
    return jax.tree.map(lambda u, s: combine(u, s, jnp.asarray(weights[:stages])), y, slopes)
