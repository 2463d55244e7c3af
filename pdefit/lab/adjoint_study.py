"""Comparison of all sensitivity algorithms on one problem: accuracy, time, memory, and a recommendation."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import with_space
from pdefit._util.memory import available_bytes, compile_ahead, in_words
from pdefit._util.trees import cast
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed, StoreAll
from pdefit.adjoints.forward_mode import STEPS, FiniteDifference, Tangent, quotients
from pdefit.inverse.certify.direction import direction
from pdefit.inverse.objective.compiled import GRADIENT
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import shortened, with_adjoint
from pdefit.inverse.offload.cost import Trial, gradient_cost, trial
from pdefit.lab.continuous_adjoints.backsolve import Backsolve
from pdefit.lab.continuous_adjoints.interpolating import Interpolating

# largest relative error of a gradient that is called right; a larger one would fail the certificate
RIGHT = 1e-6
# how many times slower an exact gradient may be than an approximate one, and one with less memory than others
_WORTH_EXACT, _WORTH_SMALLER = 2.0, 1.5


def recommended(rows: Sequence["Measured"]) -> str:
    """The recommended algorithm in one sentence, among accurate gradients that fit into memory."""
    right = [r for r in rows if r.error is not None and r.error <= RIGHT and r.fits]
    if not right:
        return "no algorithm is right and fits this machine: use a smaller grid, or driver=hosted"
    fastest = min(right, key=lambda r: r.time)
    exact = [r for r in right if r.accuracy < RIGHT and r.time <= _WORTH_EXACT * fastest.time]
    quick = min(exact, key=lambda r: r.time) if exact else fastest
    kind = exact or [fastest]
    chosen = min((r for r in kind if r.time <= _WORTH_SMALLER * quick.time), key=lambda r: r.bytes)
    error = f"{chosen.error:.0e}" if chosen.error else "the last bit"
    reason = f"right to {error}, {chosen.time:.2g} s and {in_words(chosen.bytes)} a gradient"
    if chosen is not fastest:
        but = "is not exact" if fastest.accuracy > chosen.accuracy else f"holds {in_words(fastest.bytes)}"
        reason += f"; {fastest.algorithm} takes {fastest.time / chosen.time:.2g} of the time but {but}"
    wrong = [r.algorithm for r in rows if r.error is not None and not r.error <= RIGHT]
    if wrong:
        reason += f"; wrong by more than {RIGHT:.0e}: {', '.join(wrong)}"
    return f"use {chosen.algorithm} ({chosen.option}): {reason}"


# relative error of a state reconstructed backward, above which the gradient is wrong
_LOST = 1e-3
# timed runs of each gradient, and the fraction of the time budget that one run may take
_RUNS, _SHARE = 3, 0.5


@dataclasses.dataclass(frozen=True)
class Measured:
    """Measurement of one sensitivity algorithm; None for values not measured, with the reason in `remark`.

    **Arguments:**

    - `algorithm`, `option`, `schedule`: its name, its option on the command line, and its scheme of storage and
      recomputation.
    - `error`: the relative error of the gradient against the reference; `accuracy` is the error that the algorithm
      promises.
    - `seconds`: the time of one gradient, without compilation.
    - `peak_bytes`: memory apart from the arguments, by the compiler's account; `stored_states` is the number of states
      in it.
    - `fits`: whether the whole record would fit into the memory of this machine.
    """

    algorithm: str
    option: str
    schedule: str
    error: float | None
    seconds: float | None
    peak_bytes: int | None
    stored_states: int
    remark: str
    fits: bool
    accuracy: float

    @property
    def time(self) -> float | int:
        """Seconds for a gradient; infinite if it did not run."""
        return math.inf if self.seconds is None else self.seconds

    @property
    def bytes(self) -> float | int:
        """Bytes for a gradient; infinite if it did not run."""
        return math.inf if self.peak_bytes is None else self.peak_bytes


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Errors, times and memory of all sensitivity algorithms on one problem.

    **Arguments:**

    - `measured`, `reference`: one measurement for each algorithm, and the name of the reference algorithm.
    - `scope`: the numbers of `observations` (out of `of`) and `unknowns`, and the `dtype`.
    - `verdict`: the recommended algorithm and the reason, in one sentence.
    - `steps`, `errors`: relative steps of central differences along a random direction, and their relative errors.
    - `ad_error`: relative error of automatic differentiation (forward mode) along that direction.
    """

    measured: tuple[Measured, ...]
    reference: str
    scope: dict[str, int | str]
    verdict: str
    steps: tuple[float, ...]
    errors: tuple[float, ...]
    ad_error: float

    def rows(self) -> list[dict[str, Any]]:
        """Table rows, one for each algorithm."""
        return [dataclasses.asdict(one) for one in self.measured]

    def record(self) -> dict[str, Any]:
        """The content of compare.json."""
        return {"rows": self.rows(), **{name: x for name, x in vars(self).items() if name != "measured"}}


