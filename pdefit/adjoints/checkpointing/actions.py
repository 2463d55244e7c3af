"""Actions of a reverse sweep through time: plain integers, executed elsewhere.

A trajectory is cut into blocks 0..n-1. State j is the state before block j: state 0 is the initial one, state n the final
one. One state is in hand at a time.
"""

import enum
from typing import NamedTuple


class StorageTier(enum.IntEnum):
    """Media for checkpoints, the fastest first."""

    HOST = 0
    FILE = 1


class Advance(NamedTuple):
    """Run blocks first..last-1: state `first`, which is in hand, becomes state `last`."""

    first: int
    last: int


class Store(NamedTuple):
    """Keep the state in hand, and go on with it; whatever the slot held before is gone."""

    state: int
    tier: StorageTier
    slot: int


class Restore(NamedTuple):
    """Take a checkpoint in hand. It stays stored."""

    state: int
    tier: StorageTier
    slot: int


class Reverse(NamedTuple):
    """Run a block, whose state is in hand, once more and then its adjoint. Afterwards no state is in hand."""

    block: int


Action = Advance | Store | Restore | Reverse
