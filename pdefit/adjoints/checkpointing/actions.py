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
    """The action of running blocks first..last-1: state `first`, which is in hand, becomes state `last`."""

    first: int
    last: int


class Store(NamedTuple):
    """The action of keeping the state in hand as a checkpoint, and going on with it.

    **Arguments:**

    - `state`: the number of the state.
    - `tier`, `slot`: where it is kept. What the slot held before is gone.
    """

    state: int
    tier: StorageTier
    slot: int


class Restore(NamedTuple):
    """The action of taking a checkpoint in hand. It stays stored.

    **Arguments:**

    - `state`: the number of the state.
    - `tier`, `slot`: where it is kept.
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
