"""The schedule for a trajectory and a budget."""

from collections.abc import Mapping

from pdefit.integrate.schedule.actions import Tier
from pdefit.integrate.schedule.base import AbstractSchedule
from pdefit.integrate.schedule.binomial import Binomial
from pdefit.integrate.schedule.store_all import StoreAll


def choose_schedule(blocks: int, slots: Mapping[Tier, int]) -> AbstractSchedule:
    """Store every state where there is room for all, else recompute as few blocks as possible."""
    enough = sum(slots.values()) >= blocks
    return StoreAll(blocks, slots) if enough else Binomial(blocks, slots)