@dataclasses.dataclass(frozen=True)
class _Candidate:
    name: str
    option: str
    adjoint: AbstractAdjoint
    remark: Callable[[Functional, Array], str] = lambda functional, theta: ""


def compare(
    functional: Functional,
    theta: Float[Array, " p"] | None = None,
    *,
    seconds: float = 60.0,
    memory: float | None = None,
    said: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Error, time and memory of the gradient by every sensitivity algorithm, in float64.

    Algorithms that would take too long are measured on the first observations of the record, or left out. The reference
    is the adjoint that stores everything, or the checkpointed one if that does not fit.

    **Arguments:**

    - `functional`, `theta` (p,): the objective, whose own adjoint is measured too, and the point (default: the guess).
    - `seconds`: the approximate time to spend, without compilation.
    - `memory`: bytes that the machine can hold (default: all that are free).
    - `said`: called with the name of the next measurement.
    """
    whole = cast(functional, jnp.float64)
    theta = whole.theta0 if theta is None else jnp.asarray(theta, jnp.float64)
    room = available_bytes() if memory is None else memory
    said("a few steps")
    tried, candidates = trial(whole), _candidates(whole)
    count = _count(whole, tried, candidates, seconds)
    part, theta = shortened(whole, theta, count)
    assert isinstance(part, Functional)
    rows: list[Measured] = []
    reference, expected = "", None
    for candidate in candidates:
        said(candidate.name)
        row, gradient = _measured(candidate, part, whole, theta, tried, seconds * _SHARE, room)
        if expected is None and gradient is not None:
            reference, expected = candidate.name, gradient
        if gradient is not None and expected is not None:
            row = dataclasses.replace(row, error=_relative(gradient, expected))
        rows.append(row)
    assert expected is not None
    said("steps of finite differences")
    errors, ad_error = _v_curve(part, theta, expected)
    total = whole.observations.ts.size
    scope = {"observations": min(count, total), "of": total, "unknowns": theta.size, "dtype": "float64"}
    return Comparison(tuple(rows), reference, scope, recommended(rows), tuple(STEPS.tolist()), errors, ad_error)


def _candidates(functional: Functional) -> list[_Candidate]:
    """All algorithms, the reference first; the functional's own adjoint comes last if it is none of these."""
    candidates = [
        _Candidate("store-all", "adjoint=store_all", StoreAll()),
        _Candidate("checkpointed", "adjoint=checkpointed", Checkpointed()),
        _Candidate("two levels", "adjoint=checkpointed adjoint.levels=2", Checkpointed(levels=2)),
        _Candidate("three levels", "adjoint=checkpointed adjoint.levels=3", Checkpointed(levels=3)),
        _Candidate("interpolating", "adjoint=interpolating", Interpolating()),
        _Candidate("backsolve", "adjoint=backsolve", Backsolve(), _reconstruction),
        _Candidate("backsolve, 1 backup", "adjoint=backsolve adjoint.backups=1", Backsolve(backups=1), _reconstruction),
        _Candidate("tangent", "adjoint=tangent", Tangent()),
        _Candidate("finite differences", "adjoint=finite_difference", FiniteDifference()),
    ]
    settled = [with_adjoint(functional, c.adjoint).runner.adjoint for c in candidates]
    distinct = [c for i, c in enumerate(candidates) if settled[i] not in settled[:i]]
    own = functional.runner.adjoint
    remark = _reconstruction if isinstance(own, Backsolve) else _Candidate.remark
    return distinct if own in settled else [*distinct, _Candidate("as configured", "as configured", own, remark)]


def _count(functional: Functional, tried: Trial, candidates: list[_Candidate], seconds: float) -> int:
    """Number of observations for which the algorithms of moderate cost finish within this time."""
    costs = [gradient_cost(with_adjoint(functional, c.adjoint), tried) for c in candidates]
    needed = sum(_RUNS * cost.seconds for cost in costs if cost.seconds < 20 * cost.seconds_forward)
    total = functional.observations.ts.size
    return total if needed <= seconds else max(2, int(total * seconds / needed))


def _measured(
    candidate: _Candidate, part: Functional, whole: Functional, theta: Array, tried: Trial, seconds: float, room: float
) -> tuple[Measured, Array | None]:
    """One row, without its error, and the gradient; None if it would take too long or does not fit."""
    functional = with_adjoint(part, candidate.adjoint)
    cost, adjoint = gradient_cost(functional, tried), functional.runner.adjoint
    row = Measured(
        algorithm=candidate.name,
        option=candidate.option,
        schedule=cost.schedule,
        error=None,
        seconds=None,
        peak_bytes=None,
        stored_states=cost.stored_states,
        remark="",
        fits=True,
        accuracy=adjoint.accuracy,
    )
    # a gradient that takes up to 20 forward runs is always measured
    if cost.seconds > max(seconds, 20 * cost.seconds_forward):
        return dataclasses.replace(row, remark=f"left out: would take about {cost.seconds:.2g} s"), None
    compiled = compile_ahead(GRADIENT, functional, theta)
    peak = compiled.temporary + compiled.returned
    # memory of the whole record, of which only a part is run: it grows with the number of stored states
    whole_stored = gradient_cost(with_adjoint(whole, candidate.adjoint), tried).stored_states
    fits = peak * whole_stored / cost.stored_states <= room
    row = dataclasses.replace(row, peak_bytes=peak, fits=fits)
    if peak > room:
        return dataclasses.replace(row, remark=f"left out: {in_words(peak)} do not fit this machine"), None
    gradient, taken = _timed(lambda: compiled.call(functional, theta)[1])
    remark = candidate.remark(functional, theta)
    if not fits:
        remark = "; ".join(filter(None, [remark, "the whole record would not fit this machine"]))
    return dataclasses.replace(row, seconds=taken, remark=remark), gradient


def _timed(run: Callable[[], Array]) -> tuple[Array, float]:
    """Result of a function and its shortest time in seconds; a quick one is run several times."""
    begin = time.perf_counter()
    result = jax.block_until_ready(run())
    times = [time.perf_counter() - begin]
    if times[0] < 1.0:
        times = []
        while len(times) < _RUNS or time.perf_counter() - begin < 0.1:
            start = time.perf_counter()
            jax.block_until_ready(run())
            times.append(time.perf_counter() - start)
    # the shortest, not the mean: other processes can only make a run slower
    return result, min(times)


def _reconstruction(functional: Functional, theta: Array) -> str:
    """Remark on the accuracy of the state reconstructed backward in time."""
    off = np.asarray(_reconstructed(functional, theta))
    grid = functional.layout.time_grid
    worst, at = float(off.max()), float(np.ravel(grid.start)[int(off.argmax())])
    if worst <= _LOST:
        return f"state reconstructed backward to {worst:.0e}"
    unit = with_space(functional.problem.system.time_unit)
    how = f"is off by {worst:.0e}" if np.isfinite(worst) else "blows up"
    return f"state reconstructed backward {how} at t = {at:.3g}{unit}: unstable, needs more backups"


@eqx.filter_jit
def _reconstructed(functional: Functional, theta: Array) -> Array:
    problem, adjoint = functional.at(theta), functional.runner.adjoint
    stepper = functional.runner.stepper(problem)
    assert isinstance(adjoint, Backsolve)
    return functional.runner.batch(
        lambda y0, grid: adjoint.reconstruction(stepper, y0, grid),
        functional.starts(problem),
        functional.layout.time_grid,
    )


def _v_curve(functional: Functional, theta: Array, gradient: Array) -> tuple[tuple[float, ...], float]:
    """Relative errors of central differences for every step along a random direction, and of a tangent."""
    functional = with_adjoint(functional, Checkpointed())
    v = direction(functional.controls, theta, jax.random.key(0))
    slopes, slope = _quotients_and_slope(functional, theta, v)
    expected = float(gradient @ v)
    errors = np.abs(np.asarray(slopes) - expected) / abs(expected)
    return tuple(errors.tolist()), abs(float(slope) - expected) / abs(expected)


@eqx.filter_jit
def _quotients_and_slope(functional: Functional, theta: Array, v: Array) -> tuple[Array, Array]:
    return quotients(functional.value, theta, v, STEPS), functional.jvp(theta, v)[1]


def _relative(gradient: Array, expected: Array) -> float:
    size = float(jnp.linalg.norm(expected))
    return float(jnp.linalg.norm(gradient - expected)) / size if size > 0 else float(jnp.linalg.norm(gradient))
