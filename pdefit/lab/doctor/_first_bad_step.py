"""Search forward in time for the first non-finite step or observation."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, with_space
from pdefit._util.failing_operation import origin
from pdefit._util.trees import named_fields
from pdefit.integrate.loop.stable_step import stability_limit
from pdefit.integrate.solvers.method import Carry
from pdefit.lab.doctor._stepped_trajectory import (
    ForwardRecord,
    SteppedTrajectory,
    Steps,
    carry_before,
    part,
    steps_of,
    survey,
)
from pdefit.lab.doctor.diagnosis import Diagnosis, Largest, StepPlace, diagnosis, spot, term

# growth of values beyond which the cause is the growth and not the operation that overflowed at last
_GREW = 1e6
# operations that are not finite, or whose derivative is not, at some moderate input
_GUARDED = ("div", "log", "log1p", "sqrt", "rsqrt", "pow", "integer_pow", "acos", "asin", "atanh")


@dataclasses.dataclass(frozen=True)
class Forward:
    """A forward run with finite values only.

    **Arguments:**

    - `ends`: states at the ends of the S segments, with a leading axis.
    - `half_square`: half the sum of all squared weighted residuals.
    - `largest`: the largest value of a state.
    """

    ends: PyTree
    half_square: float
    largest: Largest


def segment_start(run: SteppedTrajectory, segment: int) -> PyTree:
    """State at the start of a segment."""
    return jax.tree.map(lambda x: x[segment], run.functional.starts(run.problem))


def step_place(run: SteppedTrajectory, segment: int, steps: Steps, n: int) -> StepPlace:
    """Time and number of step `n` of a segment, for a diagnosis."""
    numbers = np.cumsum(np.asarray(steps.h) > 0)
    return StepPlace(
        segment=segment + 1,
        segments=run.functional.layout.segments,
        time=float(steps.t[n] + steps.h[n]),
        step=int(numbers[n]),
        steps=int(numbers[-1]),
    )


def in_words(run: SteppedTrajectory, at: StepPlace) -> str:
    """A place on a trajectory, as the middle of a sentence."""
    segment = f", segment {at.segment} of {at.segments}" if (at.segments or 1) > 1 else ""
    unit = with_space(run.problem.system.time_unit)
    return f"t = {at.time:.6g}{unit} (step {at.step} of {at.steps}{segment})"


def first_nonfinite_forward(run: SteppedTrajectory) -> Diagnosis | Forward:
    """Diagnosis of the earliest non-finite state or residual in all segments; or the finite run."""
    grid, functional = run.functional.layout.time_grid, run.functional
    sick, ends, total = [], [], 0.0
    largest = Largest(-1.0, "", 0.0)
    for s in range(functional.layout.segments):
        steps = steps_of(functional, s, grid)
        end, record = survey(run, segment_start(run, s), steps)
        bad = _bad(record)
        if bad.any():
            n = int(np.argmax(bad))
            sick.append((float(steps.t[n] + steps.h[n]), s, n, steps, record))
            continue
        ends.append(end)
        total += float(jnp.sum(record.misfit))
        largest = max(largest, _largest(run, steps, record))
    if not sick:
        return Forward(jax.tree.map(lambda *x: jnp.stack(x), *ends), total, largest)
    _, s, n, steps, record = min(sick, key=lambda x: x[0])
    more = f" ({len(sick)} segments are not finite)" if len(sick) > 1 else ""
    carry = carry_before(run, segment_start(run, s), steps, jnp.asarray(n))
    if bool(jnp.all(record.finite[n])):
        found = _sick_look(run, s, steps, n, carry)
    else:
        found = _sick_step(run, s, steps, n, carry, record)
    return dataclasses.replace(found, sentence=f"{found.sentence.removesuffix('.')}{more}.")


def _bad(record: ForwardRecord) -> np.ndarray:
    return ~(np.asarray(record.finite).all(axis=1) & np.isfinite(np.asarray(record.misfit)))


def _largest(run: SteppedTrajectory, steps: Steps, record: ForwardRecord) -> Largest:
    size = np.asarray(record.size)
    n, f = np.unravel_index(int(np.argmax(size)), size.shape)
    return Largest(float(size[n, f]), fields(run)[f], float(steps.t[n] + steps.h[n]))


def fields(run: SteppedTrajectory) -> list[str]:
    """Names of the fields in the columns of `ForwardRecord`."""
    return [n for n, x in named_fields(run.problem.y0).items() if eqx.is_inexact_array(x)]


# --- a step ------------------------------------------------------------------------------------------------------------


def _sick_step(run: SteppedTrajectory, s: int, steps: Steps, n: int, carry: Carry, record: ForwardRecord) -> Diagnosis:
    moving, still = eqx.partition(carry, eqx.is_inexact_array)

    def step(params: dict[str, Array], moving: PyTree) -> PyTree:
        return run.stepped(run.filled(params), eqx.combine(moving, still), part(steps, n))[0]

    cause = origin(step, run.params, moving)
    # the step may be finite here: compiled code can overflow where the same operations one by one do not
    at, where = step_place(run, s, steps, n), spot(step(run.params, moving), run.problem.system)
    named = fields(run)[int(np.argmin(np.asarray(record.finite[n])))] if where is None else where.field
    becomes = "stops being finite" if where is None else f"becomes {where.value}{where.place}"
    grew = _grew(run, record, n)
    remedy = _step_remedy(run, s, None if grew or cause is None else cause.operation)
    finding = f"At {in_words(run, at)} {named} {becomes}{grew}{term(cause)}"
    return diagnosis("state", finding, remedy, at, where, cause)


def _grew(run: SteppedTrajectory, record: ForwardRecord, n: int) -> str:
    """Growth of the failing field in the preceding steps, in words; empty without growth."""
    f = int(np.argmin(np.asarray(record.finite[n])))
    size = np.asarray(record.size)[:n, f]
    if not size.size or not size[-1] > _GREW * size[0] > 0:
        return ""
    steps = int(np.sum(np.cumsum((size <= 10 * size[0])[::-1]) == 0))
    return f", after |{fields(run)[f]}| had grown from {size[0]:.3g} to {size[-1]:.3g} in {steps} steps"


def _step_remedy(run: SteppedTrajectory, s: int, operation: str | None) -> str:
    """Remedy for a non-finite step.

    **Arguments:**

    - `run`, `s`: the trajectory, and the index of its segment.
    - `operation`: the failing operation; None if values had grown before.
    """
    functional, unit = run.functional, with_space(run.problem.system.time_unit)
    halved = steps_of(functional, s, functional.layout.time_grid.halved())
    helps = not _bad(survey(run, segment_start(run, s), halved)[1]).any()
    if helps and functional.steps is not None:
        return "half of every step stays finite, so set steps.rtol and steps.atol smaller"
    if helps:
        limit = _limit(run, s)
        stable = f" (the stability limit at the start is {limit:.3g}{unit})" if limit is not None else ""
        return f"half the step stays finite{stable}, so set dt={functional.dt / 2:.2g} or less"
    if operation in _GUARDED:
        return (
            "half the step does not help, so guard the input of that operation (pdefit.safe_div, safe_sqrt, safe_norm)"
        )
    other = "start from a better guess or from shorter segments (formulation=segments)"
    return f"half the step does not help, so {other}{', or bound what it is given' if operation else ''}"


def _limit(run: SteppedTrajectory, s: int) -> float | None:
    try:
        return stability_limit(run.problem.system, segment_start(run, s), run.functional.runner.solver)
    except PdefitError:
        return None


# --- an observation ---------------------------------------------------------------------------------------------------


def _sick_look(run: SteppedTrajectory, s: int, steps: Steps, n: int, carry: Carry) -> Diagnosis:
    functional, step, y = run.functional, part(steps, n), carry[0]
    y = run.stepped(run.problem, carry, step)[0]

    def residuals(params: dict[str, Array], y: PyTree) -> PyTree:
        problem = run.filled(params)
        return functional.schedule.residuals(problem.instrument, y, problem.args, (step.observation, step.counts))

    at, where = step_place(run, s, steps, n), spot(residuals(run.params, y))
    if where is None:
        cause = origin(lambda params, y: run.misfit(run.filled(params), y, step), run.params, y)
        remedy = "check the units of data and sigma, or start from a better guess"
        finding = f"At {in_words(run, at)} the squared residuals overflow{term(cause)}"
        return diagnosis("overflow", finding, remedy, at, None, cause)
    cause = origin(residuals, run.params, y)
    remedy = "guard the input of that operation in the observation operator (pdefit.safe_div, safe_sqrt, safe_norm)"
    finding = (
        f"At {in_words(run, at)} the state is finite, but the observed '{where.field}' is {where.value}{where.place}"
        f"{term(cause)}"
    )
    return diagnosis("observation", finding, remedy, at, where, cause)
