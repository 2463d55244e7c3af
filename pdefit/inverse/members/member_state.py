"""Points of all members of a run with their history, and the progress passed to callbacks."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from pdefit._util.run_state import RunState


@dataclasses.dataclass(frozen=True)
class MemberProgress:
    """Progress of many fits, the argument of callbacks.

    **Arguments:**

    - `stage`, `stages`: the index of the stage, from 0, and the number of stages.
    - `finished`, `members`: the number of members that have finished the stage, and of all members.
    - `evaluations`: the number of evaluations so far, in all members and stages.
    - `state`: returns the state from which the fits can be resumed.
    """

    stage: int
    stages: int
    finished: int
    members: int
    evaluations: int
    state: Callable[[], RunState]


class Now(NamedTuple):
    """The state of all members, and their histories.

    **Arguments:**

    - `theta`, `loss`: the points, (E, p), and J there.
    - `converged`: whether each member ended in a minimum.
    - `evaluations`, `used`: the number of evaluations of each so far, and in this stage.
    - `error`, `chosen`: the errors of adaptive steps, at these points and at the points of their choice; NaN for
      constant steps.
    - `ended`: whether each has finished this stage.
    - `anew`: whether each began this stage from its start.
    """

    theta: Float[np.ndarray, "E p"]
    loss: Float[np.ndarray, " E"]
    converged: Bool[np.ndarray, " E"]
    evaluations: Int[np.ndarray, " E"]
    used: Int[np.ndarray, " E"]
    error: Float[np.ndarray, " E"]
    chosen: Float[np.ndarray, " E"]
    ended: Bool[np.ndarray, " E"]
    anew: Bool[np.ndarray, " E"]

    @staticmethod
    def at(theta: Float[np.ndarray, "E p"]) -> "Now":
        """The state before the first evaluation."""
        none = [np.zeros(len(theta), int) for _ in range(2)], [np.full(len(theta), np.nan) for _ in range(2)]
        no = [np.zeros(len(theta), bool) for _ in range(3)]
        return Now(theta, np.full(len(theta), np.inf), no[0], *none[0], *none[1], *no[1:])
