"""Memory and time of one evaluation, estimated before it runs."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.memory import CompiledProgram, available_bytes, compile_ahead, in_words
from pdefit.adjoints.base import Account, Checkpointed, StoreAll
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.objective.accumulate import Misfit
from pdefit.inverse.objective.compiled import EQUATIONS, PARTS, ForwardProgram
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.trajectory_runner import ObservationSchedule
from pdefit.inverse.offload import _programs as programs

# forward runs that the transpose of a step takes, and a tangent, where neither was measured
_TRANSPOSE, _TANGENT = 2.7, 0.8
# states beside each tangent, and beside what a step leaves to its transpose, that a program works with
_BESIDE = 4
# values of a state below which a step takes no less time
_FEW = 2000

# intervals and steps of a trial, enough for its loops to be compiled as loops, and the seconds for which a run is repeated
_INTERVALS, _MOST_STEPS, _SECONDS = 3, 8, 0.1


@dataclasses.dataclass(frozen=True)
class Trial:
    """Memory and time of a few steps, measured with a functional's own programs.

    **Arguments:**

    - `state_bytes`: bytes of one state of all trajectories.
    - `temporary`: bytes of the reverse program without checkpoints, as stated by the compiler.
    - `passed`: bytes of the state and the cotangent, its inputs and outputs.
    - `forward`: seconds of one step.
    - `back`: seconds per step of a gradient with two levels of checkpoints.
    """

    state_bytes: int
    temporary: int
    passed: int
    forward: float
    back: float

    @property
    def working(self) -> int:
        """Bytes apart from checkpoints."""
        return self.temporary + self.passed

    def gradient(self, account: Account) -> float:
        """Seconds per step of a gradient, from the number of passes in its adjoint's account."""
        # of two levels of checkpoints, three passes are forward
        transpose = max(self.back - 3 * self.forward, 0.0)
        return max(account.forward * self.forward + account.reverse * transpose, self.forward)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Memory and time of one evaluation of an optimizer.

    `planned_bytes` is the peak on the device: `stored_states` of `state_bytes` each, and `working_bytes`.

    **Arguments:**

    - `driver`: the name of the driver of the evaluation, `traced` or `hosted`.
    - `schedule`: a description of the stored values.
    - `steps`: the number of steps of the longest trajectory.
    - `state_bytes`, `stored_states`: bytes of a state, and the number of states on the device.
    - `working_bytes`: bytes of temporary buffers on the device.
    - `recompute_factor`: number of forward runs of the trajectory in one evaluation.
    - `seconds`, `seconds_forward`: seconds of the evaluation, and of one forward run.
    - `host_bytes`, `file_bytes`: bytes of checkpoints in host memory and in a file.
    """

    driver: str
    schedule: str
    steps: int
    state_bytes: int
    stored_states: int
    working_bytes: int
    recompute_factor: float
    seconds: float
    seconds_forward: float
    host_bytes: int = 0
    file_bytes: int = 0

    @property
    def planned_bytes(self) -> int:
        return self.stored_states * self.state_bytes + self.working_bytes

    def divided(self, devices: int) -> "Cost":
        """Cost on each of several devices that hold a part of every field."""
        parts = {"state_bytes": self.state_bytes // devices, "working_bytes": self.working_bytes // devices}
        return dataclasses.replace(self, **parts)

    def as_dict(self) -> dict[str, Any]:
        """Entries of plan.json."""
        return {**dataclasses.asdict(self), "planned_bytes": self.planned_bytes}

    def __str__(self) -> str:
        elsewhere = {"host memory": self.host_bytes, "files": self.file_bytes}
        more = "".join(f", {in_words(size)} in {place}" for place, size in elsewhere.items() if size)
        return (
            f"{self.schedule}: {self.stored_states} states of {in_words(self.state_bytes)} and {in_words(self.working_bytes)} "
            f"to work with = {in_words(self.planned_bytes)}{more}; {self.recompute_factor:.3g} x {self.steps} steps, about "
            f"{self.seconds:.2g} s an evaluation"
        )


def state_bytes(like: PyTree) -> int:
    """Bytes of a state, for all of its trajectories."""
    return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(like))


def trial(functional: Functional) -> Trial:
    """Memory and time of a few steps forward and in reverse, from the start of the record at theta0."""
    beginning = accumulation, theta, state, schedule = _beginning(functional)
    size, steps = state_bytes(state), schedule.time_grid.intervals * schedule.time_grid.length
    zeros = jax.tree.map(jnp.zeros_like, state)
    back = compile_ahead(programs.reverse, accumulation, theta, state, schedule, zeros, theta)
    stored = Checkpointed(2).account(schedule.time_grid, theta.size).stored * size
    return Trial(
        state_bytes=size,
        temporary=max(_of_all_cores(back.temporary, functional, 0) - stored, 0),
        passed=2 * size + back.returned,
        forward=_seconds(lambda: programs.advance(*beginning)) / steps,
        back=_seconds(lambda: back.call(accumulation, theta, state, schedule, zeros, theta)) / steps,
    )


def analysed(functional: Functional, rate: float | None = None) -> Trial:
    """Memory and time of a step without a separate program: memory from its values, time from a forward run.

    **Arguments:**

    - `functional`: the functional.
    - `rate`: the seconds of a forward run per unit of `work`; by default `forward_rate`.
    """
    grid, size = functional.layout.time_grid, _states_bytes(functional)
    rate = forward_rate(functional) if rate is None else rate
    forward = rate * work(functional, 1) / (grid.intervals * grid.length)
    left, back = math.ceil(_bytes_per_step(functional, size)), (3 + _TRANSPOSE) * forward
    return Trial(state_bytes=size, temporary=left, passed=_BESIDE * size, forward=forward, back=back)


def forward_rate(functional: Functional) -> float:
    """Seconds of a forward run per unit of `work`, by the fit's program for its residuals."""
    return _timed(PARTS, functional)[0] / work(functional, 1)


