"""Checkpoint schedules: the actions of a reverse sweep, their interface, and the schedule that keeps every state.

A trajectory is cut into blocks 0..n-1. State j is the state before block j: state 0 is the initial one, state n the
final one. There is one current state at a time. Actions are plain integers, executed elsewhere.
"""

import abc
import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class StorageTier(enum.IntEnum):
    """Media for checkpoints, the fastest first."""

    HOST = 0
    FILE = 1


class Advance(NamedTuple):
    """Action: run blocks first..last-1, from the current state `first` to state `last`."""

    first: int
    last: int


class Store(NamedTuple):
    """Action: store the current state as a checkpoint, and keep it current.

    **Arguments:**

    - `state`: the index of the state.
    - `tier`, `slot`: its place; the earlier content of the slot is overwritten.
    """

    state: int
    tier: StorageTier
    slot: int


class Restore(NamedTuple):
    """Action: load a checkpoint as the current state. It stays stored.

    **Arguments:**

    - `state`: the index of the state.
    - `tier`, `slot`: its place.
    """

    state: int
    tier: StorageTier
    slot: int


class Reverse(NamedTuple):
    """Action: rerun a block from the current state, and then run its adjoint.

    Afterwards there is no current state.
    """

    block: int


Action = Advance | Store | Restore | Reverse


_PLACES = {StorageTier.HOST: "in host memory", StorageTier.FILE: "in the file"}


@dataclasses.dataclass(frozen=True)
class AbstractSchedule(abc.ABC):
    """Order in which the blocks of a trajectory are run, stored and reversed.

    The first sweep runs every block, because the value of an objective of the final state is needed before the first
    block is reversed. So the objective acts as one more block without cost. In sweeps that stop before the last block,
    n + 1 blocks need as many advances as n blocks do here. State 0 takes a slot like any other.

    **Arguments:**

    - `blocks`: the number of blocks.
    - `slots`: the largest number of checkpoints in each tier.
    """

    blocks: int
    slots: Mapping[StorageTier, int]

    def __post_init__(self):
        if self.blocks < 1:
            raise ValueError(f"A schedule expects at least one block, but got {self.blocks}")
        if min(self.slots.values(), default=0) < 0 or sum(self.slots.values()) < self.least_slots:
            name = type(self).__name__
            raise ValueError(f"{name} expects at least {self.least_slots} slots, but got {dict(self.slots)}")

    @property
    @abc.abstractmethod
    def least_slots(self) -> int:
        """Smallest number of slots for which this schedule exists."""

    @abc.abstractmethod
    def actions(self) -> Iterator[Action]:
        """The actions in order, generated one by one."""

    @property
    @abc.abstractmethod
    def advanced(self) -> int:
        """Number of blocks run by all `Advance` actions together."""

    @abc.abstractmethod
    def describe(self) -> str:
        """One-line description of the schedule."""

    @property
    def peak(self) -> dict[StorageTier, int]:
        """Number of used slots by tier: at most the number of blocks, the fastest tiers first."""
        left, used = self.blocks, {}
        for tier in sorted(self.slots):
            used[tier] = min(left, self.slots[tier])
            left -= used[tier]
        return used

    @property
    def executed(self) -> int:
        """Number of blocks run by a whole gradient; each block is run once more when it is reversed."""
        return self.advanced + self.blocks

    @property
    def storage(self) -> str:
        """The used slots, in words."""
        used = {tier: count for tier, count in self.peak.items() if count}
        total = sum(used.values())
        checkpoints = f"{total} checkpoint{'s' if total > 1 else ''}"
        if len(used) == 1:
            return f"{checkpoints} {_PLACES[next(iter(used))]}"
        return f"{checkpoints} ({', '.join(f'{count} {_PLACES[tier]}' for tier, count in used.items())})"


@dataclasses.dataclass(frozen=True)
class KeepAll(AbstractSchedule):
    """The schedule with one checkpoint for each block.

    The last states, which the reverse sweep needs first, are in the fastest tier.
    """

    @property
    def least_slots(self) -> int:
        return self.blocks

    def actions(self) -> Iterator[Action]:
        used = sorted(self.peak.items())
        state = 0
        for tier, count in reversed(used):
            for slot in range(count):
                yield Store(state, tier, slot)
                yield Advance(state, state + 1)
                state += 1
        for tier, count in used:
            for slot in reversed(range(count)):
                state -= 1
                yield Restore(state, tier, slot)
                yield Reverse(state)

    @property
    def advanced(self) -> int:
        return self.blocks

    def describe(self) -> str:
        return f"store-all, {self.storage}"
