"""Steps of diagonally implicit Runge-Kutta tableaus, for stiff systems of few unknowns.

The step is our own and not diffrax's (0.7.2), although both agree to round-off on Robertson's kinetics if `root_finder`
is `optimistix.Chord(rtol=1e-13, atol=1e-13)`. There are three reasons; the first two forbid diffrax's step in a fit:

- If a stage of diffrax does not converge, the state is NaN, but the reverse pass raises an error from inside the
  compiled program. Here the gradient is NaN too, and the point is rejected.
- The tolerance of its residual is absolute. A cell of 10^5 molecules, or a Brusselator of 60 cells, never reaches
  1e-13. Here the iteration ends at the round-off of each state. `VeryChord`, the default, is too loose to be
  differentiated, and at 1e-13 its gradient raises on Robertson's kinetics.
- It computes and factors the Jacobian for every stage; here this is done once per step. Its value takes 1.3 times as
  long on Robertson's kinetics and 2.9 times on van der Pol's oscillator, its gradient 1.3 and 1.2 times.
"""

from collections.abc import Callable
from typing import TypeVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import lu_factor, lu_solve
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.solvers.explicit import stage_matrix, tableau_of
from pdefit.integrate.solvers.method import AbstractEmbedded, AbstractMethod, AbstractOneStep, method_of
from pdefit.systems.system import AbstractSystem

# unknowns up to which a dense Jacobian is worth its memory and time
MOST_UNKNOWNS = 2000
# the relative change, in units of round-off, that ends the iteration, and the one up to which its result counts
_DONE, _FOUND = 16, 1e5
_ITERATIONS = 50

X = TypeVar("X")


