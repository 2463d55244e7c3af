"""Every state is kept: nothing is recomputed."""

import dataclasses
from collections.abc import Iterator

from pdefit.adjoints.checkpointing.actions import Action, Advance, Restore, Reverse, Store
from pdefit.adjoints.checkpointing.schedule import AbstractSchedule


@dataclasses.dataclass(frozen=True)
class StoreAll(AbstractSchedule):
    """One checkpoint for each block. The last states, which the reverse sweep needs first, lie in the fastest tier."""

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
