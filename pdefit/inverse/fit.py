"""Running a fit: stages of optimizers over one functional, with the best point kept and every evaluation recorded."""

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.errors import PdefitError
from pdefit.integrate.trajectory import stability_limit
from pdefit.inverse.chunk import Carry, Log, advance, power_of_two
from pdefit.inverse.formulation import AbstractFormulation
from pdefit.inverse.functional import Functional
from pdefit.inverse.optimize.base import AbstractOptimizer, Box
from pdefit.inverse.problem import Problem
from pdefit.inverse.reweight import Reweight
from pdefit.inverse.run_state import RunState, pack, unpack
from pdefit.inverse.stage_windows import prepares, resized, with_windows


@dataclasses.dataclass(frozen=True)
class Stage:
    """One optimizer at work: `formulation` may cut the record in another way than the fit's own (windows that grow stage by
    stage); `reweight` repeats the stage with the errors its residuals suggest."""

    optimizer: AbstractOptimizer
    max_iterations: int = 100
    formulation: AbstractFormulation | None = None
    reweight: Reweight | None = None


class Record(NamedTuple):
    """One evaluation, as the history keeps it. `loss` belongs to the weights in force at the time."""

    iteration: int
    stage: int
    loss: float
    gradient_norm: float
    accepted: bool
    seconds: float
    theta: np.ndarray | None


@dataclasses.dataclass
class Fit:
    """What a fit found: `functional` with the weights and windows of its last stage, `theta` the best point there; `loss`
    and `loss_initial` are its values there and at the first guess; `iterations` counts all evaluations, `history` holds
    those since the fit was last resumed."""

    functional: Functional
    theta: Float[Array, " p"]
    loss: float
    loss_initial: float
    history: list[Record]
    iterations: int
    status: str
    converged: bool
    seconds: dict[str, float]
    events: list[str]

    @property
    def problem(self) -> Problem:
        """The problem at the best point."""
        return self.functional.at(self.theta)


class Progress(NamedTuple):
    """What a callback learns after every chunk of evaluations."""

    stage: int
    stages: int
    iteration: int
    max_iterations: int
    loss: float
    records: list[Record]
    functional: Functional
    theta: np.ndarray
    state: Callable[[], RunState]


def fit(
    functional: Functional,
    stages: Sequence[Stage | AbstractOptimizer],
    *,
    max_iterations: int | None = None,
    callback: Callable[[Progress], None] | None = None,
    resume: RunState | None = None,
) -> Fit:
    """Minimise a functional stage by stage, each from the best point of the one before.

    `max_iterations` bounds the evaluations of all stages together. `callback` is called after every chunk of about a
    second; raising `KeyboardInterrupt` there (or pressing Ctrl-C) ends the fit with the best point so far. `resume` is a
    state that a callback took from an earlier call with the same functional and stages: the fit goes on from there.
    """
    plan = [s if isinstance(s, Stage) else Stage(s) for s in stages]
    if not plan:
        raise PdefitError("A fit expects at least one stage, e.g. stages=levenberg_marquardt")
    run = _Run(functional, plan, callback, max_iterations)
    if resume is not None:
        run.restore(resume)
    status = "done"
    try:
        run.minimise()
    except KeyboardInterrupt:
        status = "interrupted"
    return run.result(status)


def first_functional(functional: Functional, stages: Sequence[Stage]) -> Functional:
    """What the first stage minimises."""
    return with_windows(functional, stages[0].formulation)


def restored(functional: Functional, stages: Sequence[Stage], state: RunState) -> tuple[Functional, Float[Array, " p"]]:
    """What a saved fit minimised last, and its best point."""
    run = _Run(functional, stages, None, None)
    run.restore(state)
    return run.functional, run.theta


