"""Linear systems of a row of states, each coupled to the next, and of numbers that all of them share."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float


class Bordered(NamedTuple):
    """A symmetric block-tridiagonal matrix with a border, and a gradient.

    **Arguments:**

    - `diagonal`: the blocks of M states of n elements, (M, n, n).
    - `below`: the blocks of each state but the first and the one before it, (M - 1, n, n).
    - `border`: the blocks of each state and the k shared numbers, (M, n, k).
    - `corner`: the block of the shared numbers, (k, k).
    - `gradient`: the gradient in the states, (M, n).
    - `shared`: that in the shared numbers, (k,).
    """

    diagonal: Float[Array, "M n n"]
    below: Float[Array, "M-1 n n"]
    border: Float[Array, "M n k"]
    corner: Float[Array, "k k"]
    gradient: Float[Array, "M n"]
    shared: Float[Array, " k"]

    def damped(self, states: Float[Array, " n"], shared: Float[Array, " k"]) -> "Bordered":
        """The same with numbers added to the diagonal: one for each element of a state, and for each shared number."""
        diagonal, corner = self.diagonal + jnp.diag(states)[None], self.corner + jnp.diag(shared)
        return self._replace(diagonal=diagonal, corner=corner)

    def step(self) -> tuple[Float[Array, " k"], Float[Array, "M n"]]:
        """Minus the solution for the gradient, (k,) and (M, n), in a time that is linear in M.

        The states are eliminated one after the other by their Cholesky factors. What remains for the shared numbers is
        the Schur complement.
        """
        n, k = self.border.shape[1:]
        sides = jnp.concatenate([self.border, self.gradient[:, :, None]], axis=2)

        def eliminate(before: tuple[Array, Array], row: tuple[Array, Array, Array]):
            factor, solved = before
            diagonal, below, side = row
            coupling = solve_triangular(factor, below.T, lower=True)
            factor = jnp.linalg.cholesky(diagonal - coupling.T @ coupling)
            solved = solve_triangular(factor, side - coupling.T @ solved, lower=True)
            return (factor, solved), (factor, coupling, solved)

        start = jnp.eye(n), jnp.zeros((n, k + 1))
        rows = self.diagonal, jnp.concatenate([jnp.zeros((1, n, n)), self.below]), sides
        _, (factors, couplings, solved) = lax.scan(eliminate, start, rows)
        products = jnp.einsum("mni,mnj->ij", solved, solved)
        shared = -jnp.linalg.solve(self.corner - products[:k, :k], self.shared - products[:k, k])

        def substitute(after: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            factor, coupling, own = row
            state = -solve_triangular(factor, own + after, lower=True, trans=1)
            return coupling @ state, state

        # the right-hand side that a state leaves to the one before it
        own = solved @ jnp.append(shared, 1.0)
        _, states = lax.scan(substitute, jnp.zeros(n), (factors, couplings, own), reverse=True)
        return shared, states
