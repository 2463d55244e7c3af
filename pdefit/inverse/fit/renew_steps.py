"""Renewal of the steps of a fit, frozen adaptive or constant, if they no longer suit its best point."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from pdefit._util.errors import PdefitError, with_space
from pdefit.integrate.loop.batch import on_one_device
from pdefit.integrate.loop.stable_step import MARGIN, steps_for
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.fit.unstable_steps import is_open, share_of_limit, stable_step, suits
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.compiled import PARTS, kinds, squares, value_of
from pdefit.inverse.objective.variants import is_adaptive, stepped, with_dt

# frozen steps are kept while their error is between these parts of the tolerance; where observations keep the steps
# shorter than that, while it is at least _FALLEN of what it was when they were chosen
_LOW, _HIGH, _FALLEN = 0.1, 1.0, 0.4
# constant steps that a fit made smaller are chosen again by a later stage for a stability limit larger by this factor
_GROWN = 2.0
# the times that a step is halved where the model blows up at the guess
_HALVINGS = 4
# constant steps are halved until half of them moves the residuals of a finished fit by less than this part of their noise,
# so many times at most, after so many fits at most, up to so many steps of which each takes about a microsecond
_COARSE, _MOST_FINER, _MOST_REFINED, _MOST_STEPS = 0.03, 8, 6, 1_000_000
# constant steps are looked at after each of the first evaluations, then less often: a look takes milliseconds
_OFTEN, _SELDOM = 16, 8


@dataclasses.dataclass
class StepWatch:
    """Steps of one fit: frozen adaptive steps, or constant steps whose size was left open.

    For adaptive steps `error` is their error at the best point, 1 at the tolerance, and `chosen` their error when they
    were chosen. Both are None if steps are constant. For constant steps `unstable` is whether the best point needs new
    steps, and `blown_up` whether the model blows up at the guess. `stable` is the stable step of explicit Euler for
    which they were chosen, None if they were chosen at the guess; `halved` is whether they were halved below it.
    `refined` counts the finished fits whose residuals half the step moved.

    The methods take the present objective and a point theta, (p,).
    """

    error: float | None = None
    chosen: float | None = None
    stable: float | None = None
    unstable: bool = False
    blown_up: bool = False
    halved: bool = False
    refined: int = 0

    @property
    def due(self) -> bool:
        """True if the steps no longer suit the best point."""
        if self.error is None or self.chosen is None:
            return self.unstable or self.blown_up
        return bool(are_due(self.error, self.chosen))

    def start(self, functional: Objective, theta: Float[Array, " p"]) -> tuple[Objective, str]:
        """The functional with steps chosen for theta, and a message if constant steps changed, else an empty one."""
        if not is_adaptive(functional):
            self.look(functional, theta)
            return self._restep(functional, theta) if self.due or self._grown(functional, theta) else (functional, "")
        renewed = functional.renewed(theta)
        self.error = self.chosen = float(renewed.step_error(theta))
        return renewed, ""

    def look(self, functional: AbstractObjective, theta: Float[Array, " p"]) -> None:
        """Measure whether the steps suit the best point."""
        if is_adaptive(functional):
            self.error = float(functional.step_error(theta))
        elif is_open(functional):
            self.unstable = not suits(functional, theta)

    def finer(self, functional: Objective, theta: Float[Array, " p"]) -> tuple[Objective, str]:
        """The functional with steps so small that half of them move no residuals, and a sentence if these are other steps.

        Given steps, adaptive steps and steps of fields are kept.
        """
        if not (functional.small and is_open(functional)) or self.refined == _MOST_REFINED:
            return functional, ""
        finer, then, changes = functional, kinds(on_one_device(PARTS(functional, theta))), list[float]()
        while finer.time_grid.steps <= _MOST_STEPS and len(changes) <= _MOST_FINER:
            finer, now = finer.halved(), then
            then = kinds(on_one_device(PARTS(finer, theta)))
            changes.append(_moved_by(now, then))
            if changes[-1] <= _COARSE:
                break
        if not changes or changes[0] <= _COARSE:
            return functional, ""
        self.refined += 1
        what = f"half the step would move the residuals by {changes[0]:.2g} of their noise"
        if changes[-1] > _COARSE:
            self.refined = _MOST_REFINED
            cause = f"1/{2 ** len(changes)} of it by {changes[-1]:.2g}: something happens within a step"
            return functional, f"{what}, {cause}; use steps=adaptive, or state its time"
        return self._with(functional, functional.dt / 2 ** (len(changes) - 1), what)

    def _grown(self, functional: AbstractObjective, theta: Float[Array, " p"]) -> bool:
        """True if the stable step is much larger than the steps of the previous stages."""
        if self.stable is None or self.halved or functional.asked_dt is not None:
            return False
        try:
            return (stable_step(functional, theta) or 0.0) > _GROWN * self.stable
        except PdefitError:
            return False

    def most(self, functional: AbstractObjective, count: int) -> int | None:
        """Largest number of evaluations before steps are checked again, after `count` of them; None for unlimited.

        It does not depend on the clock, so that repeated fits renew their steps at the same points.
        """
        if not is_adaptive(functional) and not is_open(functional):
            return None
        return 1 if is_adaptive(functional) or count < _OFTEN else _SELDOM

    def looks(self, functional: AbstractObjective, count: int, accepted: bool, done: bool) -> bool:
        """True if steps are checked now.

        **Arguments:**

        - `functional`: the objective.
        - `count`: the number of evaluations so far.
        - `accepted`: whether a point of the last chunk was accepted.
        - `done`: whether the optimizer has finished.
        """
        most = self.most(functional, count)
        return most is not None and (accepted if is_adaptive(functional) else done or count % most == 0)

    def renew(self, functional: Objective, theta: Float[Array, " p"]) -> tuple[Objective, str]:
        """The functional with steps chosen at theta, and a sentence about it; unchanged if the steps are the same."""
        if self.blown_up:
            self.blown_up = False
            return self._halved(functional, theta)
        if not is_adaptive(functional):
            return self._restep(functional, theta)
        before = self.error
        try:
            renewed, _ = self.start(functional, theta)
        except PdefitError as error:
            self.error = None
            return functional, f"steps kept, error {before:.2g} of the tolerance: {error}"
        grid, old = renewed.time_grid, functional.time_grid
        if _same(grid, old):
            return functional, ""
        return renewed, f"steps renewed, error {before:.2g} of the tolerance, {old.steps} -> {grid.steps} steps"

    def _halved(self, functional: Objective, theta: Float[Array, " p"]) -> tuple[Objective, str]:
        """The functional with constant steps halved until J is finite, and a sentence about it.

        **Errors:** PdefitError that names such a step, if another step was given.
        """
        unit = with_space(functional.problem.system.time_unit)
        for dt in functional.dt * 0.5 ** np.arange(1, _HALVINGS + 1):
            finer = functional.each(lambda part, own, dt=dt: (with_dt(part, float(dt)), own), theta)[0]
            if not math.isfinite(value_of(finer, theta)):
                continue
            what = f"the model blows up at the guess with dt = {functional.dt:.3g}{unit}"
            if functional.asked_dt is not None:
                raise PdefitError(f"The loss is not finite at the first guess: {what}; set dt={dt:.3g} or less")
            return self._with(functional, float(dt), what)
        return functional, ""

    def _with(self, functional: Objective, dt: float, what: str) -> tuple[Objective, str]:
        """The functional with a smaller step than the stability limit, for a reason in words."""
        self.stable, self.halved = dt / steps_for(1.0, None, functional.asked_solver, MARGIN)[1], True
        chosen = f"{what}, so dt = {dt:.3g}{with_space(functional.problem.system.time_unit)} is taken"
        return stepped(functional, self.stable), chosen

    def _restep(self, functional: Objective, theta: Float[Array, " p"]) -> tuple[Objective, str]:
        """The functional with constant steps chosen at theta, and a sentence about it."""
        unit, share = with_space(functional.problem.system.time_unit), share_of_limit(functional, theta)
        before = f"{share:.2g} of the stability limit of dt = {functional.dt:.3g}{unit} at the best point"
        self.unstable = False
        try:
            stable = stable_step(functional, theta)
            renewed = stepped(functional, stable)
        except PdefitError as error:
            return functional, f"steps kept, {before}: {error}"
        self.stable = stable
        stages = [getattr(f.runner.solver, "stages", None) for f in (functional, renewed)]
        now = f"dt = {renewed.dt:.3g}{unit}" if functional.asked_dt is None else f"{stages[0]} -> {stages[1]} stages"
        return renewed, f"steps renewed, {before}, now {now}"

    def applied(self, functional: Objective) -> Objective:
        """The functional with the constant steps chosen last."""
        return functional if self.stable is None else stepped(functional, self.stable)

    def suited(self, functional: Objective, theta: Float[Array, " p"]) -> Objective:
        """The functional with steps for an evaluation at theta, which is not the best point."""
        try:
            if is_adaptive(functional):
                return functional.renewed(theta)
            return stepped(functional, stable_step(functional, theta)) if not suits(functional, theta) else functional
        except PdefitError:
            # frozen steps give some value even where the model blows up
            return functional

    # --- saving and going on -------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """Entries of this object in a saved state."""
        return dataclasses.asdict(self)

    def restored(self, functional: Objective, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> Objective:
        """The functional with the steps of a saved state.

        **Arguments:**

        - `functional`: the objective.
        - `numbers`: the result of `numbers`.
        - `arrays`: the arrays of the state.
        """
        vars(self).update({name: numbers[name] for name in vars(self)})
        if not is_adaptive(functional):
            return self.applied(functional)
        return functional.with_time_grid(saved_grid(arrays, functional.time_grid))


def are_coarse(now: Sequence[np.ndarray], then: Sequence[np.ndarray]) -> list[bool]:
    """Mask of members whose steps are too large, since half the step moves their residuals.

    **Arguments:** `now`, `then`: residuals of several kinds with present and with half steps, each (E, ...).
    """
    return [_moved_by([x[e] for x in now], [x[e] for x in then]) > _COARSE for e in range(len(now[0]))]


def _moved_by(now: Sequence[np.ndarray], then: Sequence[np.ndarray]) -> float:
    """Norm by which residuals move in parts of their noise; 0 if they are not finite, since no step is then known to suit.

    **Arguments:** `now`, `then`: residuals of several kinds, with the present and with other steps.
    """
    with np.errstate(all="ignore"):
        noise = max(1.0, squares(now) / max(sum(map(np.count_nonzero, now)), 1))
        change = math.sqrt(squares(map(np.subtract, then, now)) / noise)
    return change if math.isfinite(noise) and math.isfinite(change) else 0.0


def are_due(error: ArrayLike, chosen: ArrayLike) -> np.ndarray | np.bool_:
    """Mask of adaptive steps that no longer suit a point; false if their error is NaN.

    **Arguments:**

    - `error`: their error at the point, 1 at the tolerance.
    - `chosen`: their error at the point of their choice.
    """
    return (np.minimum(_LOW, _FALLEN * np.asarray(chosen)) > error) | (np.asarray(error) > _HIGH)


def saved_grid(arrays: dict[str, np.ndarray], like: TimeGrid) -> TimeGrid:
    """Frozen steps of a saved state.

    **Arguments:**

    - `arrays`: the arrays of the state.
    - `like`: the steps to be replaced.
    """
    start, step, count = (np.asarray(arrays[f"time_grid.{name}"]) for name in ("start", "step", "count"))
    return TimeGrid(start, step, count, step.shape[-1], like.observes_start)


def _same(a: TimeGrid, b: TimeGrid) -> bool:
    return a.step.shape == b.step.shape and bool(jnp.array_equal(a.step, b.step))