def work(functional: Functional, columns: int) -> int:
    """Work of integrating `columns` states or tangents over the record: steps times values, with a floor for few values."""
    grid, values = functional.layout.time_grid, sum(x.size for x in jax.tree.leaves(functional.problem.y0))
    return grid.intervals * grid.length * max(values * functional.layout.segments * columns, _FEW)


def _states_bytes(functional: Functional) -> int:
    return state_bytes(jax.eval_shape(lambda x: Misfit(functional).start(x), functional.theta0))


def _timed(program: ForwardProgram, functional: Functional) -> tuple[float, CompiledProgram]:
    """Seconds of a program at theta0, compiled as in a fit. A short one is repeated."""
    at = program.form(functional, functional.theta0), functional.theta0
    compiled, times = compile_ahead(program, *at), list[float]()
    # what does not fit is not run; the plan refuses it
    if compiled.temporary + compiled.returned > available_bytes():
        return math.inf, compiled
    while sum(times) < _SECONDS:
        begin = time.perf_counter()
        jax.block_until_ready(compiled.call(*at))
        times.append(time.perf_counter() - begin)
    return float(np.median(times)), compiled


def _beginning(functional: Functional) -> tuple[Misfit, Array, PyTree, ObservationSchedule]:
    """The misfit with two levels of checkpoints, theta0, the initial state, and the first few steps of the record."""
    accumulation = eqx.tree_at(lambda m: m.functional.runner.adjoint, Misfit(functional), Checkpointed(2))
    return accumulation, functional.theta0, accumulation.start(functional.theta0), _few_steps(functional)


