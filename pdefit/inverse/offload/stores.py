"""Storage outside the device: checkpoints of states, and observations read a few frames at a time."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array

from pdefit.data.observations import Observations

# states that a store with a slow medium may hold in memory: two being written, two being read
IN_FLIGHT = 4


@runtime_checkable
class CheckpointStore(Protocol):
    """Numbered slots, each for one state: the leaves of its tree, in order.

    Writes and hints may return early. A read returns what was written last.
    """

    def write(self, slot: int, leaves: Sequence[Array | np.ndarray]) -> None:
        """Store a copy of some arrays in a slot. They may be donated or changed once this returns."""
        ...

    def read(self, slot: int) -> list[np.ndarray]:
        """The arrays of a slot, bit for bit. KeyError for an empty slot."""
        ...

    def prefetch(self, slot: int) -> None:
        """Announce that this slot will be read next."""
        ...

    def close(self) -> None:
        """Drop all checkpoints."""
        ...


class HostStore:
    """Checkpoints as NumPy arrays in the memory of the host."""

    def __init__(self):
        self._kept: dict[int, list[np.ndarray]] = {}

    def write(self, slot: int, leaves: Sequence[Array | np.ndarray]) -> None:
        # on a CPU np.asarray would alias a buffer that the next step may take over
        arrays = [np.array(leaf, copy=True) for leaf in leaves]
        for array in arrays:
            # arrays that were read must not change later: a new state takes new arrays
            array.flags.writeable = False
        self._kept[slot] = arrays

    def read(self, slot: int) -> list[np.ndarray]:
        if slot not in self._kept:
            raise KeyError(f"Slot {slot} holds no checkpoint")
        return list(self._kept[slot])

    def prefetch(self, slot: int) -> None:
        """No effect, since the data are already in memory."""

    def close(self) -> None:
        self._kept.clear()


@runtime_checkable
class TargetSource(Protocol):
    """A source of the frames of a record, in any order and as often as needed."""

    @property
    def ts(self) -> np.ndarray:
        """The times of all frames."""
        ...

    def read(self, first: int, last: int) -> Observations:
        """Observations in frames first..last-1. IndexError if there are none."""
        ...

    def prefetch(self, first: int, last: int) -> None:
        """Announce that frames first..last-1 will be read next."""
        ...


class InMemory:
    """A source of observations that are already in memory."""

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
        """No effect, since the data are already in memory."""
