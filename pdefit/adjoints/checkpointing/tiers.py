"""Which checkpoint lives in which tier."""

import itertools
from collections.abc import Mapping, Sequence

from pdefit.adjoints.checkpointing.actions import Tier


def place(accesses: Sequence[int], slots: Mapping[Tier, int]) -> list[tuple[Tier, int]]:
    """Tier and slot for each checkpoint of a stack: the most often used in the fastest tier, among equals the newest.

    Source: Stumm and Walther (2009), doi:10.1137/080718036.
    """
    most_used = sorted(range(len(accesses)), key=lambda i: (accesses[i], i), reverse=True)
    fastest = (tier for tier in sorted(slots) for _ in range(slots[tier]))
    tier_of = dict(zip(most_used, fastest, strict=False))
    number = {tier: itertools.count() for tier in slots}
    return [(tier_of[i], next(number[tier_of[i]])) for i in range(len(accesses))]
