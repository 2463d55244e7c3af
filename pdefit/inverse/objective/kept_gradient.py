"""Program of gradients, with checkpoints in memory that outlives a call."""

import weakref
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from pdefit._util.program import Program
from pdefit._util.trees import is_traced
from pdefit.adjoints.base import RETURNED, Checkpointed
from pdefit.integrate.loop.checkpoint_levels import nest
from pdefit.integrate.loop.reverse_loop import fresh_buffers
from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.objective.abstract import AbstractObjective, objective_program
from pdefit.inverse.objective.record_residuals import AbstractRecord


class KeptGradient:
    """Program of J, its gradient and the growth of the adjoint, for optimizers and certificates.

    Large checkpoints are stored in buffers that outlive a call: the system would clear the pages of new buffers at each
    call, which can take longer than the reverse pass. A call takes the buffers of its objective out of the table `held`
    and donates them to the program. The program writes every state before it reads it, and returns the buffers, which go
    back into the table. So the table does not contain them during a call, or after a failed call, and a call without
    buffers makes new ones. Buffers are freed with their objective, before other buffers are made, and by clearing the
    table.
    """

    def __init__(self):
        self._once = objective_program(lambda objective, theta: objective.watched_gradient(theta))
        self._again = Program(_in_buffers, lambda at, _: at[0].state_size, "all-except-first")
        self.held: dict[int, PyTree] = {}
        self.lower = self._once.lower

    def __call__(self, objective: AbstractObjective, theta: Float[Array, " p"]) -> tuple[Array, Array, Array]:
        if is_traced((objective, theta)) or not keeps(objective):
            return self._once(objective, theta)
        if (buffers := self.held.pop(id(objective), None)) is None:
            self.held.clear()
            buffers = _fresh(objective)
            # later objects may have the same number
            weakref.finalize(objective, self.held.pop, id(objective), None)
        found, buffers = self._again((objective, theta), buffers)
        # what fails on the device is raised here
        self.held[id(objective)] = jax.block_until_ready(buffers)
        return found


def _in_buffers(at: tuple[Any, Array], buffers: PyTree) -> tuple[tuple[Array, ...], PyTree]:
    return at[0].gradient_in_buffers(at[1], buffers)


def keeps(objective: AbstractObjective) -> TypeGuard[AbstractRecord]:
    """True if checkpoints are worth keeping: large, and of one trajectory on one device."""
    if not isinstance(objective, AbstractRecord) or not isinstance(objective.runner.adjoint, Checkpointed):
        return False
    states, grid = jax.tree.leaves(objective.problem.y0), objective.layout.time_grid
    stored = objective.runner.adjoint.account(grid, objective.controls.size).stored * sum(x.nbytes for x in states)
    return stored >= RETURNED and objective.groups == 1 and len(jnp.asarray(states[0]).sharding.device_set) == 1


def _fresh(objective: AbstractRecord) -> list[PyTree]:
    """Buffers for the checkpoints of an objective; an empty list if they cannot be written in place."""
    y0, grid, adjoint = objective.problem.y0, objective.layout.time_grid, objective.runner.adjoint
    assert isinstance(adjoint, Checkpointed)
    carry = jax.eval_shape(objective.runner.stepper(objective.problem).init, jnp.zeros((), precision(y0)), y0)
    return fresh_buffers(carry, nest(grid.intervals, grid.length, adjoint.depth))
