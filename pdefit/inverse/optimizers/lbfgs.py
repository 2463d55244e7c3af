"""Limited-memory BFGS."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from pdefit.inverse.optimizers import _line_search as line_search
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, Point, by_gradient, select


class _State(NamedTuple):
    point: Point
    direction: Array
    # the gradient at the best trial of the running line search
    low_gradient: Array
    search: line_search.Search
    memory: PyTree
    started: Array
    done: Array
    stuck: Array
    first_norm: Array
    # line searches in a row that began with steepest descent and failed
    restarts: Array
    box: Box


class LBFGS(AbstractOptimizer):
    """Limited-memory quasi-Newton steps with a zoom line search for the strong Wolfe conditions.

    For fields and any number of unknowns, and for continuous adjoints. Not for a few numbers, where
    `LevenbergMarquardt` needs far fewer evaluations.

    Components on a bound whose descent leads out of it are held, and a step ends where it meets a bound.

    **Arguments:**

    - `memory`: the number of gradients that are kept; default 10.
    - `gradient_tolerance`: converged when the gradient has fallen by this factor; default 1e-10.
    - `value_tolerance`: converged when J falls by less than this part of itself in a step, or when no step along
      steepest descent improves it any more; default 1e-14.

    Source: D. Liu, J. Nocedal, Math. Program. 45:503 (1989), doi:10.1007/BF01589116.
    """

    tangents: ClassVar[bool] = False

    memory: int = 10
    gradient_tolerance: float = 1e-10
    value_tolerance: float = 1e-14

    def evaluate(self, functional, state):
        return by_gradient(functional, self.ask(state))

    @property
    def _two_loop(self) -> optax.GradientTransformation:
        return optax.scale_by_lbfgs(memory_size=self.memory)

    def init(self, theta, box):
        zero, false = jnp.zeros((), theta.dtype), jnp.zeros((), bool)
        empty = jnp.zeros_like(theta)
        search = line_search.begin(zero, zero, zero, zero)
        memory = self._two_loop.init(theta)
        count = jnp.zeros((), int)
        return _State(Point.before(theta), empty, empty, search, memory, false, false, false, zero, count, box)

    def ask(self, state):
        return jnp.where(state.started, self._along(state, state.search.step), state.point.theta)

    @staticmethod
    def _along(state: _State, step: Array) -> Float[Array, " p"]:
        """The point after a step along the direction, within the bounds."""
        return state.box.clip(state.point.theta + step * state.direction)

    def tell(self, state, found):
        before = state.point
        slope = jnp.vdot(found.gradient, state.direction)
        search, verdict = line_search.advance(state.search, found.value, slope)
        low_gradient = jnp.where(verdict.better, found.gradient, state.low_gradient)
        # a failed search still ends at its best trial, if that is better than its start
        use_low = verdict.fail & (search.low_value < before.value)
        moved = verdict.accept | use_low
        first = ~state.started
        lowest = Point(self._along(state, search.low), search.low_value, low_gradient)
        trial = Point(self._along(state, state.search.step), found.value, found.gradient)
        point = select(verdict.accept, trial, select(use_low, lowest, before))
        theta, value, gradient = select(first, Point(before.theta, found.value, found.gradient), point)
        begin_anew = first | moved | verdict.fail
        stuck = verdict.fail & ~moved & ~first
        # a step that the box cut short is no evidence of a minimum
        whole = state.search.step < state.search.limit
        fell_little = verdict.accept & whole & (before.value - value <= self.value_tolerance * jnp.abs(value)) & ~first
        held = state.box.blocked(theta, -gradient)
        changed = begin_anew & jnp.any(held != state.box.blocked(before.theta, -before.gradient))

        # the memory is dropped after a search without success, and when other elements are held than before
        memory0 = self._two_loop.init(theta)
        memory = select(stuck | first | changed, memory0, state.memory)
        descent, memory1 = self._two_loop.update(jnp.where(held, 0.0, gradient), memory, theta)
        memory = select(begin_anew, memory1, memory)
        direction = -jnp.asarray(descent)
        direction = jnp.where(state.box.blocked(theta, direction), 0.0, direction)
        downhill = jnp.vdot(direction, gradient) < 0
        steepest = jnp.where(state.box.blocked(theta, -gradient), 0.0, -gradient)
        direction = jnp.where(downhill, direction, steepest)
        fresh_start = first | stuck | changed | ~downhill
        new_search = line_search.begin(
            jnp.where(fresh_start, _first_step(direction), 1.0),
            value,
            jnp.vdot(gradient, direction),
            _limit(state.box, theta, direction),
        )

        norm = jnp.max(jnp.abs(jnp.where(direction == 0, 0.0, gradient)), initial=0.0)
        first_norm = jnp.where(first, norm, state.first_norm)
        restarts = jnp.where(stuck, state.restarts + 1, jnp.where(moved, 0, state.restarts))
        flat = begin_anew & (norm <= self.gradient_tolerance * first_norm)
        new = _State(
            point=Point(theta, value, gradient),
            direction=jnp.where(begin_anew, direction, state.direction),
            low_gradient=jnp.where(begin_anew, gradient, low_gradient),
            search=select(begin_anew, new_search, search),
            memory=memory,
            started=jnp.ones((), bool),
            done=state.done | flat | fell_little | (restarts >= 2),
            stuck=first & ~found.finite,
            first_norm=first_norm,
            restarts=restarts,
            box=state.box,
        )
        return new, first | moved

    def converged(self, state):
        return state.done

    def finished(self, state):
        return jnp.logical_or(state.done, state.stuck)


def _first_step(direction: Float[Array, " p"]) -> Array:
    """A first step that moves no element by more than 0.1 (theta is rescaled: one is large)."""
    largest = jnp.max(jnp.abs(direction), initial=0.0)
    return jnp.where(largest > 0, 0.1 / jnp.where(largest > 0, largest, 1.0), 1.0)


def _limit(box: Box, theta: Float[Array, " p"], direction: Float[Array, " p"]) -> Array:
    """The largest step along the direction that stays inside the box."""
    room = jnp.where(direction > 0, box.upper - theta, jnp.where(direction < 0, theta - box.lower, jnp.inf))
    return jnp.min(jnp.where(direction == 0, jnp.inf, room / jnp.abs(jnp.where(direction == 0, 1.0, direction))))