class _Run:
    """The bookkeeping of one fit. Where it is: stage, round of that stage, evaluations of that round (`count`)."""

    def __init__(self, functional: Functional, stages: Sequence[Stage], callback: Any, max_iterations: int | None):
        self.own, self.functional, self.theta = functional, functional, functional.theta0
        self.stages, self.callback, self.budget = stages, callback, max_iterations
        self.stage = self.round = self.count = self.iterations = 0
        # the stage whose windows are in force; -1 for the functional's own
        self.windows = -1
        # windows, weights and point before this stage
        self.windows_before, self.sigma_before, self.theta_before = -1, functional.observations.sigma, self.theta
        self.settled = False
        self.carry: Carry | None = None
        self.history: list[Record] = []
        self.events: list[str] = []
        self.seconds = {"compile": 0.0, "evaluations": 0.0}
        self.loss, self.converged = float("nan"), False

    # --- stages and rounds -------------------------------------------------------------------------------------------

    def minimise(self) -> None:
        """All stages, from wherever the fit is."""
        while self.stage < len(self.stages):
            if self.carry is None and self._left() > 0:
                self._enter()
            self._rounds()
            self.stage, self.round, self.settled, self.carry = self.stage + 1, 0, False, None

    def _enter(self) -> None:
        """Begin a stage: its windows, and what to return to if the model blows up in them."""
        sigma = self.functional.observations.sigma
        self.windows_before, self.sigma_before, self.theta_before = self.windows, sigma, self.theta
        formulation = self.stages[self.stage].formulation
        if prepares(self.own, formulation):
            self._use(self.stage, sigma)
        elif self.own.controls.nodes:
            self._use(-1, sigma)
        self.theta = resized(self.own, self.functional, self.theta)

    def _use(self, windows: int, sigma: Mapping[str, Any]) -> None:
        """Minimise with the windows of a stage and these weights from now on."""
        self.windows = windows
        formulation = None if windows < 0 else self.stages[windows].formulation
        self.functional = with_windows(self.own, formulation).reweighted(sigma)

    def _rounds(self) -> None:
        """As many rounds of a stage as its reweighting asks for."""
        reweight = self.stages[self.stage].reweight
        while True:
            self._round()
            if reweight is None or self.settled or self._left() == 0 or self.carry is None:
                return
            self.functional, change = reweight.apply(self.functional, self.theta)
            self.events.append(
                f"stage {self.stage + 1}: sigma re-estimated from residuals, largest change {change:.1%}"
            )
            # the loss reported last belongs to the last weights
            self.settled = change < reweight.tolerance or self.round + 1 == reweight.rounds
            self.round, self.carry = self.round + 1, None

    def _left(self) -> int:
        """How many evaluations a new round of this stage may take."""
        left = self.stages[self.stage].max_iterations
        return left if self.budget is None else min(left, self.budget - self.iterations)

    def _round(self) -> None:
        optimizer = self.stages[self.stage].optimizer
        if self.carry is None:
            if self._left() <= 0:
                return
            self.count = 0
        self.carry = carry = self.carry or self._begin(optimizer)
        limit = self.stages[self.stage].max_iterations
        if self.budget is not None:
            limit = min(limit, self.budget - (self.iterations - self.count))
        self.converged = False
        begin = time.perf_counter()
        jax.block_until_ready(advance(self.functional, optimizer, carry, jnp.asarray(0)))
        self.seconds["compile"] += time.perf_counter() - begin
        chunk = 1
        while self.count < limit and not bool(carry.done):
            # chunks end at multiples of a power of two, wherever the fit was resumed
            end = min((self.count // chunk + 1) * chunk, limit)
            begin = time.perf_counter()
            taken, carry, log = advance(self.functional, optimizer, carry, jnp.asarray(end - self.count))
            self.carry, done, elapsed = carry, int(taken), time.perf_counter() - begin
            self._account(log, done, elapsed)
            if self.callback is not None:
                self.callback(self._progress(done, limit))
            chunk = power_of_two(done / max(elapsed, 1e-9))
        self.converged = bool(optimizer.converged(carry.state))
        if not np.isfinite(carry.best_value):
            self._give_up()

    def _begin(self, optimizer: AbstractOptimizer) -> Carry:
        state = optimizer.init(jnp.asarray(self.theta), Box(*self.functional.controls.box()))
        # explicit dtype: a weakly typed infinity would compile the loop a second time
        return Carry(state, jnp.asarray(jnp.inf, jnp.float64), jnp.asarray(self.theta), jnp.asarray(False))

    def _give_up(self) -> None:
        """No evaluation of this round was finite: back to where the stage before ended, if there was one."""
        if not np.isfinite(self.loss):
            raise PdefitError(
                "The loss is not finite at the first guess: the model blows up there; use a smaller dt, "
                "a better guess, or shorter segments (formulation=segments)"
            )
        self.events.append(f"stage {self.stage + 1}: the model blows up where the stage before ended; stage skipped")
        self._use(self.windows_before, self.sigma_before)
        self.theta, self.carry = self.theta_before, None

    # --- saving and going on -----------------------------------------------------------------------------------------

    def state(self) -> RunState:
        """Where the fit is, to go on from later."""
        names = ("stage", "round", "count", "iterations", "windows", "windows_before", "settled", "events", "seconds")
        before = {"sigma_before": self.sigma_before, "theta_before": self.theta_before}
        now = {"sigma": self.functional.observations.sigma, "theta": self.theta, "carry": self.carry}
        arrays = {"loss": np.asarray(self.loss), **now, **before}
        packed = [pack(name, jax.tree.map(jnp.asarray, tree)) for name, tree in arrays.items()]
        numbers = copy.deepcopy({n: getattr(self, n) for n in names})
        return RunState(numbers, {k: v for part in packed for k, v in part.items()})

    def restore(self, saved: RunState) -> None:
        """Be where a saved fit was."""
        for name, value in saved.numbers.items():
            setattr(self, name, copy.deepcopy(value))
        names = self.own.observations.sigma
        # re-estimated ones have shapes of their own
        self.sigma_before, sigma = ({n: saved.arrays[f"{a}['{n}']"] for n in names} for a in ("sigma_before", "sigma"))
        self._use(self.windows, sigma)
        self.theta_before = jnp.asarray(saved.arrays["theta_before"])
        self.theta = unpack("theta", self.functional.theta0, saved.arrays)
        self.loss = float(saved.arrays["loss"])
        self.carry = unpack("carry", self._begin(self.stages[self.stage].optimizer), saved.arrays)

    # --- accounts ----------------------------------------------------------------------------------------------------

    def _account(self, log: Log, done: int, elapsed: float) -> None:
        assert self.carry is not None
        self.seconds["evaluations"] += elapsed
        self._record(log, done, elapsed)
        if np.isfinite(self.carry.best_value):
            self.theta, self.loss = self.carry.best_theta, float(self.carry.best_value)
        self.count += done

    def _progress(self, done: int, limit: int) -> Progress:
        return Progress(
            stage=self.stage,
            stages=len(self.stages),
            iteration=self.iterations,
            max_iterations=limit,
            loss=self.loss,
            records=self.history[len(self.history) - done :],
            functional=self.functional,
            theta=np.asarray(self.theta),
            state=self.state,
        )

    def _record(self, log: Log, done: int, elapsed: float) -> None:
        for i in range(done):
            loss, accepted = float(log.loss[i]), bool(log.accepted[i])
            theta = np.asarray(log.theta[i]) if log.theta.shape[1] else None
            self.iterations += 1
            norm = float(log.gradient_norm[i])
            self.history.append(Record(self.iterations, self.stage + 1, loss, norm, accepted, elapsed / done, theta))
            if not np.isfinite(loss):
                self.events.append(
                    f"iteration {self.iterations}: the loss is not finite, the step was rejected and reduced"
                )

    def result(self, status: str) -> Fit:
        """What is known when the fit ends, however it ends."""
        if not self.iterations:
            raise PdefitError("The fit was interrupted before its first evaluation")
        # stages differ in windows and weights: the losses reported are those of the last functional
        value = eqx.filter_jit(Functional.value)
        # a stage that prepares windows of free node states has only the first, shared controls
        guess = self.own.theta0[: self.theta.size]
        first, last = (float(value(self.functional, jnp.asarray(t))) for t in (guess, self.theta))
        self._warn_near_stability()
        return Fit(
            functional=self.functional,
            theta=self.theta,
            loss=last,
            loss_initial=first,
            history=self.history,
            iterations=self.iterations,
            status=status,
            converged=self.converged,
            seconds=self.seconds,
            events=self.events,
        )

    def _warn_near_stability(self) -> None:
        """Say so when the step is hardly stable at the estimate: rejected steps may have kept the fit from going on."""
        problem, functional = self.functional.at(jnp.asarray(self.theta)), self.functional
        limit = stability_limit(problem.system, problem.y0, functional.solver)
        if limit is not None and functional.dt > 0.8 * limit:
            unit = problem.system.time_unit
            self.events.append(
                f"dt = {functional.dt:.3g} {unit} is close to the stability limit {limit:.3g} {unit} at the estimate; "
                f"set dt, or bounds of the controls that it depends on"
            )
