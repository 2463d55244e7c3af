"""Sources of observations that give a few frames at a time."""

from typing import Protocol, runtime_checkable

import numpy as np

from pdefit.data.observations import Observations


@runtime_checkable
class TargetSource(Protocol):
    """A source of the frames of a record, in any order and as often as they are needed."""

    @property
    def ts(self) -> np.ndarray:
        """The times of all frames."""
        ...

    def read(self, first: int, last: int) -> Observations:
        """The observations in frames first..last-1. IndexError where there are none."""
        ...

    def prefetch(self, first: int, last: int) -> None:
        """Announce that frames first..last-1 will be read next."""
        ...


class InMemory:
    """A source of observations that are in memory already."""

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
        """Nothing to do: nothing is faster than memory."""