def gradient_cost(functional: Functional, tried: Trial) -> Cost:
    """Cost of a gradient by the functional's own adjoint, with everything on the device.

    **Arguments:**

    - `functional`: the functional.
    - `tried`: the result of `trial`.
    """
    grid, batch, segments = functional.layout.time_grid, functional.runner.batch, functional.layout.segments
    # an algorithm without a reverse pass has nothing to run again for it
    account = functional.runner.adjoint.account(grid, functional.controls.size)
    again = batch.recompute(segments) if account.reverse else 0
    stored = account.stored
    # without checkpoints a step leaves more behind than its state
    if isinstance(functional.runner.adjoint, StoreAll):
        stored = math.ceil(stored * _bytes_per_step(functional, tried.state_bytes) / tried.state_bytes)
    return Cost(
        driver="traced",
        schedule=account.schedule,
        steps=grid.longest,
        state_bytes=tried.state_bytes * batch.at_once(segments) // segments,
        stored_states=stored,
        working_bytes=tried.working,
        recompute_factor=account.forward + again,
        seconds=account.padded * (tried.gradient(account) + again * tried.forward),
        seconds_forward=grid.intervals * grid.length * tried.forward,
    )


def tangent_cost(functional: Functional, rate: float | None = None) -> Cost:
    """Cost of the normal equations with one tangent for each column of the Jacobian, all at once.

    **Arguments:** `functional`: as in `gradient_cost`, and

    - `rate`: the seconds per unit of `work`. By default one evaluation by the fit's program measures it.
    """
    grid, count, size = functional.layout.time_grid, functional.tangents, _states_bytes(functional)
    working = _BESIDE * (1 + count) * size
    if rate is None:
        seconds, program = _timed(EQUATIONS, functional)
        working = max(program.temporary + program.returned - (1 + count) * size, 0)
    else:
        seconds = rate * work(functional, 1 + count)
    return Cost(
        driver="traced",
        schedule=f"{count} tangents",
        steps=grid.longest,
        state_bytes=size,
        stored_states=1 + count,
        working_bytes=_of_all_cores(working, functional, count),
        recompute_factor=1.0,
        seconds=seconds,
        seconds_forward=seconds / (1 + _TANGENT * count),
    )


def _of_all_cores(held: int, functional: Functional, parts: int) -> int:
    """Total bytes of all cores, with one copy of the data; idle cores share `parts` tangents."""
    batch, segments = functional.runner.batch, functional.layout.segments
    cores = max(batch.devices_for(segments), len(batch.idle(segments, parts)), 1)
    if cores == 1 or jax.default_backend() != "cpu":
        return held
    return cores * held + (cores - 1) * state_bytes(eqx.filter(functional, eqx.is_array))


def _bytes_per_step(functional: Functional, state: int) -> float:
    """Bytes for the reverse pass of one step without recomputation, by tracing alone.

    They are the bytes of every value that multiplies a cotangent, which the transpose of a few steps closes over.
    """
    schedule, accumulation = _few_steps(functional), Misfit(functional)
    accumulation = eqx.tree_at(lambda m: m.functional.runner.adjoint, accumulation, StoreAll())

    def transpose(theta: Array) -> Any:
        state = accumulation.start(theta)
        return jax.vjp(lambda theta, state: accumulation.advance(theta, state, schedule, None), theta, state)[1]

    closed_over = state_bytes(jax.eval_shape(transpose, functional.theta0))
    return max(closed_over / (schedule.time_grid.intervals * schedule.time_grid.length), float(state))


def _few_steps(functional: Functional) -> ObservationSchedule:
    """The beginning of a record: a few steps of every trajectory, with a few observations between them."""
    whole = functional.schedule
    grid = whole.time_grid
    intervals, length = min(_INTERVALS, grid.intervals), min(_MOST_STEPS, grid.length)
    part = TimeGrid(
        start=grid.start[:, :intervals],
        step=grid.step[:, :intervals, :length] if grid.frozen else grid.step[:, :intervals],
        # an interval without steps pads a shorter record, and says nothing about time
        count=np.full((grid.count.shape[0], intervals), length),
        length=length,
        observes_start=False,
    )
    first = int(grid.observes_start)
    frames = slice(first, first + intervals)
    return ObservationSchedule(
        part, whole.index[:, frames], {n: r[:, frames] for n, r in whole.counts.items()}, whole.observations
    )


def _seconds(run: Callable[[], Any]) -> float:
    """Median seconds of several runs, after one that compiles."""
    jax.block_until_ready(run())
    times, begin = [], time.perf_counter()
    while not times or time.perf_counter() - begin < _SECONDS:
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return float(np.median(times))
