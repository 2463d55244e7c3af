"""Chunks: many evaluations of an optimizer in one compiled loop, between two checks of the clock.

A chunk takes about a second, or 64 evaluations. Between chunks a fit reports, saves its state and can be interrupted.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit._util.program import Program
from pdefit._util.round_off import round_off
from pdefit.integrate.loop.batch import on_one_device
from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import value_of
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, Evaluation, straight

# evaluations of a chunk, at most
MOST = 64


class Carry(NamedTuple):
    state: PyTree
    best_value: Array
    best_theta: Array
    done: Array


class EvaluationLog(NamedTuple):
    # arrays of NumPy, or of JAX inside a program
    loss: Any
    gradient_norm: Any
    accepted: Any
    theta: Any
    growth: Any


def advance(
    functional: AbstractObjective, optimizer: AbstractOptimizer, carry: Carry, limit: Array
) -> tuple[Array, Carry, EvaluationLog]:
    """Run up to `limit` evaluations inside one compiled loop; returns their number, the carry and the log."""
    return _ADVANCE(functional, _with_arrays(optimizer), carry, limit)


def _advance(
    functional: AbstractObjective, optimizer: AbstractOptimizer, carry: Carry, limit: Array
) -> tuple[Array, Carry, EvaluationLog]:
    def running(loop: tuple[Array, Carry, EvaluationLog]) -> Array:
        return (loop[0] < limit) & ~loop[1].done

    def body(loop: tuple[Array, Carry, EvaluationLog]) -> tuple[Array, Carry, EvaluationLog]:
        i, carry, log = loop
        evaluation = optimizer.evaluate(functional, carry.state)
        return i + 1, *_logged(optimizer, carry, log, i, evaluation)

    return lax.while_loop(running, body, (jnp.zeros((), int), carry, jax.tree.map(jnp.asarray, empty_log(functional))))


_ADVANCE = Program(_advance, lambda functional, *_: functional.state_size)


def _with_arrays(optimizer: AbstractOptimizer) -> AbstractOptimizer:
    """The optimizer with its numbers as arrays, so that stages with other tolerances share a program."""

    def array(x: Any) -> Any:
        return jax.device_put(x) if isinstance(x, float) else x

    # the numbers of an objective that a stopping rule judges decide about its program
    return jax.tree.map(array, optimizer, is_leaf=lambda x: isinstance(x, AbstractObjective))


def empty_log(functional: AbstractObjective) -> EvaluationLog:
    """An empty log with room for the evaluations of a chunk."""
    many, p = np.zeros(MOST), functional.controls.tabulated.size
    return EvaluationLog(many, many, np.zeros(MOST, bool), np.zeros((MOST, p)), many)


def _next_carry(optimizer: AbstractOptimizer, carry: Carry, evaluation: Evaluation) -> tuple[Carry, Array]:
    """The carry after an optimizer has received the evaluation of its proposed point, and whether the point was accepted."""
    theta = optimizer.ask(carry.state)
    state, accepted = optimizer.tell(carry.state, evaluation)
    reached, value = optimizer.best(state, theta, evaluation.value)
    better = jnp.isfinite(value) & (value < carry.best_value)
    return Carry(
        state=state,
        best_value=jnp.where(better, value, carry.best_value),
        best_theta=jnp.where(better, reached, carry.best_theta),
        done=optimizer.finished(state),
    ), accepted


def _logged(
    optimizer: AbstractOptimizer, carry: Carry, log: EvaluationLog, i: Array, evaluation: Evaluation
) -> tuple[Carry, EvaluationLog]:
    """The carry and the log after an optimizer has received the evaluation of its proposed point."""
    theta = optimizer.ask(carry.state)
    carry, accepted = _next_carry(optimizer, carry, evaluation)
    log = EvaluationLog(
        loss=log.loss.at[i].set(evaluation.value),
        gradient_norm=log.gradient_norm.at[i].set(jnp.linalg.norm(evaluation.gradient)),
        accepted=log.accepted.at[i].set(accepted),
        theta=log.theta.at[i].set(theta[: log.theta.shape[1]]),
        growth=log.growth.at[i].set(evaluation.growth),
    )
    return carry, log


def advance_unlogged(
    functional: AbstractObjective, optimizer: AbstractOptimizer, carry: Carry, limit: Array
) -> tuple[Array, Carry]:
    """Run up to `limit` evaluations inside one loop, without a log, for programs of many fits."""

    def body(loop: tuple[Array, Carry]) -> tuple[Array, Carry]:
        return loop[0] + 1, _next_carry(optimizer, loop[1], optimizer.evaluate(functional, loop[1].state))[0]

    start = jnp.zeros((), int), carry
    return lax.while_loop(lambda loop: (loop[0] < limit) & ~loop[1].done, body, start)


_NEXT = Program(_next_carry)
_BEGIN = Program(lambda optimizer, theta, box: optimizer.init(theta, box))


def one_by_one(
    evaluated: Any, functional: AbstractObjective, optimizer: AbstractOptimizer, carry: Carry, limit: int
) -> tuple[int, Carry, EvaluationLog]:
    """Run up to `limit` evaluations one after the other by `evaluated`, with the log of each."""
    taken, log, numbered = 0, jax.tree.map(np.array, empty_log(functional)), _with_arrays(optimizer)
    while taken < limit and not bool(carry.done):
        evaluation, theta = optimizer.evaluate(evaluated, carry.state), optimizer.ask(carry.state)
        carry, accepted = _NEXT(numbered, carry, evaluation)
        row = evaluation.value, np.linalg.norm(evaluation.gradient), accepted, theta, evaluation.growth
        for column, x in zip(log, row, strict=True):
            column[taken] = np.asarray(x)[: column[taken].size] if column.ndim > 1 else x
        taken += 1
    return taken, carry, log


def power_of_two(rate: float) -> int:
    """Number of evaluations in about a second, rounded down to a power of two."""
    return 2 ** int(np.log2(min(max(rate, 1.0), MOST)))


def _round_off(functional: AbstractObjective, theta: Float[Array, " p"]) -> float:
    """Round-off of J over sqrt(2 J): in float64 about the round-off of a datum over sigma, in float32 as measured."""
    data, eps = on_one_device(functional.observations), jnp.finfo(jnp.float64).eps
    coarser = float(jnp.finfo(precision(functional.problem.y0)).eps / eps)
    if coarser <= 1:
        squares = (np.square(np.asarray(v) / np.asarray(data.sigma[n])) for n, v in data.values.items())
        kept = [np.asarray(x)[np.asarray(data.mask[n])] for n, x in zip(data.values, squares, strict=True)]
        return float(eps * np.sqrt(np.mean(np.concatenate([np.zeros(1), *map(np.ravel, kept)]))))
    value = float(value_of(functional, theta))
    if not (np.isfinite(value) and value > 0):
        return 0.0
    noise = round_off(lambda x: value_of(functional, x), theta, functional.controls.sizes(theta), 1e-13 * coarser)
    return noise / np.sqrt(2 * value) if np.isfinite(noise) else 0.0


def first_carry(functional: AbstractObjective, optimizer: AbstractOptimizer, theta: Float[Array, " p"]) -> Carry:
    """The carry with the state of an optimizer before its first evaluation."""
    values = np.asarray(functional.observed_values + functional.continuity_values or np.inf, float)
    each = functional.no_equations if optimizer.tangents else None
    noise = np.asarray(_round_off(functional, jnp.asarray(theta)))
    box = Box(*functional.controls.bounds, noise, values, each, straight(functional.controls))
    state = _BEGIN(_with_arrays(optimizer), jnp.asarray(theta), box)
    # explicit dtype: a weakly typed infinity would compile the loop a second time
    return Carry(state, jax.device_put(np.asarray(np.inf)), jnp.asarray(theta), jax.device_put(np.asarray(False)))
