"""A batch of members in progress: their optimizers advance together, each until it has finished."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pdefit._util.program import Program
from pdefit.integrate.loop.batch import AbstractBatch, on_one_device
from pdefit.inverse.fit.compiled_loop import Carry, advance_unlogged
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.recording_equations import ArrowEquations
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, straight

_compiled = partial(Program, size=lambda members, *_: members.stack.state_size)


def begun(members: Members, optimizer: AbstractOptimizer, theta: Float[Array, "B p"]) -> Carry:
    """State of the optimizer of every member before its first evaluation."""
    # bounds pass through the transforms of their controls, which is not traced
    return _begun(members, optimizer, theta, members.boxes)


@_compiled
def _begun(members: Members, optimizer: AbstractOptimizer, theta: Float[Array, "B p"], ends: tuple) -> Carry:
    def one(functional: Any, start: Array, lower: Array, upper: Array) -> Carry:
        values = (functional.count + functional.continuity_values).astype(jnp.float64)
        least = jnp.where(values > 0, values, jnp.inf)
        box = Box(lower, upper, jnp.zeros(()), least, functional.no_equations, straight(functional.controls))
        far = jnp.asarray(jnp.inf, jnp.float64)
        return Carry(optimizer.init(start, box), far, start, jnp.asarray(False))

    return members.each(one, theta, *ends)


def advanced(
    members: Members, optimizer: AbstractOptimizer, carry: Carry, limit: Int[np.ndarray, " B"], batch: AbstractBatch
) -> tuple[Int[np.ndarray, " B"], Carry]:
    """Number of evaluations of each member in this call, and its new state, on one device.

    **Arguments:**

    - `members`, `optimizer`, `carry`: the members, the optimizer and its state in the batch.
    - `limit`: the largest number of evaluations of each. 0 only compiles.
    - `batch`: the batch in which they run.
    """
    taken, carry = on_one_device(jax.block_until_ready(_advanced(members, optimizer, carry, limit, batch)))
    return np.asarray(taken), carry


@_compiled
def _advanced(
    members: Members, optimizer: AbstractOptimizer, carry: Carry, limit: Array | np.ndarray, batch: AbstractBatch
) -> tuple[Array, Carry]:
    def one(functional: Any, carry: Carry, limit: Array) -> tuple[Array, Carry]:
        return advance_unlogged(functional, optimizer, carry, limit)

    return members.each(one, carry, limit, batch=batch)


@_compiled
def values(members: Members, theta: Float[Array, "B p"], batch: AbstractBatch) -> tuple[Array]:
    """J of every member."""
    return (members.each(lambda functional, x: functional.value(x), theta, batch=batch),)


@_compiled
def equations(members: Members, theta: Float[Array, "B p"], batch: AbstractBatch) -> tuple[Array, Array, Array]:
    """J, its gradient and the Gauss-Newton matrix of every member."""

    def one(functional: Any, x: Array) -> tuple[Array, Array, Array]:
        value, gradient, matrix = functional.normal_equations(x)
        return value, gradient, matrix.dense() if isinstance(matrix, ArrowEquations) else matrix

    return members.each(one, theta, batch=batch)


@_compiled
def gradients(members: Members, theta: Float[Array, "B p"], batch: AbstractBatch) -> tuple[Array, Array, Array]:
    """J, its gradient and the growth of the adjoint of every member."""
    return members.each(lambda functional, x: functional.watched_gradient(x), theta, batch=batch)


@_compiled
def residuals(members: Members, theta: Float[Array, "E p"]) -> dict[str, Array]:
    """The weighted residuals of the data of every member, by variable."""
    return members.each(lambda functional, x: functional.trajectories(x, lambda r: r)[0], theta)


@_compiled
def observed(members: Members, theta: Float[Array, "B p"], batch: AbstractBatch) -> tuple[Array, ...]:
    """The weighted residuals of the data of every member, one array for each variable."""
    each = members.each(lambda functional, x: functional.residual_parts(x).observed, theta, batch=batch)
    return tuple(jax.tree.leaves(each))


@_compiled
def counts(members: Members, theta: Float[Array, "E p"]) -> tuple[Array, Array]:
    """The number of measured values of every member, and the part of J that its regularizers and priors make."""
    return members.each(lambda functional, x: (functional.count, functional.extra_value(x)), theta)


@_compiled
def step_errors(members: Members, theta: Float[Array, "B p"], batch: AbstractBatch) -> tuple[Array]:
    """Largest error of the adaptive steps of every member."""
    return (members.each(lambda functional, x: functional.step_error(x), theta, batch=batch),)


@Program
def chosen(new: Array | np.ndarray, fresh: Carry, old: Carry, places: Array | np.ndarray) -> Carry:
    """States of a batch: `fresh` ones if `new` is true, else the `old` ones at given places."""
    return jax.tree.map(lambda a, b: jnp.where(new.reshape(-1, *(1,) * (a.ndim - 1)), a, b[places]), fresh, old)