class AbstractImplicit(AbstractOneStep):
    """A solver given by a lower triangular tableau.

        z_i = h f(t + c_i h, y + sum_j a_ij z_j),  j <= i;    y(t + h) = y + sum_i b_i z_i

    Newton's iteration with the Jacobian at the start of the step solves each stage down to the round-off of each unknown,
    whatever its unit. So the step has the derivative of the implicit function theorem, forward and reverse. A stage that
    does not converge or is not finite makes the step NaN: an adaptive pass rejects it, and an objective is not finite.

    **Arguments:**

    - `a`: the coefficients of the stages, (s, s).
    - `b`, `b_error`: the weights of the step and of its estimated error, (s,).
    - `c`: the stages' positions in the step, (s,).
    - `order`: the order of the step.
    - `name`: the name of the solver, for errors.

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

    def one_step(self, system, t, h, y, args):
        flat, unravel = ravel_pytree(y)
        return unravel(flat + self._increments(system, t, h, y, args, self.b)[0])

    def _increments(
        self, system: AbstractSystem, t: Array, h: Array, y: PyTree, args: PyTree, *weights: np.ndarray
    ) -> list[Float[Array, " n"]]:
        """Sums sum_i w_i z_i over the stages, for each of the weights."""
        y0, unravel = ravel_pytree(y)
        n, stages = y0.size, self.b.size
        if n > MOST_UNKNOWNS:
            raise PdefitError(
                f"{self.name} solves a dense linear system, which the {n} unknowns of {type(system).__name__} are too many "
                f"for; use solver=rkc, or solver=imex where the system is split (AbstractSplit)"
            )

        def field(system: AbstractSystem, t: Array, x: Array) -> Array:
            return ravel_pytree(system.vector_field(t, unravel(x), args))[0]

        held, at, size, start = jax.tree.map(_constant, (system, t, h, y0))
        jacobian = jax.jacfwd(lambda x: field(held, at, x))(start)
        # one factor for all stages, which share the diagonal; an explicit one is solved by its guess
        coupling = size * float(self.a[-1, -1]) * jacobian
        factors = lu_factor(jnp.eye(n, dtype=y0.dtype) - coupling)

        def stage(z: Array, inputs: tuple[Array, ...]) -> tuple[Array, None]:
            i, row, diagonal, shift = inputs
            base, time = y0 + row @ z, t + shift * h

            def residual(z_i: Array) -> Array:
                return z_i - h * field(system, time, base + diagonal * z_i)

            explicit = h * field(system, time, base)
            # a linearised step: an explicit one throws a stiff unknown past its root, from where no iteration returns
            z_i, found = lax.custom_root(
                residual,
                jnp.where(diagonal > 0, lu_solve(factors, explicit), explicit),
                lambda g, guess: _newton(g, guess, factors, jnp.abs(coupling), lax.stop_gradient(base)),
                lambda g, b: jnp.linalg.solve(jax.jacfwd(g)(jnp.zeros_like(b)), b),
                has_aux=True,
            )
            z_i = jnp.where(lax.stop_gradient(found) > 0, z_i, jnp.nan)
            return lax.dynamic_update_index_in_dim(z, z_i, i, 0), None

        columns = (np.tril(self.a, -1), np.diag(self.a), self.c)
        rows = tuple(jnp.asarray(x, y0.dtype) for x in columns)
        z, _ = lax.scan(stage, jnp.zeros((stages, n), y0.dtype), (jnp.arange(stages), *rows))
        return [jnp.asarray(w, y0.dtype) @ z for w in weights]


class ImplicitTableau(AbstractImplicit):
    """An implicit tableau without an error estimate."""


class EmbeddedImplicitTableau(AbstractImplicit, AbstractEmbedded):
    """An implicit tableau with a second set of weights, which estimates the error."""

    @property
    def estimate_order(self):
        return self.order

    def step_with_error(self, system, t, h, y, args):
        flat, unravel = ravel_pytree(y)
        step, error = self._increments(system, t, h, y, args, self.b, self.b_error)
        return unravel(flat + step), unravel(error)


def _constant(x: X) -> X:
    return lax.stop_gradient(x) if isinstance(x, jax.Array) else x


def _newton(
    residual: Callable[[Array], Array],
    guess: Float[Array, " n"],
    factors: tuple[Array, Array],
    coupling: Float[Array, "n n"],
    base: Float[Array, " n"],
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """The root by simplified Newton iterations, and 1 if they converged.

    They end when the change of every unknown is at round-off, or no longer decreases. They count as converged if the
    change is small relative to the largest unknown: for an unknown smaller by decades, simplified iterations may
    converge slowly.
    """
    eps, tiny = jnp.finfo(guess.dtype).eps, jnp.finfo(guess.dtype).tiny
    largest = 1e-3 * jnp.max(jnp.abs(base))

    def running(state: tuple[Array, ...]) -> Array:
        _, change, before, _, count = state
        stuck = (change > 0.5 * before) & ((change < _FOUND * eps) | (change > 1e3))
        return (change > _DONE * eps) & jnp.isfinite(change) & ~stuck & (count < _ITERATIONS)

    def body(state: tuple[Array, ...]) -> tuple[Array, ...]:
        z, before, _, _, count = state
        correction = lu_solve(factors, residual(z))
        z = z - correction
        size = jnp.abs(base) + jnp.abs(z)
        # round-off comes from the unknowns that a slope depends on; others may be larger by decades
        change = jnp.max(jnp.abs(correction) / (size + jnp.minimum(largest, coupling @ size) + tiny))
        return z, change, before, jnp.max(jnp.abs(correction) / (size + largest + tiny)), count + 1

    # the first change may be any: the guess of a stiff unknown is far away
    far = jnp.full_like(guess[0], jnp.finfo(guess.dtype).max / 8)
    z, _, _, left, _ = lax.while_loop(running, body, (guess, far, 4 * far, far, jnp.zeros((), int)))
    # a number: derivatives of flags are no arrays
    return z, (left <= _FOUND * eps).astype(z.dtype)


def _implicit(solver: diffrax.AbstractSolver, tableau: diffrax.ButcherTableau) -> EmbeddedImplicitTableau:
    a = stage_matrix(tableau) + np.diag(np.asarray(tableau.a_diagonal, float))
    terms: PyTree = None
    order, name = int(solver.order(terms) or 0), type(solver).__name__
    return EmbeddedImplicitTableau(
        a, np.asarray(tableau.b_sol), np.asarray(tableau.b_error), a.sum(axis=1), order, name
    )


@method_of.register
def _(solver: diffrax.AbstractDIRK) -> AbstractMethod:
    return _implicit(solver, tableau_of(solver))


@method_of.register(diffrax.KenCarp3)
@method_of.register(diffrax.KenCarp4)
@method_of.register(diffrax.KenCarp5)
def _(solver: diffrax.KenCarp3 | diffrax.KenCarp4 | diffrax.KenCarp5) -> AbstractMethod:
    # these are pairs for two terms, but a system is one: the implicit half of the pair is a method of its own
    return _implicit(solver, solver.tableau.tableaus[1])


@method_of.register
def _(solver: diffrax.ImplicitEuler) -> AbstractMethod:
    one = np.ones(1)
    return ImplicitTableau(np.ones((1, 1)), one, 0 * one, one, 1, type(solver).__name__)
