"""Running a fit: stages of optimizers over one functional, with the best point kept and every evaluation recorded."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit.errors import PdefitError
from pdefit.integrate.trajectory import stability_limit
from pdefit.inverse.formulation import AbstractFormulation
from pdefit.inverse.functional import Functional
from pdefit.inverse.optimize.base import AbstractOptimizer, Box
from pdefit.inverse.problem import Problem
from pdefit.inverse.reweight import Reweight
from pdefit.inverse.stage_windows import with_windows

# evaluations between two looks at the clock, at most
_CHUNK = 64


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
    and `loss_initial` are its values there and at the first guess."""

    functional: Functional
    theta: Float[Array, " p"]
    loss: float
    loss_initial: float
    history: list[Record]
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


class _Carry(NamedTuple):
    state: Any
    best_value: Array
    best_theta: Array
    done: Array


class _Log(NamedTuple):
    loss: Array
    gradient_norm: Array
    accepted: Array
    theta: Array


@eqx.filter_jit
def _advance(functional: Functional, optimizer: AbstractOptimizer, carry: _Carry, limit: Array) -> Any:
    """Up to `limit` evaluations inside one compiled loop, and what happened in each."""
    p = functional.controls.recorded.size
    log = _Log(jnp.zeros(_CHUNK), jnp.zeros(_CHUNK), jnp.zeros(_CHUNK, bool), jnp.zeros((_CHUNK, p)))

    def running(loop: tuple[Array, _Carry, _Log]) -> Array:
        return (loop[0] < limit) & ~loop[1].done

    def body(loop: tuple[Array, _Carry, _Log]) -> tuple[Array, _Carry, _Log]:
        i, carry, log = loop
        theta = optimizer.ask(carry.state)
        found = optimizer.evaluate(functional, theta)
        state, accepted = optimizer.tell(carry.state, found)
        better = found.finite & (found.value < carry.best_value)
        log = _Log(
            loss=log.loss.at[i].set(found.value),
            gradient_norm=log.gradient_norm.at[i].set(jnp.linalg.norm(found.gradient)),
            accepted=log.accepted.at[i].set(accepted),
            theta=log.theta.at[i].set(theta[:p]),
        )
        carry = _Carry(
            state=state,
            best_value=jnp.where(better, found.value, carry.best_value),
            best_theta=jnp.where(better, theta, carry.best_theta),
            done=optimizer.finished(state),
        )
        return i + 1, carry, log

    return lax.while_loop(running, body, (jnp.zeros((), int), carry, log))


