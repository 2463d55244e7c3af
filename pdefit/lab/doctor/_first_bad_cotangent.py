"""Search backward in time for the first step with a non-finite cotangent."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.failing_operation import origin
from pdefit.inverse.objective.accumulate import Misfit
from pdefit.lab.doctor._first_bad_step import Forward, fields, in_words, segment_start, step_place
from pdefit.lab.doctor._stepped_trajectory import (
    BackwardRecord,
    SteppedTrajectory,
    Steps,
    block_starts,
    part,
    pulled_back,
    reverse_pass,
    steps_of,
)
from pdefit.lab.doctor.diagnosis import Diagnosis, Largest, diagnosis, finite, spot, term

_GUARD = (
    "guard the input of the branch that fails, not its result: pdefit.safe_sqrt, safe_div, safe_norm, or x = "
    "jnp.where(good, x, 1) before the operation"
)
# growth of cotangents beyond which the cause is the growth and not the operation that overflowed at last
_GREW = 1e6


@dataclasses.dataclass(frozen=True)
class Backward:
    """A finite gradient, and the largest cotangent of a state."""

    gradient: Float[Array, " p"]
    largest: Largest


def first_nonfinite_backward(
    run: SteppedTrajectory, theta: Float[Array, " p"], forward: Forward
) -> Diagnosis | Backward:
    """The first step of the reverse pass with a non-finite cotangent; or the gradient.

    **Arguments:**

    - `run`: the trajectory.
    - `theta` (p,): the point in search space.
    - `forward`: the forward run, with finite values only.
    """
    functional = run.functional
    extra, ends = jax.grad(Misfit(functional).close, argnums=(0, 1))(theta, forward.ends)
    if not finite((extra, ends)):
        return sick_extra(run, theta, forward.ends, backward=True)
    gradient, starts = jax.tree.map(jnp.zeros_like, run.params), []
    largest: Largest = Largest(-1.0, "", 0.0)
    for s in reversed(range(functional.layout.segments)):
        found = _through(run, s, jax.tree.map(lambda x, s=s: x[s], ends), gradient)
        if isinstance(found, Diagnosis):
            return found
        start, gradient, most = found
        starts.insert(0, start)
        largest = max(largest, most)

    def controls(theta: Array) -> PyTree:
        problem = functional.at(theta)
        return {c: x for c, x in SteppedTrajectory(functional, problem).params.items()}, functional.starts(problem)

    def pulled(theta: Array, cotangent: PyTree) -> Array:
        return jax.vjp(controls, theta)[1](cotangent)[0]

    cotangent = (gradient, jax.tree.map(lambda *x: jnp.stack(x), *starts))
    total = pulled(theta, cotangent) + extra
    if finite(total):
        return Backward(total, largest)
    i = int(np.argmin(np.isfinite(np.asarray(total))))
    name, found = functional.controls.names()[i], origin(pulled, theta, cotangent)
    remedy = "choose another transform or guess"
    finding = (
        f"States and their cotangents are finite, but the derivative in the control '{name}' is not: its map from theta "
        f"has none at {float(theta[i]):.4g}{term(found, backward=True)}"
    )
    return dataclasses.replace(diagnosis("controls", finding, remedy, origin=found), field=name)


def sick_extra(run: SteppedTrajectory, theta: Float[Array, " p"], ends: PyTree, backward: bool) -> Diagnosis:
    """Diagnosis of non-finite priors, regularizers and continuity residuals, or of their derivatives.

    **Arguments:**

    - `run`, `theta` (p,): the trajectory, and the point in search space.
    - `ends`: states at the ends of the segments, with a leading axis.
    - `backward`: whether derivatives are examined.
    """
    finish = Misfit(run.functional).close
    cause = origin(jax.grad(finish, argnums=(0, 1)) if backward else finish, theta, ends)
    remedy = "correct the prior or the regularizer, or choose another guess"
    what = (
        "The derivative of priors, regularizers and jumps" if backward else "The sum of priors, regularizers and jumps"
    )
    return diagnosis("extra", f"{what} (between segments) is not finite{term(cause, backward)}", remedy, origin=cause)


def _through(
    run: SteppedTrajectory, s: int, end: PyTree, gradient: PyTree
) -> Diagnosis | tuple[PyTree, PyTree, Largest]:
    """Cotangent at the start of one segment from the cotangent at its end, in blocks of about sqrt(N) steps."""
    steps = steps_of(run.functional, s, run.functional.layout.time_grid)
    count = int(steps.t.size)
    length = math.isqrt(count - 1) + 1
    added = -count % length
    blocks = jax.tree.map(lambda x: _blocks(x, length), _padded(steps, added))
    carries = block_starts(run, segment_start(run, s), blocks)
    like = jax.tree.map(lambda x: jnp.zeros_like(x[0]), eqx.filter(carries, eqx.is_inexact_array))
    cotangent = (jax.tree.map(lambda zero, x: zero + x, like[0], end), like[1])
    last = max((float(jnp.max(jnp.abs(x), initial=0.0)) for x in jax.tree.leaves(end)), default=0.0)
    largest: Largest = Largest(-1.0, "", 0.0)
    for b in reversed(range(blocks.t.shape[0])):
        carry, block = jax.tree.map(lambda x, b=b: x[b], (carries, blocks))
        before, more, record = reverse_pass(run, carry, block, cotangent, gradient, False)
        bad = ~(np.asarray(record.finite).all(axis=1) & np.asarray(record.params).all(axis=1))
        if bad.any():
            j = int(np.flatnonzero(bad)[-1])
            stored = jax.tree.map(lambda x, j=j: x[j], reverse_pass(run, carry, block, cotangent, gradient, True)[2])
            return _sick_cotangent(run, s, steps, max(b * length + j - added, 0), stored, last)
        cotangent, gradient = before, more
        size = np.asarray(record.size)
        n, f = np.unravel_index(int(np.argmax(size)), size.shape)
        t = float(block.t[n])
        largest = max(largest, Largest(float(size[n, f]), fields(run)[f], t))
    return cotangent[0], gradient, largest


def _padded(steps: Steps, more: int) -> Steps:
    """The steps, preceded by steps of zero length without an observation, so that all blocks have equal length.

    They do not follow the last step, because there they would evaluate the equations at a state at which no step of the
    trajectory does.
    """
    longer = jax.tree.map(lambda x: jnp.concatenate([jnp.zeros((more, *x.shape[1:]), x.dtype), x]), steps)
    return longer._replace(t=longer.t.at[:more].set(steps.t[0]))


def _blocks(x: Array, length: int) -> Array:
    return x.reshape(-1, length, *x.shape[1:])


def _sick_cotangent(
    run: SteppedTrajectory, s: int, steps: Steps, n: int, stored: BackwardRecord, first: float
) -> Diagnosis:
    """Diagnosis of the operation whose derivative makes the cotangents of one step non-finite."""
    step, (moving, still) = part(steps, n), eqx.partition(stored.carries, eqx.is_inexact_array)

    def pull(params: dict[str, Array], moving: PyTree, cotangent: PyTree) -> tuple[PyTree, PyTree]:
        return pulled_back(run, params, eqx.combine(moving, still), step, cotangent)

    more, before = pull(run.params, moving, stored.cotangents)
    of_state, of_params = spot(before[0], run.problem.system), spot(more)
    where = of_state or of_params
    cause, at = origin(pull, run.params, moving, stored.cotangents), step_place(run, s, steps, n)
    whose = "" if where is None else f" of {'' if of_state else 'the control '}{where.field}"
    becomes = "stops being finite" if where is None else f"becomes {where.value}{where.place}"
    size = max((float(jnp.max(jnp.abs(x))) for x in jax.tree.leaves(stored.cotangents)), default=0.0)
    remedy, grew = _GUARD, ""
    if size > _GREW * max(first, 1.0) and (cause is None or cause.operation in ("mul", "add_any", "dot_general")):
        grew = f", after cotangents had grown to {size:.1e}"
        remedy = "set dt smaller, or cut the record into segments (formulation=segments)"
    finding = (
        f"All values are finite, but on the way back the cotangent{whose} {becomes} at {in_words(run, at)}{grew}"
        f"{term(cause, backward=True)}"
    )
    return diagnosis("cotangent", finding, remedy, at, where, cause)
