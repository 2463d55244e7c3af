"""Limited-memory BFGS."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from pdefit.inverse.optimizers import _line_search as line_search
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, by_gradient


class _State(NamedTuple):
    theta: Array
    value: Array
    gradient: Array
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
        return _State(theta, zero, empty, empty, empty, search, memory, false, false, false, zero, count, box)

    def ask(self, state):
        trial = state.box.clip(state.theta + state.search.step * state.direction)
        return jnp.where(state.started, trial, state.theta)

    def tell(self, state, found):
        slope = jnp.vdot(found.gradient, state.direction)
        search, verdict = line_search.advance(state.search, found.value, slope)
        low_gradient = jnp.where(verdict.better, found.gradient, state.low_gradient)
        # a failed search still ends at its best trial, if that is better than its start
        use_low = verdict.fail & (search.low_value < state.value)
        moved = verdict.accept | use_low
        step = jnp.where(verdict.accept, state.search.step, search.low)
        theta = jnp.where(moved, state.box.clip(state.theta + step * state.direction), state.theta)
        value = jnp.where(verdict.accept, found.value, jnp.where(use_low, search.low_value, state.value))
        gradient = jnp.where(verdict.accept, found.gradient, jnp.where(use_low, low_gradient, state.gradient))

        first = ~state.started
        theta, value, gradient = (
            jnp.where(first, new, old)
            for new, old in ((state.theta, theta), (found.value, value), (found.gradient, gradient))
        )
        begin_anew = first | moved | verdict.fail
        stuck = verdict.fail & ~moved & ~first
        # a step that the box cut short is no evidence of a minimum
        whole = state.search.step < state.search.limit
        fell_little = verdict.accept & whole & (state.value - value <= self.value_tolerance * jnp.abs(value)) & ~first
        held = state.box.blocked(theta, -gradient)
        changed = begin_anew & jnp.any(held != state.box.blocked(state.theta, -state.gradient))

        # the memory is dropped after a search without success, and when other elements are held than before
        memory0 = self._two_loop.init(theta)
        memory = jax.tree.map(lambda fresh, old: jnp.where(stuck | first | changed, fresh, old), memory0, state.memory)
        descent, memory1 = self._two_loop.update(jnp.where(held, 0.0, gradient), memory, theta)
        memory = jax.tree.map(lambda new, old: jnp.where(begin_anew, new, old), memory1, memory)
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
            theta=theta,
            value=value,
            gradient=gradient,
            direction=jnp.where(begin_anew, direction, state.direction),
            low_gradient=jnp.where(begin_anew, gradient, low_gradient),
            search=jax.tree.map(lambda a, b: jnp.where(begin_anew, a, b), new_search, search),
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
