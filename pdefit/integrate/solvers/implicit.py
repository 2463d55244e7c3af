"""Steps of diagonally implicit Runge-Kutta tableaus, for stiff systems of few unknowns."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import lu_factor, lu_solve
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.solvers.method import AbstractMethod, AbstractOneStep, method_of
from pdefit.systems.system import AbstractSystem

# unknowns up to which a dense Jacobian is worth its memory and time
MOST_UNKNOWNS = 2000
# a relative change, in units of round-off, that ends the iteration, and one up to which its result counts
_DONE, _FOUND = 16, 1e5
_ITERATIONS = 50


class ImplicitTableau(AbstractOneStep):
    """A solver given by a lower triangular tableau: z_i = h f(t + c_i h, y + sum_j a_ij z_j), j <= i; y + sum_i b_i z_i.

    Stages are solved by Newton's iteration with the Jacobian at the start of the step, down to round-off, so that the step
    has the derivative of the implicit function theorem, forward and reverse. A stage that does not converge or is not
    finite makes the step NaN: an adaptive pass rejects it, and a loss is not finite. diffrax's own iteration raises there.

    Source: E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, IV.8 (1996), doi:10.1007/978-3-642-05221-7.
    """

    a: np.ndarray
    b: np.ndarray
    b_error: np.ndarray
    c: np.ndarray
    order: int
    name: str

    @property
    def real_stability(self):
        return float("inf")

    @property
    def estimate_order(self):
        return self.order if np.any(self.b_error) else None

    def one_step(self, system, t, h, y, args):
        flat, unravel = ravel_pytree(y)
        return unravel(flat + self._increments(system, t, h, y, args, self.b)[0])

    def step_with_error(self, system, t, h, y, args):
        flat, unravel = ravel_pytree(y)
        step, error = self._increments(system, t, h, y, args, self.b, self.b_error)
        return unravel(flat + step), unravel(error)

    def _increments(
        self, system: AbstractSystem, t: Array, h: Array, y: PyTree, args: PyTree, *weights: np.ndarray
    ) -> list[Float[Array, " n"]]:
        """sum_i w_i z_i for each of the weights."""
        y0, unravel = ravel_pytree(y)
        n, stages = y0.size, self.b.size
        if n > MOST_UNKNOWNS:
            raise PdefitError(
                f"{self.name} solves a dense linear system, which the {n} unknowns of {type(system).__name__} are too many "
                f"for; use solver=rkc, or solver=imex where the system is split (AbstractSplit)"
            )

        def field(system: AbstractSystem, t: Array, x: Array) -> Array:
            return ravel_pytree(system.vector_field(t, unravel(x), args))[0]

        held, at, size, start = jax.tree.map(_held, (system, t, h, y0))
        jacobian = jax.jacfwd(lambda x: field(held, at, x))(start)
        # one factor for all stages: they share the diagonal, or are explicit and solved by their guess
        factors = lu_factor(jnp.eye(n, dtype=y0.dtype) - size * float(self.a[-1, -1]) * jacobian)

        def stage(z: Array, inputs: tuple[Array, ...]) -> tuple[Array, None]:
            i, row, diagonal, shift = inputs
            base, time = y0 + row @ z, t + shift * h

            def residual(z_i: Array) -> Array:
                return z_i - h * field(system, time, base + diagonal * z_i)

            z_i, found = lax.custom_root(
                residual,
                h * field(system, time, base),
                lambda g, guess: _newton(g, guess, factors, lax.stop_gradient(base)),
                lambda g, b: jnp.linalg.solve(jax.jacfwd(g)(jnp.zeros_like(b)), b),
                has_aux=True,
            )
            z_i = jnp.where(lax.stop_gradient(found) > 0, z_i, jnp.nan)
            return lax.dynamic_update_index_in_dim(z, z_i, i, 0), None

        columns = (np.tril(self.a, -1), np.diag(self.a), self.c)
        rows = tuple(jnp.asarray(x, y0.dtype) for x in columns)
        z, _ = lax.scan(stage, jnp.zeros((stages, n), y0.dtype), (jnp.arange(stages), *rows))
        return [jnp.asarray(w, y0.dtype) @ z for w in weights]


def _held(x: Any) -> Any:
    return lax.stop_gradient(x) if isinstance(x, jax.Array) else x


def _newton(residual: Any, guess: Array, factors: Any, base: Array) -> tuple[Array, Float[Array, ""]]:
    """The root, and 1 if it was found: simplified Newton iterations until what they change is round-off, or does not
    fall any more."""
    eps = jnp.finfo(guess.dtype).eps
    floor = 1e-3 * jnp.max(jnp.abs(base)) + jnp.finfo(guess.dtype).tiny

    def running(state: tuple[Array, Array, Array, Array]) -> Array:
        _, change, before, count = state
        stuck = (change > 0.5 * before) & ((change < _FOUND * eps) | (change > 10))
        return (change > _DONE * eps) & jnp.isfinite(change) & ~stuck & (count < _ITERATIONS)

    def body(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        z, before, _, count = state
        correction = lu_solve(factors, residual(z))
        z = z - correction
        change = jnp.max(jnp.abs(correction) / (jnp.abs(base) + jnp.abs(z) + floor))
        return z, change, before, count + 1

    far = jnp.full_like(guess[0], 1e3)
    z, change, _, _ = lax.while_loop(running, body, (guess, far, 4 * far, jnp.zeros((), int)))
    # a number: derivatives of flags are no arrays
    return z, (change <= _FOUND * eps).astype(z.dtype)


def _implicit(solver: Any, tableau: Any) -> AbstractMethod:
    a = np.diag(np.asarray(tableau.a_diagonal, float))
    for i, row in enumerate(tableau.a_lower):
        a[i + 1, : i + 1] = row
    b, b_error = np.asarray(tableau.b_sol), np.asarray(tableau.b_error)
    return ImplicitTableau(a, b, b_error, a.sum(axis=1), int(solver.order(None)), type(solver).__name__)


@method_of.register
def _(solver: diffrax.AbstractDIRK) -> AbstractMethod:
    return _implicit(solver, solver.tableau)


@method_of.register(diffrax.KenCarp3)
@method_of.register(diffrax.KenCarp4)
@method_of.register(diffrax.KenCarp5)
def _(solver: Any) -> AbstractMethod:
    # a system is one term: the implicit half of the pair is a method of its own
    return _implicit(solver, solver.tableau.tableaus[1])


@method_of.register
def _(solver: diffrax.ImplicitEuler) -> AbstractMethod:
    one = np.ones(1)
    return ImplicitTableau(np.ones((1, 1)), one, 0 * one, one, 1, type(solver).__name__)
