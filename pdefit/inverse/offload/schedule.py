"""Checkpoint schedules: the actions of a reverse sweep, their interface, and the one that keeps every state.

A trajectory is cut into blocks 0..n-1. State j is the state before block j: state 0 is the initial one, state n the final
one. One state is in hand at a time. Actions are plain integers, executed elsewhere.
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
    """The action of running blocks first..last-1: state `first`, which is in hand, becomes state `last`."""

    first: int
    last: int


class Store(NamedTuple):
    """The action of keeping the state in hand as a checkpoint, and going on with it.

    **Arguments:**

    - `state`: the number of the state.
    - `tier`, `slot`: its place. The earlier content of the slot is lost.
    """

    state: int
    tier: StorageTier
    slot: int


class Restore(NamedTuple):
    """The action of taking a checkpoint in hand. It stays stored.

    **Arguments:**

    - `state`: the number of the state.
    - `tier`, `slot`: its place.
    """

    state: int
    tier: StorageTier
    slot: int


class Reverse(NamedTuple):
    """The action of running a block, whose state is in hand, once more and then its adjoint.

    Afterwards no state is in hand.
    """

    block: int


Action = Advance | Store | Restore | Reverse


_PLACES = {StorageTier.HOST: "in host memory", StorageTier.FILE: "in the file"}


@dataclasses.dataclass(frozen=True)
class AbstractSchedule(abc.ABC):
    """The order in which a trajectory of blocks is run, stored and reversed.

    The first sweep runs every block, because the value of an objective of the final state is needed before the first
    block is reversed. So the objective takes the place of one more block that costs nothing. If a sweep stops before
    the last block, n + 1 blocks need as many advances as n blocks do here. State 0 takes a slot as any other.

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
        """The smallest number of slots with which this schedule exists."""

    @abc.abstractmethod
    def actions(self) -> Iterator[Action]:
        """The actions in their order, made one by one."""

    @property
    @abc.abstractmethod
    def advanced(self) -> int:
        """The number of blocks run by all `Advance` together."""

    @abc.abstractmethod
    def describe(self) -> str:
        """The schedule in one line of text."""

    @property
    def peak(self) -> dict[StorageTier, int]:
        """The number of slots in use by tier: no more than there are blocks, the fastest tiers first."""
        left, used = self.blocks, {}
        for tier in sorted(self.slots):
            used[tier] = min(left, self.slots[tier])
            left -= used[tier]
        return used

    @property
    def executed(self) -> int:
        """The number of blocks run by a whole gradient: each is run once more when it is reversed."""
        return self.advanced + self.blocks

    @property
    def storage(self) -> str:
        """The slots in use, in words."""
        used = {tier: count for tier, count in self.peak.items() if count}
        total = sum(used.values())
        checkpoints = f"{total} checkpoint{'s' if total > 1 else ''}"
        if len(used) == 1:
            return f"{checkpoints} {_PLACES[next(iter(used))]}"
        return f"{checkpoints} ({', '.join(f'{count} {_PLACES[tier]}' for tier, count in used.items())})"


@dataclasses.dataclass(frozen=True)
class KeepAll(AbstractSchedule):
    """The schedule with one checkpoint for each block.

    The last states, which the reverse sweep needs first, lie in the fastest tier.
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
