"""Bookkeeping of a fit: stages, rounds and evaluations, the best point, and the state from which a fit resumes."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

import jax.numpy as jnp
import numpy as np

from pdefit._util.errors import PdefitError, refusing
from pdefit._util.packed_state import pack, unpack
from pdefit._util.run_state import RunState
from pdefit.integrate.loop.time_loop import EXPLOSIVE
from pdefit.inverse.fit.compiled_loop import MOST, Carry, EvaluationLog, first_carry, power_of_two
from pdefit.inverse.fit.drivers import AbstractDriver
from pdefit.inverse.fit.renew_steps import StepWatch
from pdefit.inverse.fit.result import Fit, Place, Progress, Record, records, saved_weights
from pdefit.inverse.fit.reweight import AbstractReweight
from pdefit.inverse.fit.smoothness import SMOOTHINGS
from pdefit.inverse.fit.stages import Stage, keeps, new_weights, prepared, prepares, resized, same_windows, with_windows
from pdefit.inverse.fit.stop import best_point, reached
from pdefit.inverse.fit.unstable_steps import explain_growth, near_stability, suits
from pdefit.inverse.objective.abstract import Objective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.spread import agreed
from pdefit.inverse.objective.variants import is_adaptive
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.shooting.formulation import AbstractFormulation

# attributes of a fit in its saved state
_SAVED = "sigma_before", "theta_before", "roughness", "theta", "carry"


class FitRun(Generic[Objective]):
    """Bookkeeping of one fit. `place` is its position in the stages."""

    def __init__(
        self,
        functional: Objective,
        stages: Sequence[Stage],
        driver: AbstractDriver,
        callback: Callable[[Progress], None] | None = None,
        max_iterations: int | None = None,
    ):
        self.driver = driver
        self.own, self.functional, self.theta = functional, functional, functional.theta0
        self.stages, self.callback, self.budget = stages, callback, max_iterations
        self.place = Place()
        # weights and point before this stage
        self.sigma_before, self.theta_before = functional.observations.sigma, self.theta
        # weights of smoothness priors, which all windows share
        self.roughness = functional.controls.roughness
        self.steps = StepWatch()
        self.carry: Carry | None = None
        self.history: list[Record] = []
        self.loss, self.converged = float("nan"), False

    @property
    def iterations(self) -> int:
        """Number of evaluations so far, in all stages."""
        return self.place.iterations

    def _note(self, event: str) -> None:
        """Record a sentence about an event for the result."""
        self.place.events += (event,)

    # --- stages and rounds -------------------------------------------------------------------------------------------

    def minimise(self) -> None:
        """Run all stages from the present place of the fit."""
        while self.place.stage < len(self.stages):
            if self.carry is None and self._left() > 0:
                self._enter()
            self._rounds()
            self.place.stage, self.place.round, self.place.settled = self.place.stage + 1, 0, False
            self.carry = None

    def _enter(self) -> None:
        """Begin a stage: set its windows, and record the state to return to if the model blows up in them."""
        sigma, before = self.functional.observations.sigma, self._formulation
        self.place.windows_before = self.place.windows
        self.sigma_before, self.theta_before = sigma, self.theta
        if prepares(self.own, self.stages[self.place.stage].formulation):
            self._use(self.place.stage, sigma)
        elif not keeps(self.own, before):
            self._use(-1, sigma)
        else:
            self.place.events += same_windows(self.stages, self.place.stage, self.place.windows)
        self._carry_over()
        if prepared(self.own, before, self._formulation):
            self._return_to_guess()
        self._with_steps(*self.steps.finer(self.functional, jnp.asarray(self.theta)))
        self._weigh(None, None)

    def _return_to_guess(self) -> None:
        """Begin at the guess if J there is below J at the end of the preparing stages."""
        guess = self.own.theta0
        optimizer, suited = self.stages[self.place.stage].optimizer_for(self.functional), self.steps.suited
        there = self.driver.value_for(optimizer, self.functional, self.theta)
        here = self.driver.value_for(optimizer, suited(self.functional, guess), guess)
        if np.isfinite(here) and not there <= here:
            ended = f"J is {here:.4g} at the guess, and {there:.4g} where the stages before ended"
            self._note(f"stage {self.place.stage + 1}: {ended}; begun at the guess")
            self.theta = guess
            self._with_steps(*self.steps.start(self.functional, guess))

    @property
    def _formulation(self) -> AbstractFormulation | None:
        """The formulation of the windows in use; None for the fit's own."""
        return None if self.place.windows < 0 else self.stages[self.place.windows].formulation

    def _carry_over(self) -> None:
        """Convert the present point to the windows in use, with suitable steps."""
        self.theta = resized(self.own, self.functional, self.theta)
        self._with_steps(*self.steps.start(self.functional, self.theta))

    def _with_steps(self, functional: Objective, event: str = "") -> bool:
        """Adopt a functional with new steps, and return whether they differ."""
        if event:
            self._note(f"iteration {self.iterations}: {event}")
        if functional is self.functional:
            return False
        chosen: Any = functional
        if isinstance(functional, Functional) and functional.steps is None:
            # another number of constant steps may take other checkpoints
            chosen = self.driver.resolve_for(functional)
        self.functional = chosen
        return True

    def _use(self, windows: int, sigma: Mapping[str, Any]) -> None:
        """Minimise with the windows of a stage and these weights from now on."""
        self.place.windows = windows
        self.functional = with_windows(self.own, self._formulation).reweighted(sigma).with_roughness(self.roughness)
        self._with_steps(self.steps.applied(self.functional))

    def _rounds(self) -> None:
        """Run a stage once, or for as many rounds as its weights need."""
        reweight = self.stages[self.place.stage].reweight
        rounds = SMOOTHINGS if reweight is None else reweight.rounds
        while True:
            self._round()
            if self._left() == 0 or self.carry is None or reached(self.carry):
                return
            if self._with_steps(*self.steps.finer(self.functional, jnp.asarray(self.theta))):
                self.carry = None
                continue
            if self.place.settled:
                return
            settled = self._weigh(reweight, self.driver.product)
            if reweight is None and settled:
                return
            # settled rounds keep the weights, because the loss reported last belongs to them
            self.place.round += 1
            self.place.settled = settled or self.place.round == rounds
            self.carry = None

    def _weigh(self, reweight: AbstractReweight | None, product: Callable | None) -> bool:
        """Choose the smoothness of fields and sigma from the data; returns whether they are already in use."""
        weighed = new_weights(self.functional, jnp.asarray(self.theta), reweight, self.driver.normal_equations, product)
        self.functional, settled, events = weighed
        self.roughness = {**self.roughness, **self.functional.controls.roughness}
        for event in (f"stage {self.place.stage + 1}: {event}" for event in events):
            if event not in self.place.events:
                self._note(event)
        return settled

    def _left(self, count: int = 0) -> int:
        """Largest number of evaluations in a round of this stage, of which `count` are done."""
        left = self.stages[self.place.stage].max_iterations
        return left if self.budget is None else min(left, self.budget - self.iterations + count)

    def _round(self) -> None:
        optimizer = self.stages[self.place.stage].optimizer_for(self.functional)
        if self.carry is None:
            if self._left() <= 0:
                return
            self.place.count = 0
        self.carry = carry = self.carry or first_carry(self.functional, optimizer, self.theta)
        limit, self.converged = self._left(self.place.count), False
        self._compile(optimizer, carry)
        chunk = 1
        while self.place.count < limit and (self.steps.due or not bool(carry.done)):
            carry = self._renew(optimizer, carry)
            # chunks end at multiples of a power of two, so that a resumed fit has the same ones
            end = min((self.place.count // chunk + 1) * chunk, limit)
            begin = time.perf_counter()
            done, carry, log = self.driver.advance(self.functional, optimizer, carry, end - self.place.count)
            self.carry, elapsed = carry, agreed(self.functional, time.perf_counter() - begin)
            self._account(log, done, elapsed)
            self._watch(log, done)
            if self.callback is not None:
                new, theta = self.history[len(self.history) - done :], np.asarray(self.theta)
                place = self.place.stage, len(self.stages), self.iterations, limit
                self.callback(Progress(*place, self.loss, new, self.functional, theta, self.state))
            most = self.steps.most(self.functional, self.place.count)
            chunk = min(power_of_two(done / max(elapsed, 1e-9)), most or MOST)
        self.converged = bool(optimizer.converged(carry.state)) and not self.steps.due
        if (remark := optimizer.remark(carry.state)) is not None:
            self._note(f"stage {self.place.stage + 1}: {remark}")
        if not np.isfinite(carry.best_value):
            self._give_up()

    def _compile(self, optimizer: AbstractOptimizer, carry: Carry) -> None:
        begin = time.perf_counter()
        self.driver.advance(self.functional, optimizer, carry, 0)
        self.place.compiling += time.perf_counter() - begin

    def _renew(self, optimizer: AbstractOptimizer, carry: Carry) -> Carry:
        """Restart from the best point with new steps if the present steps do not suit it."""
        if not self.steps.due or not self._with_steps(*self.steps.renew(self.functional, jnp.asarray(self.theta))):
            return carry
        carry = first_carry(self.functional, optimizer, self.theta)
        self._compile(optimizer, carry)
        return carry

    def _give_up(self) -> None:
        """Return to the end of the previous stage, if any, because no evaluation of this round was finite."""
        if not np.isfinite(self.loss):
            raise PdefitError(
                "The loss is not finite at the first guess: the model blows up there; use a smaller dt, "
                "a better guess, or shorter segments (formulation=segments); `pdefit doctor` names the first step and term"
            )
        self._note(f"stage {self.place.stage + 1}: the model blows up where the stage before ended; stage skipped")
        self._use(self.place.windows_before, self.sigma_before)
        self.theta, self.carry = self.theta_before, None

    def _watch(self, log: EvaluationLog, done: int) -> None:
        """Explain once why the adjoint grows so much, if it does at the present point or at the guess."""
        counts = np.asarray(log.accepted[:done]) | (not np.isfinite(self.loss) and not self.steps.blown_up)
        worst = float(np.max(np.asarray(log.growth[:done]), where=counts, initial=0.0))
        # where steps do not suit and will be chosen anew, they are the reason
        if worst > EXPLOSIVE and not self.place.watched and suits(self.functional, jnp.asarray(self.theta)):
            self.place.watched = True
            self._note(explain_growth(self.functional, jnp.asarray(self.theta), worst, self.driver.watched_gradient))

    # --- saving and going on -----------------------------------------------------------------------------------------

    def state(self) -> RunState:
        """The state of the fit, from which it can be resumed."""
        now = {name: getattr(self, name) for name in _SAVED} | {"sigma": self.functional.observations.sigma}
        grid = self.functional.time_grid if is_adaptive(self.functional) else None
        numbers = self.place.as_numbers() | {"steps": self.steps.numbers()}
        return RunState(numbers, pack(loss=np.asarray(self.loss), **now, time_grid=grid))

    @refusing("this experiment")
    def restore(self, saved: RunState) -> None:
        """Restore the state of a saved fit, or refuse it if it belongs to another fit."""
        numbers = dict(saved.numbers)
        steps, place = numbers.pop("steps"), Place.from_numbers(numbers)
        if not isinstance(steps, dict) or not 0 <= place.stage <= len(self.stages):
            raise ValueError("no stage of this fit")
        self.place = place
        self.sigma_before, sigma, self.theta_before = saved_weights(saved, self.own.observations)
        self.roughness = unpack("roughness", self.roughness, saved.arrays)
        self._use(self.place.windows, sigma)
        self._with_steps(self.steps.restored(self.functional, steps, saved.arrays))
        self.theta = unpack("theta", self.functional.theta0, saved.arrays)
        self.loss = float(saved.arrays["loss"])
        like = first_carry(self.functional, self.stages[place.stage].optimizer_for(self.functional), self.theta)
        self.carry = unpack("carry", like, saved.arrays)

    # --- accounts ----------------------------------------------------------------------------------------------------

    def _account(self, log: EvaluationLog, done: int, elapsed: float) -> None:
        assert self.carry is not None
        self.place.evaluating += elapsed
        self.steps.blown_up = not (self.iterations or self.functional.steps or np.isfinite(self.carry.best_value))
        if np.isfinite(self.carry.best_value):
            self.theta, self.loss = best_point(self.carry), float(self.carry.best_value)
            accepted, finished = bool(np.any(log.accepted[:done])), bool(self.carry.done)
            if self.steps.looks(self.functional, self.place.count + done, accepted, finished):
                self.steps.look(self.functional, self.theta)
        new = records(log, done, elapsed, self.iterations, self.place.stage + 1, self.steps.error)
        self.history += new
        self.place.iterations += done
        self.place.count += done
        for number in (record.iteration for record in new if not np.isfinite(record.loss)):
            self._note(f"iteration {number}: the loss is not finite, the step was rejected and reduced")

    def result(self, status: str) -> Fit[Objective]:
        """The result of the fit, which may be interrupted."""
        if not self.iterations:
            raise PdefitError("The fit was interrupted before its first evaluation")
        if self.functional.formulation.partial:
            # a fit that ends in a stage that prepares is still judged by the whole record
            self._use(-1, self.functional.observations.sigma)
            self._carry_over()
            self.converged = False
        # losses are those of the last functional, and a stage that prepares free states has only the first controls
        guess, optimizer = self.own.theta0[: self.theta.size], self.stages[-1].optimizer_for(self.functional)
        first = self.driver.value_for(optimizer, self.steps.suited(self.functional, guess), guess)
        last = self.driver.value_for(optimizer, self.functional, self.theta)
        for event in near_stability(self.functional, jnp.asarray(self.theta)):
            self._note(event)
        return Fit(
            functional=self.functional,
            theta=self.theta,
            loss=last,
            loss_initial=first,
            history=self.history,
            iterations=self.iterations,
            status=status,
            converged=self.converged,
            seconds={"compile": self.place.compiling, "evaluations": self.place.evaluating},
            events=list(self.place.events),
            equations=self.driver.equations_at(self.functional, self.theta),
        )
