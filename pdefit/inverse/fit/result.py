"""What a fit tells while it runs, and what it leaves."""

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.fit.run_state import RunState
from pdefit.inverse.objective.abstract import Objective
from pdefit.inverse.problem.problem import Problem


class Record(NamedTuple):
    """One evaluation, as the history keeps it. `loss` belongs to the weights and steps in force at the time; `step_error` to
    those steps, in units of the tolerance (NaN for constant steps, and where a point was rejected)."""

    iteration: int
    stage: int
    loss: float
    gradient_norm: float
    accepted: bool
    seconds: float
    theta: np.ndarray | None
    step_error: float = float("nan")


@dataclasses.dataclass
class Fit(Generic[Objective]):
    """What a fit found: `functional` with the weights and windows of its last stage, `theta` the best point there; `loss`
    and `loss_initial` are its values there and at the first guess; `iterations` counts all evaluations, `history` holds
    those since the fit was last resumed."""

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

    @property
    def problem(self) -> Problem:
        """The problem at the best point; of many recordings with a leading axis on every array."""
        return self.functional.at(self.theta)


class Progress(NamedTuple):
    """What a callback learns after every chunk of evaluations."""

    stage: int
    stages: int
    iteration: int
    max_iterations: int
    loss: float
    records: list[Record]
    functional: Any
    theta: np.ndarray
    state: Callable[[], RunState]
