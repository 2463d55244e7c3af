"""The saved state of a fit, from which it resumes."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class RunState:
    """The state of a fit, from which it can be resumed. A resumed fit gives the same bits.

    **Arguments:**

    - `numbers`: the position of the fit (stage, round of reweighting, evaluations, events, ...), stored in JSON.
    - `arrays`: by name: theta, the optimizer's state, the best point and the current standard deviations.
    """

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def iterations(self) -> int:
        """Number of evaluations so far, equal to the number of history rows of this state."""
        return int(self.numbers["iterations"])
