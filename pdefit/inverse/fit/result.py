"""The result of a fit, its history, its place in the stages, and its state between two chunks of evaluations."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.html import summarised, table
from pdefit._util.run_state import RunState
from pdefit.data.known import Known
from pdefit.data.observations import Observations
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.compiled import Equations, weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.problem import Problem


def saved_weights(
    saved: RunState, observations: Observations
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Float[Array, " p"]]:
    """Standard deviations before the stage and now, and the point before the stage, of a saved fit.

    **Errors:** ValueError if these cannot belong to the observations.
    """
    if not all(np.all(np.isfinite(x)) for name, x in saved.arrays.items() if "theta" in name):
        raise ValueError("its point is not finite")
    if np.ndim(saved.arrays["theta_before"]) != 1:
        raise ValueError("its point is no vector")
    # re-estimated standard deviations have shapes of their own
    names = observations.sigma
    before, now = ({n: saved.arrays[f"{a}['{n}']"] for n in names} for a in ("sigma_before", "sigma"))
    for name, value in {**now, **before}.items():
        if value.dtype.kind != "f" or not np.all(value > 0):
            raise ValueError(f"sigma of {name} is not positive")
        np.broadcast_to(value, observations.values[name].shape)
    return before, now, jnp.asarray(saved.arrays["theta_before"])


class Record(NamedTuple):
    """One evaluation in the history.

    **Arguments:**

    - `iteration`, `stage`: the numbers of the evaluation and of the stage, from 1.
    - `loss`, `gradient_norm`: J with the weights and steps of that time, and the norm of its gradient.
    - `accepted`: whether the optimizer accepted the point.
    - `seconds`: the seconds of the evaluation.
    - `theta`: the tabulated elements of theta, or None if there are none.
    - `step_error`: the largest error of adaptive steps, 1 at the tolerance; NaN for constant steps and rejected points.
    """

    iteration: int
    stage: int
    loss: float
    gradient_norm: float
    accepted: bool
    seconds: float
    theta: np.ndarray | None
    step_error: float = float("nan")


def records(log: Any, done: int, elapsed: float, before: int, stage: int, step_error: float | None) -> list[Record]:
    """Records of a chunk of evaluations.

    **Arguments:**

    - `log`: the log of the chunk.
    - `done`, `elapsed`: the number of its evaluations, and their seconds.
    - `before`: the number of earlier evaluations.
    - `stage`: the number of the stage, from 1.
    - `step_error`: the error of adaptive steps, or None.
    """
    new = []
    for i in range(done):
        loss, norm, accepted = float(log.loss[i]), float(log.gradient_norm[i]), bool(log.accepted[i])
        theta = np.asarray(log.theta[i]) if log.theta.shape[1] else None
        error = step_error if accepted and step_error is not None else float("nan")
        new.append(Record(before + i + 1, stage, loss, norm, accepted, elapsed / done, theta, error))
    return new


@dataclasses.dataclass(repr=False)
class Fit(Generic[Objective]):
    """Result of a fit: the estimate, its loss and its history.

    **Arguments:**

    - `functional`: the objective with the weights and windows of the last stage.
    - `theta`: the best point in search space, (p,).
    - `loss`, `loss_initial`: J at the best point and at the first guess.
    - `history`: all evaluations since the fit was last resumed.
    - `iterations`: the number of all evaluations.
    - `status`: `done` or `interrupted`.
    - `converged`: whether the last optimizer found a minimum.
    - `seconds`: the time for compilation and evaluation.
    - `events`: sentences about the events of the fit.
    - `equations`: the normal equations at theta, of every group of residuals and of all; None if the fit did not
      evaluate them.
    - `estimated`: the variables whose sigma a stage estimated from residuals.
    - `cost`: the approximate cost of an evaluation of the last optimizer, in forward runs.
    - `known`: known facts about the data of each recording, for the verdict; empty if none were stated.
    - `explored`: a sentence about other starts of the fit; empty without other starts.
    """

    functional: Objective
    theta: Float[Array, " p"]
    loss: float
    loss_initial: float
    history: list[Record]
    iterations: int
    status: str
    converged: bool
    seconds: dict[str, float]
    events: list[str]
    equations: Equations | None = None
    estimated: tuple[str, ...] = ()
    cost: float = 5.0
    known: Mapping[str, Known] = dataclasses.field(default_factory=dict)
    explored: str = ""

    @property
    def problem(self) -> Problem:
        """The problem at the best point. For many recordings it has a leading axis on every array."""
        return self.functional.at(self.theta)

    def _repr_html_(self) -> str:
        """Estimates of the controls, for notebooks; `pdefit.intervals` adds their uncertainty."""
        controls, values = self.functional.controls, self.functional.controls.values(self.theta)
        rows = [(c.path, c.unit, summarised(values[c.path])) for c in controls.items if not c.is_node]
        return table(("control", "unit", "estimate"), rows, [self._outcome(), *self.events])

    def __repr__(self) -> str:
        return f"Fit: {self._outcome()}"

    def _outcome(self) -> str:
        converged = "converged" if self.converged else "not converged"
        first = f"{self.loss_initial:.5g}" if np.isfinite(self.loss_initial) else "not finite at the guess"
        return f"{self.status}, {converged}, loss {first} to {self.loss:.5g} in {self.iterations} iterations"

    @functools.cached_property
    def recordings(self) -> "list[Fit[Functional]]":
        """One fit for each recording, with its functional and its part of theta."""
        parts = self.functional.parts(self.theta)
        if len(parts) == 1:
            return [self]  # pyright: ignore
        known = [{"": one} for one in self.known.values()] or [{}] * len(parts)
        each = zip(parts, known, strict=True)
        return [dataclasses.replace(self, functional=f, theta=own, known=k) for (f, own), k in each]  # pyright: ignore

    @functools.cached_property
    def residuals(self) -> dict[str, np.ndarray]:
        """The weighted residuals of every observation of a single record, by variable (S, I, ...), in host memory."""
        return weighted(self.functional, self.theta)


class Progress(NamedTuple):
    """A running fit, as passed to a callback after every chunk of evaluations.

    **Arguments:**

    - `stage`, `stages`: the index of the stage, from 0, and the number of stages.
    - `iteration`: the number of evaluations so far, of all stages.
    - `max_iterations`: the largest number of evaluations of this round.
    - `loss`: the smallest J of this round.
    - `records`: the evaluations of this chunk.
    - `functional`: the objective of this stage.
    - `theta`: the best point, (p,).
    - `state`: returns the state from which the fit can be resumed.
    """

    stage: int
    stages: int
    iteration: int
    max_iterations: int
    loss: float
    records: list[Record]
    functional: AbstractObjective
    theta: np.ndarray
    state: Callable[[], RunState]


@dataclasses.dataclass
class Place:
    """The place of a fit in its stages, as numbers and text for a file.

    **Arguments:**

    - `stage`, `round`, `count`: the stage, the round of reweighting in it, and the evaluations of that round.
    - `iterations`: evaluations of all stages together.
    - `windows`: the stage whose windows are in use, -1 for the windows of the functional itself.
    - `windows_before`: `windows` before this stage.
    - `settled`: whether reweighting has converged.
    - `watched`: whether growth of the adjoint has been explained.
    - `events`: sentences about the events.
    - `compiling`, `evaluating`: the seconds for each.
    """

    stage: int = 0
    round: int = 0
    count: int = 0
    iterations: int = 0
    windows: int = -1
    windows_before: int = -1
    settled: bool = False
    watched: bool = False
    events: tuple[str, ...] = ()
    compiling: float = 0.0
    evaluating: float = 0.0

    def as_numbers(self) -> dict[str, Any]:
        """The place as numbers, flags and lists, for JSON."""
        return {**dataclasses.asdict(self), "events": list(self.events)}

    @classmethod
    def from_numbers(cls, numbers: dict[str, Any]) -> "Place":
        """The place from the result of `as_numbers`.

        **Errors:** ValueError if a number is missing, negative, or of another type.
        """
        if not isinstance(numbers["events"], list):
            raise ValueError("events are no list")
        place = cls(**{**numbers, "events": tuple(numbers["events"])})
        for field in dataclasses.fields(cls):
            value, like = getattr(place, field.name), field.default
            if type(value) is not type(like) or (type(like) in (int, float) and value < like):
                raise ValueError(f"{field.name} is {value!r}")
        if not all(isinstance(event, str) for event in place.events):
            raise ValueError("events are no text")
        return place
