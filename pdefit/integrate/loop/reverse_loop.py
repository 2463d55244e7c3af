"""The time loop with a custom reverse pass: kept states lie in buffers that are written and read in place.

JAX differentiates nested scans too, but copies what inner scans keep into what outer ones keep. Here nothing is copied,
and every turn of an outer loop uses the same buffers. Such a loop cannot be differentiated forward. So it serves
only gradients; `pdefit.integrate.loop.time_loop` serves all other derivatives.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit.integrate.loop.checkpoint_levels import CheckpointLevels
from pdefit.integrate.loop.stepper import AbstractStepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import Emit, Probes, checkpoint, grouped, norm, precision, stepped, time_loop


def reverse_loop(
    stepper: AbstractStepper,
    y0: PyTree,
    grid: TimeGrid,
    emit: Emit,
    inputs: PyTree,
    probes: Probes,
    shape: CheckpointLevels,
    buffers: list[PyTree] | None = None,
) -> tuple[PyTree, PyTree]:
    """The final state, and what `emit` returns at every observation, stacked, for derivatives by reverse mode alone.

    **Arguments:** as in `pdefit.integrate.loop.time_loop.time_loop`, and

    - `buffers`: memory for checkpoints, as from `fresh_buffers` (the default). Every state is written before it is read.
      The cotangent of the buffers is no derivative: it is the buffers themselves, so that a program can return them for
      the next call.
    """
    times, sizes = grid.times_and_sizes()
    start, intervals = stepper.init(times[0, 0].astype(precision(y0)), y0), (math.prod(shape.intervals),)
    if not (buffers := buffers or fresh_buffers(start, shape)):
        return time_loop(stepper, y0, grid, emit, inputs, probes, shape, checkpoint)

    # as in nested scans, steps of zero length pad an interval, and intervals pad the last group
    def flat(x: Array, zeros: bool) -> Array:
        return jnp.ravel(grouped(grouped(x, (math.prod(shape.steps),), 1, zeros), intervals, 0, zeros))

    later = jax.tree.map(lambda x: grouped(jnp.asarray(x)[int(grid.observes_start) :], intervals, 0), inputs)
    step, of_steps = jax.closure_convert(
        lambda c, *t_h: stepped(stepper, c, t_h, grid.frozen), start, times[0, 0], sizes[0, 0]
    )
    observe, of_observations = jax.closure_convert(emit, start[0], _at(later, 0))
    given = _Given(of_steps, of_observations, flat(times, False), flat(sizes, True), later)

    def forward(given: _Given, start: PyTree, probes: Array, buffers: list) -> tuple[PyTree, PyTree]:
        end, outputs, kept = _Trajectory(step, observe, shape, given).forward(start, buffers[0])
        return (end, outputs), (given, [kept, *buffers[1:]], end, probes)

    def backward(residuals: PyTree, cotangent: PyTree) -> tuple[PyTree, PyTree, Array, list]:
        return _Trajectory(step, observe, shape, residuals[0]).backward(*residuals[1:], *cotangent)

    loop = jax.custom_vjp(lambda *arguments: forward(*arguments)[0])
    loop.defvjp(forward, backward)
    carry, outputs = loop(given, start, jnp.zeros((grid.intervals + 1, 2)) if probes is None else probes, buffers)
    outputs = jax.tree.map(lambda x: x[: grid.intervals], outputs)
    if grid.observes_start:
        outputs = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), emit(y0, _at(inputs, 0)), outputs)
    return carry[0], outputs


def fresh_buffers(like: PyTree, shape: CheckpointLevels) -> list[PyTree]:
    """Zeros for the carries that each loop keeps, outermost first; none if a solver counts, since counts have no adjoint.

    **Arguments:**

    - `like`: arrays with the shapes and types of a carry.
    - `shape`: how loops are nested.
    """
    outer, inner = shape.intervals, shape.steps
    counts = (*outer[:-1], outer[-1] * inner[0], *inner[1:]) if shape.merged else (*outer, *inner)
    differentiable = all(jnp.issubdtype(x.dtype, jnp.inexact) for x in jax.tree.leaves(like))
    return [_buffer(like, n) for n in counts if differentiable]


class _Given(NamedTuple):
    """Inputs of a trajectory: values that its functions depend on, and values of every step and observation.

    **Arguments:**

    - `steps`, `observations`: the values that a step and `emit` close over.
    - `times`, `sizes`: start and size of every step, (N,).
    - `inputs`: the inputs of each observation, on a leading axis.
    """

    steps: list[Array]
    observations: list[Array]
    times: Float[Array, " N"]
    sizes: Float[Array, " N"]
    inputs: PyTree


class _Adjoint(NamedTuple):
    """The adjoint on its way back.

    **Arguments:**

    - `carry`: derivatives by the carry.
    - `steps`, `observations`: derivatives with respect to the values closed over.
    - `norms`: as in `pdefit.integrate.loop.time_loop.growth`.
    """

    carry: PyTree
    steps: list[Array]
    observations: list[Array]
    norms: Float[Array, "E 2"]


class _Trajectory(NamedTuple):
    """The loops of one trajectory.

    **Arguments:**

    - `step`: the carry after a step from the carry, its time and size, and `given.steps`.
    - `observe`: a function of an observed state, its inputs, and `given.observations`, whose result is kept.
    - `shape`: how loops are nested.
    - `given`: as in `_Given`.
    """

    step: Callable
    observe: Callable
    shape: CheckpointLevels
    given: _Given

    @property
    def parts(self) -> int:
        """The number of states that the innermost loop over intervals keeps of each."""
        return self.shape.steps[0] if self.shape.merged else 1

    @property
    def inside(self) -> tuple[int, ...]:
        """The loops over the steps of one of these parts."""
        return self.shape.steps[1:] if self.shape.merged else self.shape.steps

    @property
    def length(self) -> int:
        """The number of steps of an interval."""
        return math.prod(self.shape.steps)

    def through(self, carry: PyTree, first: Array, steps: int) -> PyTree:
        """The carry after `steps` steps, starting with step `first`."""
        times, sizes = self.given.times, self.given.sizes
        return lax.fori_loop(
            0, steps, lambda k, c: self.step(c, times[first + k], sizes[first + k], *self.given.steps), carry
        )

    def checkpoints(
        self, buffer: PyTree, at: Array | int, carry: PyTree, first: Array, turns: int, size: int
    ) -> PyTree:
        """The carry before the last turn, and the buffer with the carries before each turn."""

        def turn(k: Array, before: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            return self.through(before[0], first + k * size, size), _put(before[1], at + k, before[0])

        carry, buffer = lax.fori_loop(0, turns - 1, turn, (carry, buffer))
        return carry, _put(buffer, at + turns - 1, carry)

    def forward(self, start: PyTree, kept: PyTree) -> tuple[PyTree, PyTree, PyTree]:
        """The end, the observations, and the buffer `kept` with the carries of the outermost loop."""
        outer, *loops = self.shape.intervals
        each, parts = math.prod(loops), 1 if loops else self.parts
        like = jax.eval_shape(lambda: self.observe(start[0], _at(self.given.inputs, 0), *self.given.observations))
        # of a group of intervals the carry before its first one is kept
        size = self.length // parts

        def interval(i: Array, before: tuple[PyTree, PyTree, PyTree]) -> tuple[PyTree, PyTree, PyTree]:
            carry, outputs, buffer = before
            if not loops:
                carry, buffer = self.checkpoints(buffer, i * parts, carry, i * self.length, parts, size)
            carry = self.through(carry, (i + 1) * self.length - size, size)
            seen = self.observe(carry[0], _at(self.given.inputs, i), *self.given.observations)
            return carry, _put(outputs, i, seen), buffer

        def group(m: Array, before: tuple[PyTree, PyTree, PyTree]) -> tuple[PyTree, PyTree, PyTree]:
            before = (*before[:2], _put(before[2], m, before[0])) if loops else before
            return lax.fori_loop(m * each, (m + 1) * each, interval, before)

        return lax.fori_loop(0, outer, group, (start, _buffer(like, outer * each), kept))

    def backward(
        self, buffers: list, end: PyTree, probes: Array, by_end: PyTree, by_outputs: PyTree
    ) -> tuple[PyTree, PyTree, Array, list]:
        """Derivatives by `given` and by the start, the norms of the adjoint in place of the probes', and the buffers."""
        intervals, last = self.shape.intervals, probes.shape[0] - 1
        norms = jnp.zeros((math.prod(intervals) + 1, 2)).at[last, 1].set(norm(by_end[0]))
        steps, observations = jax.tree.map(jnp.zeros_like, (self.given.steps, self.given.observations))
        (kept, *scratch), adjoint = buffers, _Adjoint(by_end, steps, observations, norms)
        zero = jnp.zeros((), int)
        found, scratch = self.intervals_back(intervals, kept, end, zero, by_outputs, adjoint, scratch)
        # times, sizes and inputs have no derivatives
        by_given = _Given(found.steps, found.observations, None, None, None)  # pyright: ignore
        return by_given, found.carry, found.norms[: last + 1], [kept, *scratch]

    def intervals_back(
        self,
        loops: Sequence[int],
        kept: PyTree,
        end: PyTree,
        first: Array,
        by_outputs: PyTree,
        adjoint: _Adjoint,
        scratch: list,
    ) -> tuple[_Adjoint, list]:
        """The adjoint before nested loops over intervals, and the buffers of inner loops for their next use.

        **Arguments:**

        - `loops`: the loops, outermost first.
        - `kept`: the carries that the outermost of them keeps.
        - `end`: the carry after them.
        - `first`: the number of their first interval.
        - `by_outputs`: derivatives by all observations.
        - `adjoint`: the adjoint after them.
        - `scratch`: the buffers of inner loops.
        """
        count, *inner = loops

        def turn(m: Array, before: tuple[_Adjoint, PyTree, list]) -> tuple[_Adjoint, PyTree, list]:
            adjoint, end, scratch = before
            k = count - 1 - m
            i = first + k * math.prod(inner)
            if inner:
                turns = inner[0] * (self.parts if len(inner) == 1 else 1)
                size = math.prod(inner) * self.length // turns
                start = _at(kept, k)
                own = self.checkpoints(scratch[0], 0, start, i * self.length, turns, size)[1]
                adjoint, below = self.intervals_back(inner, own, end, i, by_outputs, adjoint, scratch[1:])
                return adjoint, start, [own, *below]

            def part(n: Array, before: tuple[_Adjoint, list]) -> tuple[_Adjoint, list]:
                p, size = self.parts - 1 - n, self.length // self.parts
                return self.steps_back(self.inside, _at(kept, k * self.parts + p), i * self.length + p * size, *before)

            adjoint = self.observation_back(end, i, by_outputs, adjoint)
            adjoint, scratch = lax.fori_loop(0, self.parts, part, (adjoint, scratch))
            adjoint = adjoint._replace(norms=adjoint.norms.at[i, 0].set(norm(adjoint.carry)))
            return adjoint, _at(kept, k * self.parts), scratch

        adjoint, _, scratch = lax.fori_loop(0, count, turn, (adjoint, end, scratch))
        return adjoint, scratch

    def observation_back(self, carry: PyTree, i: Array, by_outputs: PyTree, adjoint: _Adjoint) -> _Adjoint:
        """The adjoint before observation i, which is of this carry."""
        inputs = _at(self.given.inputs, i)
        _, pull = jax.vjp(lambda y, given: self.observe(y, inputs, *given), carry[0], self.given.observations)
        by_state, by_given = pull(_at(by_outputs, i))
        return adjoint._replace(
            carry=(_sum(adjoint.carry[0], by_state), *adjoint.carry[1:]),
            observations=_sum(adjoint.observations, by_given),
            norms=adjoint.norms.at[i, 1].set(norm(by_state)),
        )

    def steps_back(
        self, loops: Sequence[int], start: PyTree, first: Array, adjoint: _Adjoint, scratch: list
    ) -> tuple[_Adjoint, list]:
        """The adjoint before nested loops over steps, of which `start` is the carry before and `first` the number."""
        if not loops:
            t_h = self.given.times[first], self.given.sizes[first]
            _, pull = jax.vjp(lambda carry, given: self.step(carry, *t_h, *given), start, self.given.steps)
            carry, by_given = pull(adjoint.carry)
            return adjoint._replace(carry=carry, steps=_sum(adjoint.steps, by_given)), scratch
        count, *inner = loops
        size = math.prod(inner)
        kept = self.checkpoints(scratch[0], 0, start, first, count, size)[1]

        def turn(m: Array, before: tuple[_Adjoint, list]) -> tuple[_Adjoint, list]:
            k = count - 1 - m
            return self.steps_back(inner, _at(kept, k), first + k * size, *before)

        adjoint, below = lax.fori_loop(0, count, turn, (adjoint, scratch[1:]))
        return adjoint, [kept, *below]


def _at(tree: PyTree, i: Array | int) -> PyTree:
    return jax.tree.map(lambda x: x[i], tree)


def _put(buffer: PyTree, i: Array | int, tree: PyTree) -> PyTree:
    return jax.tree.map(lambda b, x: lax.dynamic_update_index_in_dim(b, x, i, 0), buffer, tree)


def _buffer(like: PyTree, count: int) -> PyTree:
    return jax.tree.map(lambda x: jnp.zeros((count, *x.shape), x.dtype), like)


def _sum(a: PyTree, b: PyTree) -> PyTree:
    return jax.tree.map(jnp.add, a, b)
