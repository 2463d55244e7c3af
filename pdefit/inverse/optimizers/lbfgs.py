"""Limited-memory BFGS, with a zoom line search for the strong Wolfe conditions, one evaluation at a time."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from pdefit._util.expected import Count, NonNegative
from pdefit.inverse.optimizers._course import Course
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, Point, select
from pdefit.inverse.optimizers.convergence import Convergence

_DECREASE = 1e-4
_CURVATURE = 0.9
_ROUND_OFF = 1e-14


class _Search(NamedTuple):
    """A line search along phi(a) = J(theta + a d).

    **Arguments:**

    - `step`: the trial step.
    - `value0`, `slope0`: value and slope at a = 0.
    - `low`, `low_value`, `low_slope`: the best step so far, with value and slope.
    - `high`, `high_value`: the other end of the bracket, once `zooming`.
    - `zooming`: whether a bracket was found.
    - `trials`: the number of trials.
    - `limit`: the largest step that the bounds allow.
    """

    step: Array
    value0: Array
    slope0: Array
    low: Array
    low_value: Array
    low_slope: Array
    high: Array
    high_value: Array
    zooming: Array
    trials: Array
    limit: Array


def _begin(step: Array, value: Array, slope: Array, limit: Array) -> _Search:
    """A search from a = 0.

    **Arguments:**

    - `step`: the first trial step.
    - `value`, `slope`: value and slope at a = 0.
    - `limit`: the largest step that the bounds allow.
    """
    zero = jnp.zeros_like(value)
    false = jnp.zeros((), bool)
    step = jnp.minimum(step, limit)
    return _Search(step, value, slope, zero, value, slope, zero, value, false, jnp.zeros((), int), limit)


def _interpolate(low: Array, low_value: Array, low_slope: Array, high: Array, high_value: Array) -> Float[Array, ""]:
    """Minimum of the parabola through value and slope at `low` and the value at `high`, kept inside the bracket."""
    width = high - low
    curvature = high_value - low_value - low_slope * width
    good = jnp.isfinite(high_value) & (curvature > 0)
    fraction = jnp.where(good, -low_slope * width / (2 * jnp.where(good, curvature, 1.0)), 0.5)
    return low + jnp.clip(fraction, 0.1, 0.9) * width


def _advance(
    search: _Search, value: Array, slope: Array, noise: Array | float = 0.0, max_trials: int = 20
) -> tuple[_Search, Bool[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """The search after its trial step; whether the trial is accepted, the search fails, and the trial is the new `low`.

    Otherwise the search continues. The gradient of a new `low` must be stored.

    **Arguments:**

    - `search`: the search before the trial.
    - `value`, `slope`: value and slope at the trial step.
    - `noise`: the round-off of a difference of two values, if it is more than 1e-14 of them.
    - `max_trials`: the number of trials after which the search fails.

    Source: J. Nocedal, S. Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6, doi:10.1007/978-0-387-40065-5.
    Near round-off, values that differ by less than their accuracy count as equal (W. Hager, H. Zhang, SIAM J. Optim.
    16:170 (2005), doi:10.1137/030601880).
    """
    s = search
    finite = jnp.isfinite(value) & jnp.isfinite(slope)
    slack = jnp.maximum(_ROUND_OFF * jnp.abs(s.value0), noise)
    too_high = ~finite | (value > s.value0 + _DECREASE * s.step * s.slope0 + slack)
    too_high |= (s.zooming | (s.trials > 0)) & (value >= s.low_value + slack)
    flat = jnp.abs(slope) <= -_CURVATURE * s.slope0
    at_limit = ~s.zooming & (s.step >= s.limit)
    accept = ~too_high & (flat | at_limit)

    # the trial becomes the far end of the bracket, or the new best with the bracket on the side where J falls
    turned = jnp.where(s.zooming, slope * (s.high - s.low) >= 0, slope >= 0)
    high = jnp.where(too_high, s.step, jnp.where(turned, s.low, s.high))
    high_value = jnp.where(too_high, jnp.where(finite, value, jnp.inf), jnp.where(turned, s.low_value, s.high_value))
    low = jnp.where(too_high, s.low, s.step)
    low_value = jnp.where(too_high, s.low_value, value)
    low_slope = jnp.where(too_high, s.low_slope, slope)
    zooming = s.zooming | too_high | turned

    longer = jnp.minimum(3 * s.step, s.limit)
    step = jnp.where(zooming, _interpolate(low, low_value, low_slope, high, high_value), longer)
    trials = s.trials + 1
    fail = ~accept & ((trials >= max_trials) | (jnp.abs(high - low) * zooming + (~zooming) < 1e-14 * s.step))
    new = _Search(step, s.value0, s.slope0, low, low_value, low_slope, high, high_value, zooming, trials, s.limit)
    return new, accept, fail, ~too_high


class _State(NamedTuple):
    point: Point
    direction: Array
    # the gradient at the best trial of the running line search
    low_gradient: Array
    search: _Search
    memory: PyTree
    convergence: Convergence
    first_norm: Array
    # line searches in a row that began with steepest descent and failed
    restarts: Array
    # J when it last fell by more than its round-off, and the steps and trials within round-off since then
    mark: Array
    unfallen: Array
    course: Course
    box: Box


class LBFGS(AbstractOptimizer):
    """The L-BFGS method: limited-memory quasi-Newton steps with a zoom line search for the strong Wolfe conditions.

    For fields and any number of unknowns, and for continuous adjoints. Not for a few scalars, for which
    `LevenbergMarquardt` needs far fewer evaluations.

    Components on a bound are held if descent leads beyond it, and a step ends at the first bound that it meets.

    In float32 the gradient is more accurate than J. So steps continue within the round-off of J. They end when J has
    not fallen by more than that in as many evaluations as there are gradients in memory. The fit has then converged
    only if such a decrease would move nothing by more than a tenth of its standard error.

    **Arguments:**

    - `memory`: the number of stored gradients; default 10.
    - `gradient_tolerance`: converged when the gradient has fallen by this factor; default 1e-10.
    - `value_tolerance`: converged when J falls by less than this fraction of itself in a step, or when no step along
      steepest descent improves it any more; default 1e-14.
    - `decrement`: converged when twice the remaining decrease of J, extrapolated from its history, is below this, in
      units of the variance of residuals, if they are not far below sigma; default 0.01. No combination of unknowns would
      move by more than a tenth of its standard error. 0 continues to the minimum itself.

    Source: D. Liu, J. Nocedal, Math. Program. 45:503 (1989), doi:10.1007/BF01589116.
    """

    tangents: ClassVar[bool] = False

    memory: Count = 10
    gradient_tolerance: NonNegative = 1e-10
    value_tolerance: NonNegative = 1e-14
    decrement: NonNegative = 0.01

    @property
    def _two_loop(self) -> optax.GradientTransformation:
        return optax.scale_by_lbfgs(memory_size=self.memory)

    def init(self, theta, box):
        zero, count, empty = jnp.zeros((), theta.dtype), jnp.zeros((), int), jnp.zeros_like(theta)
        search = _begin(zero, zero, zero, zero)
        memory = self._two_loop.init(theta)
        begun, course = Convergence.begin(theta), Course.begin(zero)
        return _State(Point.before(theta), empty, empty, search, memory, begun, zero, count, zero, count, course, box)

    def ask(self, state):
        return jnp.where(state.convergence.started, self._along(state, state.search.step), state.point.theta)

    @staticmethod
    def _along(state: _State, step: Array) -> Float[Array, " p"]:
        """The point after a step along the direction, within the bounds."""
        return state.box.clip(state.point.theta + step * state.direction)

    def tell(self, state, evaluation):
        before = state.point
        slope = jnp.vdot(evaluation.gradient, state.direction)
        noise = state.box.noise(before.value)
        search, accept, fail, better = _advance(state.search, evaluation.value, slope, noise)
        low_gradient = jnp.where(better, evaluation.gradient, state.low_gradient)
        # a failed search still ends at its best trial, if that is better than its start
        use_low = fail & (search.low_value < before.value)
        moved = accept | use_low
        first = ~state.convergence.started
        lowest = Point(self._along(state, search.low), search.low_value, low_gradient)
        trial = Point.at(self._along(state, state.search.step), evaluation)
        point = select(accept, trial, select(use_low, lowest, before))
        theta, value, gradient = select(first, Point.at(before.theta, evaluation), point)
        begin_anew = first | moved | fail
        stuck = fail & ~moved & ~first
        # a step that the box cut short is no evidence of a minimum
        whole = state.search.step < state.search.limit
        little = self.value_tolerance * jnp.abs(value)
        fell_little = accept & whole & ~first & (before.value - value <= little) & (noise <= little)
        # the gradient is better than J: the search goes on within its round-off for as many trials as it remembers
        fell = first | (state.mark - value > noise)
        hidden = moved | (-state.search.step * state.search.slope0 <= noise)
        unfallen = jnp.where(fell, 0, state.unfallen + hidden)
        blocked = state.box.blocked(theta, -gradient)
        changed = begin_anew & jnp.any(blocked != state.box.blocked(before.theta, -before.gradient))

        # the memory is dropped after a search without success, and when other elements are held than before
        memory0 = self._two_loop.init(theta)
        memory = select(stuck | first | changed, memory0, state.memory)
        descent, memory1 = self._two_loop.update(jnp.where(blocked, 0.0, gradient), memory, theta)
        memory = select(begin_anew, memory1, memory)
        direction = -jnp.asarray(descent)
        direction = jnp.where(state.box.blocked(theta, direction), 0.0, direction)
        downhill = jnp.vdot(direction, gradient) < 0
        steepest = jnp.where(state.box.blocked(theta, -gradient), 0.0, -gradient)
        direction = jnp.where(downhill, direction, steepest)
        fresh_start = first | stuck | changed | ~downhill
        new_search = _begin(
            jnp.where(fresh_start, _first_step(direction), 1.0),
            value,
            jnp.vdot(gradient, direction),
            _limit(state.box, theta, direction),
        )

        norm = jnp.max(jnp.abs(jnp.where(direction == 0, 0.0, gradient)), initial=0.0)
        first_norm = jnp.where(first, norm, state.first_norm)
        restarts = jnp.where(stuck, state.restarts + 1, jnp.where(moved, 0, state.restarts))
        course = state.course.after(value)
        still = course.left <= self.decrement * state.box.variance(value) / 2
        flat = begin_anew & (norm <= self.gradient_tolerance * first_norm)
        ended = fell_little | still | (restarts >= 2) | ((noise > 0) & (unfallen >= self.memory))
        # what only values of J tell is no minimum if their round-off may hide a fall that matters
        coarse = state.box.matters(state.box.noise(value), value, self.decrement)
        converged = state.convergence.converged | flat | (ended & ~coarse)
        new = _State(
            point=Point(theta, value, gradient),
            direction=jnp.where(begin_anew, direction, state.direction),
            low_gradient=jnp.where(begin_anew, gradient, low_gradient),
            search=select(begin_anew, new_search, search),
            memory=memory,
            convergence=state.convergence.after(evaluation.value, evaluation.finite, converged, ended & ~converged),
            first_norm=first_norm,
            restarts=restarts,
            mark=jnp.where(fell, value, state.mark),
            unfallen=unfallen,
            course=course,
            box=state.box,
        )
        return new, first | moved

    def remark(self, state):
        ended = state.box, state.point.value, state.course.left, self.value_tolerance, self.decrement
        return state.convergence.remark(*ended)


def _first_step(direction: Float[Array, " p"]) -> Array:
    """A first step that moves no element by more than 0.1 (theta is rescaled: one is large)."""
    largest = jnp.max(jnp.abs(direction), initial=0.0)
    return jnp.where(largest > 0, 0.1 / jnp.where(largest > 0, largest, 1.0), 1.0)


def _limit(box: Box, theta: Float[Array, " p"], direction: Float[Array, " p"]) -> Array:
    """The largest step along the direction that stays inside the box."""
    room = jnp.where(direction > 0, box.upper - theta, jnp.where(direction < 0, theta - box.lower, jnp.inf))
    return jnp.min(jnp.where(direction == 0, jnp.inf, room / jnp.abs(jnp.where(direction == 0, 1.0, direction))))
