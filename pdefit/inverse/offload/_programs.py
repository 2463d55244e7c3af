"""Compiled programs of a hosted run.

Each runs one piece of the trajectory: forward, in reverse, or with tangents.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from pdefit.inverse.objective.accumulate import AbstractAccumulation
from pdefit.inverse.objective.trajectory_runner import ObservationSchedule


@eqx.filter_jit
def start(accumulation: AbstractAccumulation, x: Array, first: ObservationSchedule | None) -> tuple[PyTree, Array]:
    """State before the first piece, and the contribution of its observation."""
    state = accumulation.start(x)
    if first is None:
        return state, jnp.zeros(())
    return accumulation.advance(x, state, first, None)


@eqx.filter_jit
def advance(
    accumulation: AbstractAccumulation, x: Array, state: PyTree, schedule: ObservationSchedule
) -> tuple[PyTree, Array]:
    return accumulation.advance(x, state, schedule, None)


@eqx.filter_jit
def reverse(
    accumulation: AbstractAccumulation,
    x: Array,
    state: PyTree,
    schedule: ObservationSchedule,
    cotangent: PyTree,
    gradient: Array,
) -> tuple[PyTree, Array, Array]:
    """One piece forward and in reverse: the cotangent at its start, the gradient so far, and norms of the adjoint."""
    probes = jnp.zeros((*schedule.index.shape[:1], schedule.index.shape[1] + 1, 2))
    _, pull = jax.vjp(lambda x, state, probes: accumulation.advance(x, state, schedule, probes), x, state, probes)
    more, cotangent, norms = pull((cotangent, jnp.ones(())))
    return cotangent, gradient + more, norms


@eqx.filter_jit
def reverse_start(
    accumulation: AbstractAccumulation, x: Array, first: ObservationSchedule | None, cotangent: PyTree, gradient: Array
) -> Array:
    _, pull = jax.vjp(lambda x: start(accumulation, x, first), x)
    return gradient + pull((cotangent, jnp.ones(())))[0]


@eqx.filter_jit
def close(accumulation: AbstractAccumulation, x: Array, state: PyTree) -> tuple[Array, tuple[Array, PyTree]]:
    """The contribution at the end, with its derivatives in x and in the state."""
    return jax.value_and_grad(accumulation.close, argnums=(0, 1))(x, state)


# the state and all tangents before the first piece; after a piece, with its normal equations added; and J, its gradient and
# the Gauss-Newton matrix
begin_tangents: Callable = eqx.filter_jit(lambda tangents: tangents.start())
advance_tangents: Callable = eqx.filter_jit(lambda tangents, state, schedule: tangents.advance(state, schedule))
end_tangents: Callable = eqx.filter_jit(lambda tangents, state: tangents.close(state).total())
