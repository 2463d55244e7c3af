"""Search forward in time for the first step or observation that is not finite."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, with_space
from pdefit._util.trees import named_fields
from pdefit.analysis.debug._origin import origin
from pdefit.analysis.debug._walk import Seen, SteppedTrajectory, Steps, beats_of, carry_before, part, survey
from pdefit.analysis.debug.diagnosis import Diagnosis, Largest, Place, diagnosis, spot, term
from pdefit.integrate.loop.stable_step import stability_limit
from pdefit.integrate.solvers.method import Carry

# growth of values beyond which the cause is the growth and not the operation that overflowed at last
_GREW = 1e6
# operations that are not finite, or whose derivative is not, at some moderate input
_GUARDED = ("div", "log", "log1p", "sqrt", "rsqrt", "pow", "integer_pow", "acos", "asin", "atanh")


@dataclasses.dataclass(frozen=True)
class Forward:
    """Forward run whose every value is finite.

    **Arguments:**

    - `ends`: states at the ends of the S segments, with a leading axis.
    - `half_square`: half the sum of all squared weighted residuals.
    - `largest`: the largest value of a state.
    """

    ends: PyTree
    half_square: float
    largest: Largest


def segment_start(walk: SteppedTrajectory, segment: int) -> PyTree:
    """State at the start of a segment."""
    return jax.tree.map(lambda x: x[segment], walk.functional.starts(walk.problem))


def place(walk: SteppedTrajectory, segment: int, beats: Steps, n: int) -> Place:
    """Time and number of step `n` of a segment, for a diagnosis."""
    steps = np.cumsum(np.asarray(beats.h) > 0)
    return Place(
        segment=segment + 1,
        segments=walk.functional.layout.segments,
        time=float(beats.t[n] + beats.h[n]),
        step=int(steps[n]),
        steps=int(steps[-1]),
    )


def in_words(walk: SteppedTrajectory, at: Place) -> str:
    """Place on a trajectory, as the middle of a sentence."""
    segment = f", segment {at.segment} of {at.segments}" if (at.segments or 1) > 1 else ""
    unit = with_space(walk.problem.system.time_unit)
    return f"t = {at.time:.6g}{unit} (step {at.step} of {at.steps}{segment})"


def first_nonfinite_forward(walk: SteppedTrajectory) -> Diagnosis | Forward:
    """The earliest time in all segments at which a state or a residual is not finite; or the finite run."""
    grid, functional = walk.functional.layout.time_grid, walk.functional
    sick, ends, total = [], [], 0.0
    largest = Largest(-1.0, "", 0.0)
    for s in range(functional.layout.segments):
        beats = beats_of(functional, s, grid)
        end, seen = survey(walk, segment_start(walk, s), beats)
        bad = _bad(seen)
        if bad.any():
            n = int(np.argmax(bad))
            sick.append((float(beats.t[n] + beats.h[n]), s, n, beats, seen))
            continue
        ends.append(end)
        total += float(jnp.sum(seen.misfit))
        largest = max(largest, _largest(walk, beats, seen))
    if not sick:
        return Forward(jax.tree.map(lambda *x: jnp.stack(x), *ends), total, largest)
    _, s, n, beats, seen = min(sick, key=lambda x: x[0])
    more = f" ({len(sick)} segments are not finite)" if len(sick) > 1 else ""
    carry = carry_before(walk, segment_start(walk, s), beats, jnp.asarray(n))
    if bool(jnp.all(seen.finite[n])):
        return _sick_look(walk, s, beats, n, carry, more)
    return _sick_step(walk, s, beats, n, carry, seen, more)


def _bad(seen: Seen) -> np.ndarray:
    return ~(np.asarray(seen.finite).all(axis=1) & np.isfinite(np.asarray(seen.misfit)))


def _largest(walk: SteppedTrajectory, beats: Steps, seen: Seen) -> Largest:
    size = np.asarray(seen.size)
    n, f = np.unravel_index(int(np.argmax(size)), size.shape)
    return Largest(float(size[n, f]), fields(walk)[f], float(beats.t[n] + beats.h[n]))


def fields(walk: SteppedTrajectory) -> list[str]:
    """Names of the fields that the columns of `Seen` stand for."""
    return [n for n, x in named_fields(walk.problem.y0).items() if eqx.is_inexact_array(x)]


# --- a step ------------------------------------------------------------------------------------------------------------


def _sick_step(walk: SteppedTrajectory, s: int, beats: Steps, n: int, carry: Carry, seen: Seen, more: str) -> Diagnosis:
    moving, still = eqx.partition(carry, eqx.is_inexact_array)

    def step(params: dict[str, Array], moving: PyTree) -> PyTree:
        return walk.stepped(walk.filled(params), eqx.combine(moving, still), part(beats, n))[0]

    found = origin(step, walk.params, moving)
    # the step may be finite here: compiled code can overflow where the same operations one by one do not
    at, where = place(walk, s, beats, n), spot(step(walk.params, moving), walk.problem.system)
    named = fields(walk)[int(np.argmin(np.asarray(seen.finite[n])))] if where is None else where.field
    becomes = "stops being finite" if where is None else f"becomes {where.value}{where.place}"
    grew = _grew(walk, seen, n)
    remedy = _step_remedy(walk, s, None if grew or found is None else found.operation)
    finding = f"At {in_words(walk, at)} {named} {becomes}{grew}{term(found)}"
    return diagnosis("state", finding, remedy, at, where, found, more)


def _grew(walk: SteppedTrajectory, seen: Seen, n: int) -> str:
    """Growth of the field that fails in the steps before, in words; empty if there was none."""
    f = int(np.argmin(np.asarray(seen.finite[n])))
    size = np.asarray(seen.size)[:n, f]
    if not size.size or not size[-1] > _GREW * size[0] > 0:
        return ""
    steps = int(np.sum(np.cumsum((size <= 10 * size[0])[::-1]) == 0))
    return f", after |{fields(walk)[f]}| had grown from {size[0]:.3g} to {size[-1]:.3g} in {steps} steps"


def _step_remedy(walk: SteppedTrajectory, s: int, operation: str | None) -> str:
    """Remedy for a step that is not finite.

    **Arguments:**

    - `walk`, `s`: the trajectory, and the number of its segment.
    - `operation`: the operation that fails; None where values had grown before.
    """
    functional, unit = walk.functional, with_space(walk.problem.system.time_unit)
    halved = beats_of(functional, s, functional.layout.time_grid.halved())
    helps = not _bad(survey(walk, segment_start(walk, s), halved)[1]).any()
    if helps and functional.steps is not None:
        return "half of every step stays finite, so set steps.rtol and steps.atol smaller"
    if helps:
        limit = _limit(walk, s)
        stable = f" (the stability limit at the start is {limit:.3g}{unit})" if limit is not None else ""
        return f"half the step stays finite{stable}, so set dt={functional.dt / 2:.2g} or less"
    if operation in _GUARDED:
        return (
            "half the step does not help, so guard the input of that operation (pdefit.safe_div, safe_sqrt, safe_norm)"
        )
    other = "start from a better guess or from shorter segments (formulation=segments)"
    return f"half the step does not help, so {other}{', or bound what it is given' if operation else ''}"


def _limit(walk: SteppedTrajectory, s: int) -> float | None:
    try:
        return stability_limit(walk.problem.system, segment_start(walk, s), walk.functional.runner.solver)
    except PdefitError:
        return None


# --- an observation ---------------------------------------------------------------------------------------------------


def _sick_look(walk: SteppedTrajectory, s: int, beats: Steps, n: int, carry: Carry, more: str) -> Diagnosis:
    functional, beat, y = walk.functional, part(beats, n), carry[0]
    y = walk.stepped(walk.problem, carry, beat)[0]

    def residuals(params: dict[str, Array], y: PyTree) -> PyTree:
        problem = walk.filled(params)
        return functional.schedule.residuals(problem.observe, y, problem.args, (beat.observation, beat.counts))

    at, where = place(walk, s, beats, n), spot(residuals(walk.params, y))
    if where is None:
        found = origin(lambda params, y: walk.looked(walk.filled(params), y, beat), walk.params, y)
        remedy = "check the units of data and sigma, or start from a better guess"
        finding = f"At {in_words(walk, at)} the squared residuals overflow{term(found)}"
        return diagnosis("overflow", finding, remedy, at, None, found, more)
    found = origin(residuals, walk.params, y)
    remedy = "guard the input of that operation in the observation operator (pdefit.safe_div, safe_sqrt, safe_norm)"
    finding = (
        f"At {in_words(walk, at)} the state is finite, but the observed '{where.field}' is {where.value}{where.place}"
        f"{term(found)}"
    )
    return diagnosis("observation", finding, remedy, at, where, found, more)
