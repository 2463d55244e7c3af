"""Levenberg-Marquardt: damped Gauss-Newton steps."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from pdefit._util.expected import NonNegative, Positive
from pdefit.inverse.objective.recording_equations import ArrowEquations
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, Evaluation, Point, select
from pdefit.inverse.optimizers.convergence import Convergence, exhausts
from pdefit.inverse.optimizers.creep import Creep
from pdefit.inverse.optimizers.damping import Damping

# rounds in which elements beyond their limits are held; the step is cut at the limits after that
_ROUNDS = 5
# a recording that is damped so much stands still, and is helpless
_STILL, _HELPLESS = 1e4, 1e15


class _State(NamedTuple):
    point: Point
    trial: Array
    equations: ArrowEquations
    # of each recording
    damping: Array
    growth: Array
    convergence: Convergence
    # the decrease that the full step promises
    promise: Array
    creep: Creep
    box: Box


class LevenbergMarquardt(AbstractOptimizer):
    """The Levenberg-Marquardt method: (A + damping diag A) step = -g with the Gauss-Newton matrix A = J_r^T J_r.

    For up to about 200 scalars, or 1000 with free node states, and as many for each recording. Not for fields (`LBFGS`,
    `GaussNewtonCG`), since every unknown costs a tangent, or with a continuous adjoint, which has no tangents.

    The damping follows the ratio of actual to predicted decrease. Elements of theta that would move beyond a bound or
    `max_step` are held there, and the step of the free elements is solved again.

    Each of many recordings has its own damping and ratio; shared unknowns have the geometric mean of the dampings. A step
    is accepted if the total J falls, or recording by recording if nothing is shared. Its cost is linear in the number of
    recordings.

    If residuals are noise, it has converged when the undamped step moves no combination of unknowns by more than a tenth
    of its standard error (`decrement`), and predicts a smaller decrease than the last one. In any case it has converged
    when the predicted decrease (`tolerance`) or the step (`step_tolerance`) is too small, or when residuals have fallen to
    round-off. When two steps have predicted less than the round-off of J, it ends. It has then converged unless the next
    step would move something by more than a tenth of its standard error.

    It stops without convergence when no damping helps, or when it creeps, which is checked every 20 evaluations. It
    creeps in a bent valley: J fell by many times the predicted decrease of the full step, and nearly as much is predicted
    again. It also creeps if J hardly fell although the full step predicts much.

    **Arguments:**

    - `damping`: the initial damping; default 1e-3.
    - `tolerance`: converged when the predicted decrease of the undamped step is below this fraction of J; default 1e-10.
    - `step_tolerance`: converged when that step moves no element of theta by more than this, relative to elements above
      1; default 1e-13. This ends a fit without noise.
    - `decrement`: converged when the Newton decrement g^T A^-1 g is below this, in units of the variance of residuals,
      if these are not far below sigma; default 0.01. 0 continues to the minimum itself.
    - `max_step`: the largest move of an element of theta in one step; default 2, which is a factor 7 with `Log`. With
      `Identity` or `Scale` it is relative to the size of a scalar or node state above 1.

    Sources: D. Marquardt, J. SIAM 11:431 (1963), doi:10.1137/0111030; damping after H. Nielsen, IMM-REP-1999-05.
    """

    tangents: ClassVar[bool] = True

    damping: Positive = 1e-3
    tolerance: NonNegative = 1e-10
    step_tolerance: NonNegative = 1e-13
    decrement: NonNegative = 0.01
    max_step: Positive = 2.0

    def evaluate(self, functional, state):
        return Evaluation(*functional.normal_equations(self.ask(state)))

    def init(self, theta, box):
        zero = jnp.zeros((), theta.dtype)
        equations = box.nothing or ArrowEquations.single(zero, 0 * theta, jnp.zeros((theta.size, theta.size)))
        each = jnp.ones_like(equations.half_square)
        watched = each if equations.separate else each[:1]
        return _State(
            point=Point.before(theta),
            trial=theta,
            equations=equations,
            damping=self.damping * each,
            growth=2 * each,
            convergence=Convergence.begin(theta),
            promise=zero,
            creep=Creep.begin(0 * watched),
            box=box._replace(nothing=None),
        )

    def ask(self, state):
        return state.trial

    def tell(self, state, evaluation):
        before, known = state.point, state.equations
        equations = evaluation.matrix
        if not isinstance(equations, ArrowEquations):
            matrix = jnp.zeros_like(known.matrix[0]) if equations is None else equations
            equations = ArrowEquations.single(evaluation.value, evaluation.gradient, matrix)
        step, first = state.trial - before.theta, ~state.convergence.started
        predicted = -(jnp.vdot(before.gradient, step) + step @ (known @ step) / 2)
        fallen, (ratio, good, fell) = before.value - evaluation.value, _judged(known, equations, step, state)
        # recordings that share nothing are accepted one by one
        whole = first | (fallen > 0) | state.box.lost(before.value, predicted, fallen)
        each = jnp.where(known.separate & ~first, fell, whole & evaluation.finite & jnp.all(equations.finite))
        accepted = jnp.any(each)
        # those that are to blame are damped; where their own unknowns stand still already, all are
        poor = ~each & ~(fell if known.separate else good)
        poor |= ~accepted & ~jnp.any(poor & (state.damping < _STILL))
        rule = Damping.by_gain(ratio, state.growth, _HELPLESS)
        damping = rule.after(state.damping, each & ~first, poor)
        growth = jnp.where(poor, 2 * state.growth, jnp.where(each, 2.0, state.growth))

        point, equations = _taken(each, Point.at(state.trial, evaluation), equations, before, known)
        step, promise, full = _step(point, equations, damping, state.box, self.max_step)
        watched = point.value[None], promise[None]
        if known.separate:
            watched = equations.half_square, -jnp.sum(equations.gradient * equations.parts(full), axis=1) / 2
        actual = before.value - point.value
        # the gradient is better than J: the step that goes beyond its round-off is taken
        hidden = state.box.lost(before.value, predicted, actual) & (promise <= state.box.slack(before.value))
        still = jnp.all(jnp.abs(full) <= self.step_tolerance * jnp.maximum(1.0, jnp.abs(point.theta)))
        little = self.decrement * state.box.variance(point.value) / 2
        matters = state.box.matters(promise, point.value, self.decrement)
        done = (promise <= self.tolerance * point.value) | state.convergence.exhausted(point.value)
        done |= still | exhausts(state.promise, promise, actual, little) | (hidden & ~matters)
        ready = accepted & ~first
        stuck = rule.helpless(damping) | (ready & hidden & ~done)
        new = _State(
            point=point,
            trial=state.box.clip(point.theta + step),
            equations=equations,
            damping=damping,
            growth=growth,
            convergence=state.convergence.after(evaluation.value, accepted, ready & done, stuck),
            promise=promise,
            creep=state.creep.after(*watched, first),
            box=state.box,
        )
        return new, accepted

    def best(self, state, theta, value):
        # recordings that share nothing reach a point that was never evaluated as a whole
        reached = state.point.theta, jnp.where(state.convergence.stuck, value, state.point.value)
        return reached if state.equations.separate else (theta, value)

    def finished(self, state):
        return super().finished(state) | state.creep.found

    def remark(self, state):
        ended = state.box, state.point.value, state.promise, self.tolerance, self.decrement
        return state.convergence.remark(*ended) or state.creep.remark()


def _judged(
    before: ArrowEquations, after: ArrowEquations, step: Float[Array, " p"], state: _State
) -> tuple[Float[Array, " E"], Bool[Array, " E"], Bool[Array, " E"]]:
    """Gain ratio of every recording, whether its step was good, and whether its J fell.

    The gain ratio is the actual over the predicted decrease. A step in shared unknowns may be predicted to raise J of
    this recording. So the error of the prediction is compared with the decrease of its damped model alone, if that is
    larger. For one record both are the same.
    """
    moved = before.parts(step)
    bend = jnp.einsum("ei,eij,ej->e", moved, before.matrix, moved) / 2
    predicted, actual = -jnp.sum(before.gradient * moved, axis=1) - bend, before.half_square - after.half_square
    size = jnp.maximum(predicted, bend + state.damping * jnp.sum(before.diagonals * moved**2, axis=1))
    ratio = jnp.where(size > 0, 1 - (predicted - actual) / jnp.where(size > 0, size, 1.0), 0.0)
    ratio = jnp.where(after.finite, ratio, -jnp.inf)
    lost = state.box.lost(before.half_square, predicted, actual)
    return ratio, after.finite & ((ratio > 0) | lost), after.finite & ((actual > 0) | lost)


def _taken(
    each: Bool[Array, " E"], trial: Point, after: ArrowEquations, point: Point, before: ArrowEquations
) -> tuple[Point, ArrowEquations]:
    """The point and its equations after some, or all, recordings took a step."""
    if not before.separate:
        return select(jnp.all(each), (trial, after), (point, before))
    equations = after.only(each, before)
    theta = before.added(jnp.where(each[:, None], before.parts(trial.theta), before.parts(point.theta)))
    return Point(theta, jnp.sum(equations.half_square), equations.added(equations.gradient)), equations


def _step(
    point: Point, equations: ArrowEquations, damping: Float[Array, " E"], box: Box, max_step: Array | float
) -> tuple[Float[Array, " p"], Float[Array, ""], Float[Array, " p"]]:
    """Damped Gauss-Newton step in the free elements, scaled to the diagonal of the matrix.

    With this scaling a damping means the same for every control, whatever its unit and number of data.

    **Returns:** that step, the predicted decrease of the full, undamped step, and the full step. Convergence is judged
    by the full step, because heavy damping makes any step small.
    """
    theta, gradient = point.theta, point.gradient
    free = ~box.blocked(theta, -gradient)
    diagonal = equations.diagonal()
    # an element without any influence keeps its place
    scale = jnp.where(free & (diagonal > 0), 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    scaled, slope = equations.scaled(scale), scale * gradient
    # shared elements by the geometric mean, weighed by what recordings tell of them: one alone must not hold them up
    weight, logs = (scaled.added(x[:, None] * scaled.diagonals) for x in (jnp.ones_like(damping), jnp.log(damping)))
    shift = weight * jnp.exp(logs / jnp.where(weight > 0, weight, 1.0))

    def solve(shift: Array, held: Array, at: Array) -> Array:
        """Scaled step of all free elements; held elements do not move."""
        pulled = slope + scaled @ jnp.where(held, at, 0.0)
        return jnp.where(held, at, -scaled.solve(pulled, shift, held | (scale == 0)))

    # a matrix that is singular to round-off must not end the fit
    round_off = 4 * jnp.finfo(slope.dtype).eps * equations.gradient.shape[1] ** 2
    shift = jnp.maximum(shift, round_off)
    nothing = jnp.zeros(theta.size, bool), jnp.zeros(theta.size)
    # in one call of LAPACK: two at once, by a program of many members, wait for each other's threads for ever
    full, first = jax.vmap(solve, (0, None, None))(jnp.stack([jnp.full(theta.size, round_off), shift]), *nothing)
    # limits act element by element, because one that the data hardly determine must not hold up the others
    reach = max_step * jnp.where(box.straight, jnp.maximum(jnp.abs(theta), 1.0), 1.0)
    lowest, highest = jnp.maximum(box.lower - theta, -reach), jnp.minimum(box.upper - theta, reach)
    inverse = jnp.where(scale > 0, 1 / jnp.where(scale > 0, scale, 1.0), 0.0)

    # to cut the whole step where one element meets its limit would stop all; to cut that element alone would leave the
    # others where they belong to its full length. So it is held at its limit, and the others find their step anew. That
    # may move another one beyond its own limit, hence the rounds.
    def hold(_: Array, before: tuple[Array, Array]) -> tuple[Array, Array]:
        held, found = before
        limited = jnp.clip(scale * found, lowest, highest)
        held = held | (scale * found != limited)
        return held, solve(shift, held, jnp.where(held, limited * inverse, 0.0))

    found = lax.fori_loop(0, _ROUNDS, hold, (nothing[0], first))[1]
    return jnp.clip(scale * found, lowest, highest), -jnp.vdot(slope, full) / 2, scale * full
