"""One trajectory step by step, forward and back: what the doctor looks at."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.objective.accumulate import half_square
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.problem import Problem


class Steps(NamedTuple):
    """Steps (of zero length before the first observation, and where a plan pads), each with a look after it or without:
    time, size, whether and which observation is looked at, and which variables count."""

    t: Array
    h: Array
    seen: Array
    index: Array
    counts: dict[str, Array]


class Seen(NamedTuple):
    """Of every beat: whether each field (F) of the state is finite and its largest absolute value; half the squared
    residuals of its look."""

    finite: Bool[Array, "*N F"]
    size: Float[Array, "*N F"]
    misfit: Float[Array, "*N"]


class SteppedTrajectory(eqx.Module):
    """The trajectory of one segment; `params` are the controls that its steps and looks depend on."""

    functional: Functional
    problem: Problem

    @property
    def _leaves(self) -> list[Any]:
        items = self.functional.controls.items
        return [c for c in items if not c.is_state]

    @property
    def params(self) -> dict[str, Array]:
        return {c.path: c.where(self.problem) for c in self._leaves}

    def start(self, y0: PyTree, beats: Steps) -> Any:
        dtype = jax.tree.leaves(y0)[0].dtype
        return self._stepper(self.problem).init(beats.t[0].astype(dtype), y0)

    def _stepper(self, problem: Problem) -> Stepper:
        return Stepper(problem.system, self.functional.runner.solver, problem.args)

    def beat(self, params: dict[str, Array], carry: Any, beat: Steps) -> tuple[Any, Float[Array, ""]]:
        """A step, and half the squared residuals of the look after it."""
        problem = self.filled(params)
        return (carry := self.stepped(problem, carry, beat)), self.looked(problem, carry[0], beat)

    def filled(self, params: dict[str, Array]) -> Problem:
        """The problem with these controls."""
        # trees sort the keys of dictionaries
        values = [params[c.path] for c in self._leaves]
        return eqx.tree_at(lambda p: [c.where(p) for c in self._leaves], self.problem, values)

    def stepped(self, problem: Problem, carry: Any, beat: Steps) -> Any:
        dtype = jax.tree.leaves(carry[0])[0].dtype
        return self._stepper(problem)(beat.t.astype(dtype), beat.h.astype(dtype), carry)

    def looked(self, problem: Problem, y: PyTree, beat: Steps) -> Float[Array, ""]:
        def misfit(y: PyTree) -> Array:
            schedule = self.functional.schedule
            return half_square(schedule.residuals(problem.observe, y, (beat.index, beat.counts)))

        return lax.cond(beat.seen, misfit, lambda y: jnp.zeros(()), y)


def beats_of(functional: Functional, segment: int, grid: TimeGrid) -> Steps:
    """The beats of one segment, with these steps."""
    one = jax.tree.map(lambda x: x[segment], grid)
    times, sizes = map(np.asarray, one.times_and_sizes())
    seen = np.zeros(times.shape, bool)
    seen[:, -1] = True
    looks = functional.schedule
    index = np.repeat(np.asarray(looks.index[segment])[one.observes_start :], times.shape[1])
    counts = {
        n: np.repeat(np.asarray(r[segment])[one.observes_start :], times.shape[1], axis=0)
        for n, r in looks.counts.items()
    }
    parts = [times.ravel(), sizes.ravel(), seen.ravel(), index, counts]
    first: list[Any] = [times[0, :1], np.zeros(1), np.ones(1, bool), np.asarray(looks.index[segment])[:1]]
    first.append({n: np.asarray(r[segment])[:1] for n, r in looks.counts.items()})
    if one.observes_start:
        parts = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, parts)
    return Steps(*jax.tree.map(jnp.asarray, parts))


def part(beats: Steps, where: Any) -> Steps:
    """Some of the beats, or one."""
    return jax.tree.map(lambda x: x[where], beats)


@eqx.filter_jit
def survey(walk: SteppedTrajectory, y0: PyTree, beats: Steps) -> tuple[PyTree, Seen]:
    """The state at the end, and what was seen on the way."""

    def one(carry: Any, beat: Steps) -> tuple[Any, Seen]:
        carry, misfit = walk.beat(walk.params, carry, beat)
        return carry, Seen(*_looked_at(carry[0]), misfit)

    carry, seen = lax.scan(one, walk.start(y0, beats), beats)
    return carry[0], seen


@eqx.filter_jit
def carry_before(walk: SteppedTrajectory, y0: PyTree, beats: Steps, n: Array) -> Any:
    """The carry before beat n."""

    def one(i: Array, carry: Any) -> Any:
        return walk.stepped(walk.problem, carry, part(beats, i))

    return lax.fori_loop(0, n, one, walk.start(y0, beats))


@eqx.filter_jit
def block_starts(walk: SteppedTrajectory, y0: PyTree, blocks: Steps) -> Any:
    """The carries at the starts of blocks of beats (B, K)."""

    def one(carry: Any, beat: Steps) -> tuple[Any, None]:
        return walk.stepped(walk.problem, carry, beat), None

    return lax.scan(lambda c, block: (lax.scan(one, c, block)[0], c), walk.start(y0, part(blocks, 0)), blocks)[1]


def pulled_back(
    walk: SteppedTrajectory, params: dict[str, Array], carry: Any, beat: Steps, cotangent: Any
) -> tuple[Any, Any]:
    """The cotangents of params and of the carry before a beat, from that of the carry after it."""
    moving, still = eqx.partition(carry, eqx.is_inexact_array)

    def one(params: dict[str, Array], moving: Any) -> tuple[Any, Array]:
        after, misfit = walk.beat(params, eqx.combine(moving, still), beat)
        return eqx.filter(after, eqx.is_inexact_array), misfit

    _, pull = jax.vjp(one, params, moving)
    return pull((cotangent, jnp.ones(())))


class Back(NamedTuple):
    """Of every beat: the same of the cotangent before it, and whether what it adds to each parameter is finite."""

    finite: Bool[Array, "K F"]
    size: Float[Array, "K F"]
    params: Bool[Array, "K P"]
    # the carries and the cotangents after the beats, if they were asked for
    carries: Any
    cotangents: Any


@eqx.filter_jit
def back(
    walk: SteppedTrajectory, carry: Any, beats: Steps, cotangent: Any, gradient: Any, keep: bool
) -> tuple[Any, Any, Back]:
    """A block from its end to its start: cotangent, gradient in params so far, and what was seen."""
    params = walk.params

    def forward(carry: Any, beat: Steps) -> tuple[Any, Any]:
        return walk.stepped(walk.problem, carry, beat), carry

    def backward(so_far: tuple[Any, Any], x: tuple[Any, Steps]) -> tuple[Any, Any]:
        cotangent, gradient = so_far
        more, before = pulled_back(walk, params, *x, cotangent)
        added = [jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(more)]
        seen = (*_looked_at(before[0]), jnp.stack([jnp.asarray(True), *added])[1:], cotangent if keep else None)
        return (before, jax.tree.map(jnp.add, gradient, more)), seen

    _, carries = lax.scan(forward, carry, beats)
    (cotangent, gradient), seen = lax.scan(backward, (cotangent, gradient), (carries, beats), reverse=True)
    finite, size, added, cotangents = seen
    return cotangent, gradient, Back(finite, size, added, carries if keep else None, cotangents)


def _looked_at(y: PyTree) -> tuple[Array, Array]:
    leaves = [x for x in jax.tree.leaves(y) if eqx.is_inexact_array(x)]
    finite = jnp.stack([jnp.all(jnp.isfinite(x)) for x in leaves])
    return finite, jnp.stack([jnp.max(jnp.abs(x), initial=0.0).astype(jnp.float64) for x in leaves])
