"""Levenberg-Marquardt: damped Gauss-Newton steps."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Float

from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, Evaluation, Point, exhausts, select, settled

# residuals of a record without noise cannot fall further than this, because of round-off
_ROUND_OFF = 1e-14
# rounds in which elements beyond their limits are held; the step is cut at the limits after that
_ROUNDS = 5
# the number of evaluations between two checks of whether the fit creeps
_WATCHED = 20
# the linear model cannot follow a bent valley where J falls by this many times the promise, and this part of it is
# promised again
_BLIND, _AGAIN = 5.0, 0.1
# steps gain nothing where J falls by less than this part of it, and the full step promises more than that
_NOTHING = 0.02
# promises below this part of J are those of a fit that is about to converge
_LITTLE = 1e-3


class _State(NamedTuple):
    point: Point
    trial: Array
    first_value: Array
    matrix: Array
    damping: Array
    growth: Array
    started: Array
    converged: Array
    stuck: Array
    # the decrease that the full step promises
    promise: Array
    watch: "_Watch"
    box: Box


class _Watch(NamedTuple):
    """J and the decrease that the full step promised some evaluations ago, to recognise a fit that creeps."""

    value: Array
    promise: Array
    evaluations: Array
    creeps: Array

    def after(self, value: Array, promise: Array, first: Array) -> "_Watch":
        """The record after one more evaluation."""
        evaluations = jnp.where(first, 0, self.evaluations + 1)
        due = evaluations == _WATCHED
        fallen = self.value - value
        blind = (fallen > _BLIND * self.promise) & (promise > _AGAIN * self.promise) & (promise > _LITTLE * value)
        futile = (fallen < _NOTHING * self.value) & (promise > _NOTHING * value)
        anew = first | due
        return _Watch(
            value=jnp.where(anew, value, self.value),
            promise=jnp.where(anew, promise, self.promise),
            evaluations=jnp.where(due, 0, evaluations),
            creeps=self.creeps | (due & (blind | futile)),
        )


class LevenbergMarquardt(AbstractOptimizer):
    """Damped Gauss-Newton steps: (A + damping diag A) step = -g with A = J_r^T J_r.

    For up to about 200 numbers, or 1000 with free node states. Not for fields (`LBFGS`, `GaussNewtonCG`), because every
    unknown costs a tangent, or with a continuous adjoint, which has none.

    The damping follows the ratio of actual to predicted decrease. Elements of theta that would move beyond a bound or
    `max_step` are held there, and the others find their step anew.

    Where residuals are noise it has converged when the undamped step moves no combination of unknowns by more than a tenth
    of its standard error (`decrement`), and as much as J fell is promised no more. Anywhere it has converged when
    that step promises too little (`tolerance`) or moves too little (`step_tolerance`), when residuals have fallen to
    round-off, or when two steps have promised less than the round-off of J.

    It stops without having converged when no damping helps, or when it creeps, which is checked every 20 evaluations. It
    creeps where J fell by many times what the full step had promised, and nearly as much is promised again: the valley
    bends where the linear model cannot follow. It creeps, too, where J hardly fell while the full step promises much.

    **Arguments:**

    - `damping`: the first damping; default 1e-3.
    - `tolerance`: converged when the decrease promised by the undamped step is below this part of J; default 1e-10.
    - `step_tolerance`: converged when that step moves no element of theta by more than this, relative to elements
      larger than 1; default 1e-13. This ends a fit without noise.
    - `decrement`: converged when the Newton decrement g^T A^-1 g is below this, in units of the variance of residuals,
      where these are not far below sigma; default 0.01. 0 goes on to the minimum itself.
    - `max_step`: the largest move of an element of theta at once; default 2, which is a factor 7 of a control with
      `Log`.

    Sources: D. Marquardt, J. SIAM 11:431 (1963), doi:10.1137/0111030; damping after H. Nielsen, IMM-REP-1999-05.
    """

    tangents: ClassVar[bool] = True

    damping: float = 1e-3
    tolerance: float = 1e-10
    step_tolerance: float = 1e-13
    decrement: float = 0.01
    max_step: float = 2.0

    def evaluate(self, functional, state):
        return Evaluation(*functional.normal_equations(self.ask(state)))

    def init(self, theta, box):
        p, zero, false = theta.size, jnp.zeros((), theta.dtype), jnp.zeros((), bool)
        return _State(
            point=Point.before(theta),
            trial=theta,
            first_value=zero,
            matrix=jnp.zeros((p, p)),
            damping=jnp.asarray(self.damping, theta.dtype),
            growth=jnp.asarray(2.0, theta.dtype),
            started=false,
            converged=false,
            stuck=false,
            promise=zero,
            watch=_Watch(zero, zero, jnp.zeros((), int), false),
            box=box,
        )

    def ask(self, state):
        return state.trial

    def tell(self, state, evaluation):
        before = state.point
        matrix = jnp.zeros_like(state.matrix) if evaluation.matrix is None else evaluation.matrix
        finite = evaluation.finite & jnp.all(jnp.isfinite(matrix))
        step = state.trial - before.theta
        predicted = -(jnp.vdot(before.gradient, step) + step @ state.matrix @ step / 2)
        actual = before.value - evaluation.value
        # an improvement lost in the round-off of J counts when the model promised no more than that
        slack = jnp.maximum(1e-13 * before.value, state.box.noise(before.value))
        in_noise = (predicted <= slack) & (actual >= -slack)
        first = ~state.started
        accepted = finite & (first | (actual > 0) | in_noise)

        ratio = jnp.where(predicted > 0, actual / jnp.where(predicted > 0, predicted, 1.0), 0.0)
        eased = state.damping * jnp.maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
        damping = jnp.where(accepted, jnp.where(first, state.damping, eased), state.damping * state.growth)
        growth = jnp.where(accepted, 2.0, 2 * state.growth)

        trial = Point.at(state.trial, evaluation)
        point, matrix = select(accepted, (trial, matrix), (before, state.matrix))
        step, promise, full = _step(point, matrix, damping, state.box, self.max_step)
        first_value = jnp.where(first, evaluation.value, state.first_value)
        helpless = damping > 1e15
        still = jnp.all(jnp.abs(full) <= self.step_tolerance * jnp.maximum(1.0, jnp.abs(point.theta)))
        # the gradient is better than J: the step that goes beyond its round-off is taken
        done = (
            (promise <= self.tolerance * point.value)
            | (in_noise & (promise <= slack))
            | (point.value <= _ROUND_OFF**2 * first_value)
            | still
        )
        little = self.decrement * state.box.variance(point.value) / 2
        done |= exhausts(state.promise, promise, actual, little)
        converged = accepted & ~first & done
        stuck = helpless | (first & ~finite)
        new = _State(
            point=point,
            trial=state.box.clip(point.theta + step),
            first_value=first_value,
            matrix=matrix,
            damping=damping,
            growth=growth,
            started=jnp.ones((), bool),
            converged=converged,
            stuck=stuck,
            promise=promise,
            watch=state.watch.after(point.value, promise, first),
            box=state.box,
        )
        return new, accepted

    def finished(self, state):
        return jnp.any(jnp.stack([state.converged, state.stuck, state.watch.creeps]))

    def remark(self, state):
        if bool(state.converged):
            return settled(state.box, state.point.value, state.promise, self.tolerance, self.decrement)
        if not bool(state.watch.creeps):
            return None
        return (
            f"Levenberg-Marquardt creeps: after {_WATCHED} evaluations as much is still to be gained as before them; "
            "fit the numbers first, from a held initial state (a stage with held: true), or a part of the record "
            "(until), or start from a better guess"
        )


def _step(
    point: Point, matrix: Float[Array, "p p"], damping: Array, box: Box, max_step: Array | float
) -> tuple[Float[Array, " p"], Float[Array, ""], Float[Array, " p"]]:
    """The damped Gauss-Newton step in the free elements, scaled to the diagonal of the matrix.

    Scaled so, a damping means the same for every control, whatever its unit and however many data it moves.

    **Returns:** that step, the decrease that the full, undamped step promises, and the full step. Convergence is judged
    by the full step, because heavy damping makes any step small.
    """
    theta, gradient = point.theta, point.gradient
    free = ~box.blocked(theta, -gradient)
    diagonal = jnp.diag(matrix)
    # an element without any influence keeps its place
    scale = jnp.where(free & (diagonal > 0), 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    scaled = scale[:, None] * matrix * scale[None, :] + jnp.diag(jnp.where(scale > 0, 0.0, 1.0))
    slope = scale * gradient

    def solve(shift: Array, held: Array, at: Array) -> Array:
        """The scaled step of all elements but those that are held, and stay where they are."""
        pulled = jnp.where(held, at, slope + scaled @ jnp.where(held, at, 0.0))
        damped = scaled + shift * jnp.eye(scale.size)
        alone = jnp.where(held[:, None] | held[None, :], jnp.eye(scale.size), damped)
        return jnp.where(held, at, -cho_solve(cho_factor(alone), pulled))

    # a matrix that is singular to round-off must not end the fit: its eigenvalues are at most its size
    round_off = 4 * jnp.finfo(matrix.dtype).eps * scale.size**2
    nothing = jnp.zeros(theta.size, bool), jnp.zeros(theta.size)
    full = solve(jnp.asarray(round_off), *nothing)
    # limits act element by element, because one that the data hardly determine must not hold up the others
    lowest, highest = jnp.maximum(box.lower - theta, -max_step), jnp.minimum(box.upper - theta, max_step)
    inverse = jnp.where(scale > 0, 1 / jnp.where(scale > 0, scale, 1.0), 0.0)

    # to cut the whole step where one element meets its limit would stop all; to cut that element alone would leave the
    # others where they belong to its full length. So it is held at its limit, and the others find their step anew. That
    # may move another one beyond its own limit, hence the rounds.
    def hold(_: Array, before: tuple[Array, Array]) -> tuple[Array, Array]:
        held, at = before
        step = scale * solve(jnp.maximum(damping, round_off), held, at)
        limited = jnp.clip(step, lowest, highest)
        beyond = held | (step != limited)
        return beyond, jnp.where(beyond, limited * inverse, 0.0)

    held, at = lax.fori_loop(0, _ROUNDS, hold, nothing)
    step = jnp.clip(scale * solve(jnp.maximum(damping, round_off), held, at), lowest, highest)
    return step, -jnp.vdot(slope, full) / 2, scale * full
