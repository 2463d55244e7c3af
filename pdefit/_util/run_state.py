"""The state of long work, from which it can be resumed."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class RunState:
    """The state of a fit, from which it can be resumed. Going on from it gives the same bits.

    **Arguments:**

    - `numbers`: the place of the fit (stage, round of reweighting, evaluations, events, ...), which survives JSON.
    - `arrays`: by name theta, the optimizer's state, the best point and the standard deviations in force.
    """

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def iterations(self) -> int:
        """The number of evaluations so far, equal to the number of rows of the history that belong to this state."""
        return int(self.numbers["iterations"])
