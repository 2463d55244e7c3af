"""One trajectory step by step, forward and in reverse, for the doctor."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.solvers.method import Carry
from pdefit.inverse.controls.bind import BoundControl
from pdefit.inverse.objective.accumulate import half_square
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.problem import Problem


class Steps(NamedTuple):
    """Steps of a segment, each with or without an observation after it.

    Steps of zero length precede the first observation, and pad the time grid.

    **Arguments:**

    - `t`, `h` (N,): time and length of each step.
    - `observed` (N,): whether an observation follows.
    - `index` (N,): index of that observation in the record.
    - `counts`: for each variable, whether its residuals at that observation count.
    """

    t: Array
    h: Array
    observed: Array
    observation: Array
    counts: dict[str, Array]


class ForwardRecord(NamedTuple):
    """Record of N steps in the forward search.

    **Arguments:**

    - `finite`, `size`: for each of the F fields of the state, whether it is finite, and its largest absolute value.
    - `misfit`: half the sum of the squared residuals at the observation after the step.
    """

    finite: Bool[Array, "*N F"]
    size: Float[Array, "*N F"]
    misfit: Float[Array, "*N"]


class SteppedTrajectory(eqx.Module):
    """Trajectory of one segment, whose steps can be taken one at a time."""

    functional: Functional
    problem: Problem

    @property
    def _leaves(self) -> list[BoundControl]:
        items = self.functional.controls.items
        return [c for c in items if not c.is_state]

    @property
    def params(self) -> dict[str, Array]:
        """Controls that steps and observations depend on, by path: all but initial and node states."""
        return {c.path: c.where(self.problem) for c in self._leaves}

    def start(self, y0: PyTree, steps: Steps) -> Carry:
        dtype = jax.tree.leaves(y0)[0].dtype
        return self.functional.runner.stepper(self.problem).init(steps.t[0].astype(dtype), y0)

    def step_and_misfit(self, params: dict[str, Array], carry: Carry, step: Steps) -> tuple[Carry, Float[Array, ""]]:
        """A step, and half the sum of the squared residuals of the observation after it."""
        problem = self.filled(params)
        return (carry := self.stepped(problem, carry, step)), self.misfit(problem, carry[0], step)

    def filled(self, params: dict[str, Array]) -> Problem:
        """The problem with these controls."""
        # taken by name: JAX sorts the keys of dictionaries
        values = [params[c.path] for c in self._leaves]
        return eqx.tree_at(lambda p: [c.where(p) for c in self._leaves], self.problem, values)

    def stepped(self, problem: Problem, carry: Carry, step: Steps) -> Carry:
        dtype = jax.tree.leaves(carry[0])[0].dtype
        stepper = self.functional.runner.stepper(problem).timed(self.functional.time_grid)
        return stepper(step.t.astype(dtype), step.h.astype(dtype), carry)

    def misfit(self, problem: Problem, y: PyTree, step: Steps) -> Float[Array, ""]:
        def misfit(y: PyTree) -> Array:
            here = problem.instrument, y, problem.args, (step.observation, step.counts)
            return half_square(self.functional.schedule.residuals(*here))

        return lax.cond(step.observed, misfit, lambda y: jnp.zeros(()), y)


def steps_of(functional: Functional, segment: int, grid: TimeGrid) -> Steps:
    """Steps of one segment.

    **Arguments:**

    - `functional`, `segment`: the objective, and the index of the segment.
    - `grid`: the time grid of all segments.
    """
    one = jax.tree.map(lambda x: x[segment], grid)
    times, sizes = map(np.asarray, eqx.filter_jit(TimeGrid.times_and_sizes)(one))
    observed = np.zeros(times.shape, bool)
    observed[:, -1] = True
    schedule, start = functional.schedule, int(one.observes_start)

    def by_step(x: Array | np.ndarray) -> Array:
        rows = np.asarray(x[segment])
        repeats = np.full(len(rows), times.shape[1])
        # the observation at the start follows a single step of zero length
        repeats[:start] = 1
        return jax.device_put(np.repeat(rows, repeats, axis=0))

    return Steps(
        t=jax.device_put(np.append(times[0, :start], times)),
        h=jax.device_put(np.append(np.zeros(start), sizes)),
        observed=jax.device_put(np.append(np.ones(start, bool), observed)),
        observation=by_step(schedule.index),
        counts=jax.tree.map(by_step, schedule.counts),
    )


def part(steps: Steps, where: int | Array) -> Steps:
    """A selection of the steps, or one step."""
    return jax.tree.map(lambda x: x[where], steps)


@eqx.filter_jit
def survey(run: SteppedTrajectory, y0: PyTree, steps: Steps) -> tuple[PyTree, ForwardRecord]:
    """State at the end of a segment, and the record of every step."""

    def one(carry: Carry, step: Steps) -> tuple[Carry, ForwardRecord]:
        carry, misfit = run.step_and_misfit(run.params, carry, step)
        return carry, ForwardRecord(*_finite_and_size(carry[0]), misfit)

    carry, record = lax.scan(one, run.start(y0, steps), steps)
    return carry[0], record


@eqx.filter_jit
def carry_before(run: SteppedTrajectory, y0: PyTree, steps: Steps, n: Array) -> Carry:
    """State and solver state before step n."""

    def one(i: Array, carry: Carry) -> Carry:
        return run.stepped(run.problem, carry, part(steps, i))

    return lax.fori_loop(0, n, one, run.start(y0, steps))


@eqx.filter_jit
def block_starts(run: SteppedTrajectory, y0: PyTree, blocks: Steps) -> Carry:
    """States and solver states at the starts of B blocks of K steps."""

    def one(carry: Carry, step: Steps) -> tuple[Carry, None]:
        return run.stepped(run.problem, carry, step), None

    return lax.scan(lambda c, block: (lax.scan(one, c, block)[0], c), run.start(y0, part(blocks, 0)), blocks)[1]


def pulled_back(
    run: SteppedTrajectory, params: dict[str, Array], carry: Carry, step: Steps, cotangent: PyTree
) -> tuple[PyTree, PyTree]:
    """Cotangents of the controls and of the carry before a step, from the cotangent of the carry after it.

    The carry is the state with the solver's memory.

    **Arguments:**

    - `params`: controls by path.
    - `carry`, `step`: the carry before the step, and the step.
    - `cotangent`: the cotangent of the carry after the step.
    """
    moving, still = eqx.partition(carry, eqx.is_inexact_array)

    def one(params: dict[str, Array], moving: PyTree) -> tuple[PyTree, Array]:
        after, misfit = run.step_and_misfit(params, eqx.combine(moving, still), step)
        return eqx.filter(after, eqx.is_inexact_array), misfit

    _, pull = jax.vjp(one, params, moving)
    return pull((cotangent, jnp.ones(())))


class BackwardRecord(NamedTuple):
    """Record of K steps in the backward search.

    **Arguments:**

    - `finite`, `size`: for each field, whether the cotangent before the step is finite, and its largest absolute value.
    - `params`: whether the contribution of the step to the gradient is finite, for each control.
    - `carries`, `cotangents`: the carries before the steps and the cotangents after them; None unless requested.
    """

    finite: Bool[Array, "K F"]
    size: Float[Array, "K F"]
    params: Bool[Array, "K P"]
    carries: Carry | None
    cotangents: PyTree


@eqx.filter_jit
def reverse_pass(
    run: SteppedTrajectory, carry: Carry, steps: Steps, cotangent: PyTree, gradient: PyTree, keep: bool
) -> tuple[PyTree, PyTree, BackwardRecord]:
    """Reverse pass through a block of steps.

    **Arguments:**

    - `run`: the trajectory.
    - `carry`, `steps`: the carry before the block, and its steps.
    - `cotangent`, `gradient`: the cotangent of the carry after the block, and the gradient in the controls so far.
    - `keep`: whether to keep all carries and cotangents, which takes the memory of K states.

    Returns cotangent and gradient at the start of the block, and the record of the block.
    """
    params = run.params

    def forward(carry: Carry, step: Steps) -> tuple[Carry, Carry]:
        return run.stepped(run.problem, carry, step), carry

    def backward(so_far: tuple[PyTree, PyTree], x: tuple[Carry, Steps]) -> tuple[PyTree, PyTree]:
        cotangent, gradient = so_far
        more, before = pulled_back(run, params, *x, cotangent)
        added = [jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(more)]
        record = (*_finite_and_size(before[0]), jnp.stack([jnp.asarray(True), *added])[1:], cotangent if keep else None)
        return (before, jax.tree.map(jnp.add, gradient, more)), record

    _, carries = lax.scan(forward, carry, steps)
    (cotangent, gradient), record = lax.scan(backward, (cotangent, gradient), (carries, steps), reverse=True)
    finite, size, added, cotangents = record
    return cotangent, gradient, BackwardRecord(finite, size, added, carries if keep else None, cotangents)


def _finite_and_size(y: PyTree) -> tuple[Array, Array]:
    leaves = [x for x in jax.tree.leaves(y) if eqx.is_inexact_array(x)]
    finite = jnp.stack([jnp.all(jnp.isfinite(x)) for x in leaves])
    return finite, jnp.stack([jnp.max(jnp.abs(x), initial=0.0).astype(jnp.float64) for x in leaves])
