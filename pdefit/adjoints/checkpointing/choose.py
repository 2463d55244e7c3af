"""The schedule for a trajectory and a budget."""

from collections.abc import Mapping

from pdefit.adjoints.checkpointing.actions import Tier
from pdefit.adjoints.checkpointing.revolve import Binomial
from pdefit.adjoints.checkpointing.schedule import AbstractSchedule
from pdefit.adjoints.checkpointing.store_all import StoreAll


def choose_schedule(blocks: int, slots: Mapping[Tier, int]) -> AbstractSchedule:
    """Store every state where there is room for all, else recompute as few blocks as possible."""
    enough = sum(slots.values()) >= blocks
    return StoreAll(blocks, slots) if enough else Binomial(blocks, slots)
