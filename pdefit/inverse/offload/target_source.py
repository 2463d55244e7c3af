"""Where the observations come from, a few frames at a time."""

from typing import Protocol, runtime_checkable

import numpy as np

from pdefit.data.observations import Observations


@runtime_checkable
class TargetSource(Protocol):
    """Frames of a film, in any order, as often as they are needed."""

    @property
    def ts(self) -> np.ndarray:
        """The times of all frames."""
        ...

    def read(self, first: int, last: int) -> Observations:
        """Frames first..last-1. IndexError where there are none."""
        ...

    def prefetch(self, first: int, last: int) -> None:
        """A hint: these frames will be read next."""
        ...


class InMemory:
    """Observations that are in memory already."""

    def __init__(self, observations: Observations):
        self._observations = observations

    @property
    def ts(self) -> np.ndarray:
        return self._observations.ts

    def read(self, first: int, last: int) -> Observations:
        if not 0 <= first < last <= self.ts.size:
            raise IndexError(f"Frames below {self.ts.size} are expected, but got {first} to {last}")
        return self._observations.at(slice(first, last))

    def prefetch(self, first: int, last: int) -> None:
        """Nothing is faster than memory."""
