"""Levenberg-Marquardt: damped Gauss-Newton steps."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Float

from pdefit.inverse.optimize.base import AbstractOptimizer, Box, Evaluation

# residuals of a record without noise fall by no more than this
_ROUND_OFF = 1e-14


class _State(NamedTuple):
    theta: Array
    trial: Array
    value: Array
    first_value: Array
    gradient: Array
    matrix: Array
    damping: Array
    growth: Array
    started: Array
    converged: Array
    stuck: Array
    box: Box


class LevenbergMarquardt(AbstractOptimizer):
    """(A + damping diag A) step = -g with A = J_r^T J_r; damping follows the ratio of actual to predicted decrease.

    The workhorse for few controls. No element of theta moves by more than `max_step` at once (in a log control 2 is a
    factor 7). Bounds: elements on a bound whose descent leads out of it are held. Converged when the decrease promised
    by the undamped step is below `tolerance` of J, or when no damping helps any more and the residuals have fallen to
    round-off; it stops without having converged when no damping helps before.

    Sources: D. Marquardt, J. SIAM 11:431 (1963), doi:10.1137/0111030; damping after H. Nielsen, IMM-REP-1999-05.
    """

    tangents: ClassVar[bool] = True

    damping: float = 1e-3
    tolerance: float = 1e-10
    max_step: float = 2.0

    def evaluate(self, functional, state):
        return Evaluation(*functional.normal_equations(self.ask(state)))

    def init(self, theta, box):
        p, zero, false = theta.size, jnp.zeros((), theta.dtype), jnp.zeros((), bool)
        return _State(
            theta=theta,
            trial=theta,
            value=zero,
            first_value=zero,
            gradient=jnp.zeros(p),
            matrix=jnp.zeros((p, p)),
            damping=jnp.asarray(self.damping, theta.dtype),
            growth=jnp.asarray(2.0, theta.dtype),
            started=false,
            converged=false,
            stuck=false,
            box=box,
        )

    def ask(self, state):
        return state.trial

    def tell(self, state, found):
        matrix = jnp.zeros_like(state.matrix) if found.matrix is None else found.matrix
        finite = found.finite & jnp.all(jnp.isfinite(matrix))
        step = state.trial - state.theta
        predicted = -(jnp.vdot(state.gradient, step) + step @ state.matrix @ step / 2)
        actual = state.value - found.value
        # an improvement lost in the round-off of J counts when the model promised no more than that
        in_noise = (predicted <= 1e-13 * state.value) & (actual >= -1e-13 * state.value)
        first = ~state.started
        accepted = finite & (first | (actual > 0) | in_noise)

        ratio = jnp.where(predicted > 0, actual / jnp.where(predicted > 0, predicted, 1.0), 0.0)
        eased = state.damping * jnp.maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
        damping = jnp.where(accepted, jnp.where(first, state.damping, eased), state.damping * state.growth)
        growth = jnp.where(accepted, 2.0, 2 * state.growth)

        theta, value, gradient, matrix = (
            jnp.where(accepted, new, old)
            for new, old in (
                (state.trial, state.theta),
                (found.value, state.value),
                (found.gradient, state.gradient),
                (matrix, state.matrix),
            )
        )
        step, promise = _step(matrix, gradient, damping, theta, state.box)
        first_value = jnp.where(first, found.value, state.first_value)
        helpless = damping > 1e15
        exhausted = helpless & (value <= _ROUND_OFF**2 * first_value)
        converged = (accepted & ~first & ((promise <= self.tolerance * value) | (value == 0))) | exhausted
        stuck = helpless | (first & ~finite)
        # element by element: one that the data hardly see must not hold up the others
        trial = state.box.clip(theta + jnp.clip(step, -self.max_step, self.max_step))
        started = jnp.ones((), bool)
        new = _State(
            theta, trial, value, first_value, gradient, matrix, damping, growth, started, converged, stuck, state.box
        )  # fmt: skip
        return new, accepted

    def converged(self, state):
        return state.converged

    def finished(self, state):
        return state.converged | state.stuck


def _step(
    matrix: Float[Array, "p p"],
    gradient: Float[Array, " p"],
    damping: Array,
    theta: Float[Array, " p"],
    box: Box,
) -> tuple[Float[Array, " p"], Float[Array, ""]]:
    """The damped Gauss-Newton step in the free elements, scaled to the diagonal of the matrix; and the decrease that the
    full, undamped step promises, so that heavy damping is never taken for convergence."""
    free = ~box.blocked(theta, -gradient)
    diagonal = jnp.diag(matrix)
    # an element without any influence keeps its place
    scale = jnp.where(free & (diagonal > 0), 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    scaled = scale[:, None] * matrix * scale[None, :] + jnp.diag(jnp.where(scale > 0, 0.0, 1.0))
    slope = scale * gradient

    def solve(shift: Array) -> Array:
        return cho_solve(cho_factor(scaled + shift * jnp.eye(scale.size)), slope)

    # a matrix that is singular to round-off must not end the fit: its eigenvalues are at most its size
    round_off = 4 * jnp.finfo(matrix.dtype).eps * scale.size**2
    promise = jnp.vdot(slope, solve(jnp.asarray(round_off))) / 2
    return -scale * solve(jnp.maximum(damping, round_off)), promise
