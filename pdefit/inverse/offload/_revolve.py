"""Binomial checkpointing (Revolve): the least recomputation for a number of checkpoints."""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pdefit.inverse.offload.schedule import AbstractSchedule, Action, Advance, Restore, Reverse, StorageTier, Store


def place(accesses: Sequence[int], slots: Mapping[StorageTier, int]) -> list[tuple[StorageTier, int]]:
    """Tier and slot for each checkpoint of a stack.

    The most often used checkpoint gets the fastest tier; ties go to the newest.

    **Arguments:**

    - `accesses`: the number of writes and reads of each checkpoint, oldest first.
    - `slots`: the number of slots in each tier.

    Source: P. Stumm, A. Walther, SIAM J. Sci. Comput. 31:1946 (2009), doi:10.1137/080718036.
    """
    most_used = sorted(range(len(accesses)), key=lambda i: (accesses[i], i), reverse=True)
    fastest = (tier for tier in sorted(slots) for _ in range(slots[tier]))
    tier_of = dict(zip(most_used, fastest, strict=False))
    number = {tier: itertools.count() for tier in slots}
    return [(tier_of[i], next(number[tier_of[i]])) for i in range(len(accesses))]


@dataclasses.dataclass(frozen=True)
class Binomial(AbstractSchedule):
    """Schedule with the least recomputation for its number of slots (Revolve).

    With s slots and r repetitions C(s + r, s) blocks can be reversed. Of n + 1 blocks (the objective is one of them)

        advanced = r (n + 1) - C(s + r, r - 1)      where C(s + r - 1, s) < n + 1 <= C(s + r, s)

    Slots form a stack of checkpoints, oldest first. The most often used ones are in the fastest tier. Among equal
    schedules, this one has the longest first advance.

    Source: A. Griewank, A. Walther, ACM Trans. Math. Softw. 26:19 (2000), doi:10.1145/347837.347846; the tiers follow
    P. Stumm, A. Walther, SIAM J. Sci. Comput. 31:1946 (2009), doi:10.1137/080718036.
    """

    @property
    def least_slots(self) -> int:
        return 1

    def actions(self) -> Iterator[Action]:
        count = sum(self.peak.values())
        where = place(accesses(self.blocks, count), self.slots)
        # blocks from `end` on are reversed; the objective stands for block n
        stored, end, in_hand = [0], self.blocks + 1, 0
        yield Store(0, *where[0])
        while True:
            first = stored[-1]
            if in_hand != first:
                yield Restore(first, *where[len(stored) - 1])
            last = first + split(end - first, count - len(stored) + 1)
            if last > first:
                yield Advance(first, last)
            if last < end - 1:
                yield Store(last, *where[len(stored)])
                stored.append(last)
                in_hand = last
                continue
            if last < self.blocks:
                yield Reverse(last)
            end, in_hand = last, None
            if end == first:
                stored.pop()
            if not stored:
                return

    @property
    def advanced(self) -> int:
        return advances(self.blocks, sum(self.peak.values()))

    def describe(self) -> str:
        return f"binomial, {self.storage}, {self.executed / self.blocks:.1f} x"


def advances(blocks: int, slots: int) -> int:
    """Smallest number of blocks advanced in a sweep through all of them and their reversal."""
    length = blocks + 1
    # one slot takes as many repetitions as there are blocks: no search
    repetitions = blocks if slots == 1 else _repetitions(length, slots)[0]
    return repetitions * length - math.comb(slots + repetitions, repetitions - 1)


def split(length: int, slots: int) -> int:
    """Number of blocks to advance from a stored state. If one block is then left, no checkpoint is placed.

    **Arguments:**

    - `length`: the number of blocks to reverse.
    - `slots`: the number of free slots, including the slot of the stored state.
    """
    if slots == 1 or length == 1:
        return length - 1
    repetitions, before = _repetitions(length, slots)
    # C(s + r - 2, s - 1): the fewest blocks that the rest may keep
    rest = before * slots // (slots + repetitions - 1)
    return min(before, length - rest)


def accesses(blocks: int, slots: int) -> list[int]:
    """Number of writes and reads of each slot, counted for all segments of one length at once."""
    used = [0] * slots
    # segments that start from this slot, by length; few lengths differ
    segments = Counter({blocks + 1: 1})
    for slot in range(slots):
        free, deeper = slots - slot, Counter[int]()
        for length, times in segments.items():
            used[slot] += times
            if free == 1:
                used[slot] += times * (length - 1)
                continue
            while length > 1:
                last = split(length, free)
                if length - last > 1:
                    deeper[length - last] += times
                used[slot] += times
                length = last
        segments = deeper
    return used


def _repetitions(length: int, slots: int) -> tuple[int, int]:
    """Smallest r with C(s + r, s) >= length, and C(s + r - 1, s)."""
    repetitions, before, reach = 0, 0, 1
    while reach < length:
        repetitions += 1
        before, reach = reach, reach * (slots + repetitions) // repetitions
    return repetitions, before