def fit(
    functional: Functional,
    stages: Sequence[Stage | AbstractOptimizer],
    *,
    max_iterations: int | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> Fit:
    """Minimise a functional stage by stage, each from the best point of the one before.

    `max_iterations` bounds the evaluations of all stages together. `callback` is called after every chunk of about a
    second; raising `KeyboardInterrupt` there (or pressing Ctrl-C) ends the fit with the best point so far.
    """
    plan = [s if isinstance(s, Stage) else Stage(s) for s in stages]
    if not plan:
        raise PdefitError("A fit expects at least one stage, e.g. stages=levenberg_marquardt")
    run = _Run(functional, callback, len(plan), max_iterations)
    status = "done"
    try:
        for number, stage in enumerate(plan):
            run.stage(number, stage)
    except KeyboardInterrupt:
        status = "interrupted"
    return run.result(status)


class _Run:
    """The bookkeeping of one fit."""

    def __init__(self, functional: Functional, callback: Any, stages: int, max_iterations: int | None):
        self.functional, self.theta = functional, functional.theta0
        self._own, self._before, self._theta0 = functional, (functional, functional.theta0), functional.theta0
        self.callback, self.stages, self.budget = callback, stages, max_iterations
        self.history: list[Record] = []
        self.events: list[str] = []
        self.seconds = {"compile": 0.0, "evaluations": 0.0}
        self.loss, self.converged = float("nan"), False

    def stage(self, number: int, stage: Stage) -> None:
        """One stage, as many rounds of it as its reweighting asks for."""
        if self._left(stage) <= 0:
            return
        self._before = self.functional, self.theta
        self.functional, self.theta = with_windows(self._own, self.functional, stage.formulation, self.theta)
        rounds = 1 if stage.reweight is None else stage.reweight.rounds
        for _ in range(rounds):
            self._minimise(number, stage)
            if stage.reweight is None or self._left(stage) == 0:
                return
            self.functional, change = stage.reweight.apply(self.functional, self.theta)
            self.events.append(f"stage {number + 1}: sigma re-estimated from residuals, largest change {change:.1%}")
            if change < stage.reweight.tolerance:
                break
        # the loss reported last belongs to the last weights
        self._minimise(number, stage)

    def _left(self, stage: Stage) -> int:
        """How many evaluations a round of this stage may take."""
        left = stage.max_iterations
        return left if self.budget is None else min(left, self.budget - len(self.history))

    def _minimise(self, number: int, stage: Stage) -> None:
        limit = self._left(stage)
        if limit <= 0:
            return
        self.converged = False
        box = Box(*self.functional.controls.box())
        state = stage.optimizer.init(jnp.asarray(self.theta), box)
        # explicit dtype: a weakly typed infinity would compile the loop a second time
        carry = _Carry(state, jnp.asarray(jnp.inf, jnp.float64), jnp.asarray(self.theta), jnp.asarray(False))
        begin = time.perf_counter()
        jax.block_until_ready(_advance(self.functional, stage.optimizer, carry, jnp.asarray(0)))
        self.seconds["compile"] += time.perf_counter() - begin
        chunk, count = 1, 0
        while count < limit and not bool(carry.done):
            begin = time.perf_counter()
            done, carry, log = _advance(
                self.functional, stage.optimizer, carry, jnp.asarray(min(chunk, limit - count, _CHUNK))
            )
            done = int(done)
            elapsed = time.perf_counter() - begin
            self.seconds["evaluations"] += elapsed
            self._record(number, log, done, elapsed)
            if np.isfinite(carry.best_value):
                self.theta, self.loss = carry.best_theta, float(carry.best_value)
            count += done
            chunk = max(1, min(_CHUNK, int(done / max(elapsed, 1e-9))))
            if self.callback is not None:
                records = self.history[-done:]
                self.callback(
                    Progress(
                        stage=number,
                        stages=self.stages,
                        iteration=len(self.history),
                        max_iterations=limit,
                        loss=self.loss,
                        records=records,
                        functional=self.functional,
                        theta=np.asarray(self.theta),
                    )
                )
        self.converged = bool(stage.optimizer.converged(carry.state))
        if not np.isfinite(carry.best_value):
            if np.isfinite(self.loss):
                self.events.append(
                    f"stage {number + 1}: the model blows up where the stage before ended; stage skipped"
                )
                self.functional, self.theta = self._before
                return
            raise PdefitError(
                "The loss is not finite at the first guess: the model blows up there; use a smaller dt, "
                "a better guess, or shorter segments (formulation=segments)"
            )

    def _record(self, stage: int, log: _Log, done: int, elapsed: float) -> None:
        for i in range(done):
            loss, accepted = float(log.loss[i]), bool(log.accepted[i])
            theta = np.asarray(log.theta[i]) if log.theta.shape[1] else None
            iteration = len(self.history) + 1
            self.history.append(
                Record(iteration, stage + 1, loss, float(log.gradient_norm[i]), accepted, elapsed / done, theta)
            )
            if not np.isfinite(loss):
                self.events.append(f"iteration {iteration}: the loss is not finite, the step was rejected and reduced")

    def result(self, status: str) -> Fit:
        """What is known when the fit ends, however it ends."""
        if not self.history:
            raise PdefitError("The fit was interrupted before its first evaluation")
        # stages differ in windows and weights: the losses reported are those of the last functional
        value = eqx.filter_jit(Functional.value)
        # a stage that prepares windows of free node states has only the first, shared controls
        guess = self._theta0[: self.theta.size]
        first, last = (float(value(self.functional, jnp.asarray(t))) for t in (guess, self.theta))
        self._warn_near_stability()
        return Fit(
            functional=self.functional,
            theta=self.theta,
            loss=last,
            loss_initial=first,
            history=self.history,
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
