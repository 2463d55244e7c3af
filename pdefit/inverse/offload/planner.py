"""Checkpoints within a memory budget, chosen before anything runs, from integers alone."""

import dataclasses
import math
from collections.abc import Iterator, Mapping

from pdefit._util.errors import PdefitError
from pdefit.integrate.loop.checkpoint_levels import MOST_LEVELS, CheckpointLevels, nest
from pdefit.inverse.offload._revolve import Binomial
from pdefit.inverse.offload.schedule import AbstractSchedule, KeepAll, StorageTier


def choose_schedule(blocks: int, slots: Mapping[StorageTier, int]) -> AbstractSchedule:
    """The schedule that stores every state if there is room, else the one with the least recomputation.

    **Arguments:**

    - `blocks`: the number of blocks of the trajectory.
    - `slots`: the number of checkpoints in each tier.
    """
    enough = sum(slots.values()) >= blocks
    return KeepAll(blocks, slots) if enough else Binomial(blocks, slots)


@dataclasses.dataclass(frozen=True)
class Chunking:
    """The size of the pieces of a trajectory, each of several intervals or a part of one.

    **Arguments:**

    - `group`: the number of intervals of a piece; one if it is a part of an interval.
    - `length`: the number of steps of a piece in each interval.
    """

    group: int
    length: int

    def count(self, intervals: int, steps: int) -> int:
        """The number of pieces of a trajectory.

        **Arguments:**

        - `intervals`, `steps`: the number of intervals of the trajectory, and of steps in each.
        """
        return -(-intervals * -(-steps // self.length) // self.group)


@dataclasses.dataclass(frozen=True)
class OffloadPlan:
    """Plan for a trajectory run in pieces, with states stored outside the device.

    **Arguments:**

    - `intervals`, `steps`: the number of intervals of the trajectory, and of steps in each.
    - `cut`: the size of the pieces.
    - `nest`: the loops inside a piece, on the device.
    - `schedule`: the schedule of stored states.
    """

    intervals: int
    steps: int
    cut: Chunking
    nest: CheckpointLevels
    schedule: AbstractSchedule

    @property
    def recompute_factor(self) -> float:
        """Number of steps executed by a gradient, relative to the number of steps of the trajectory."""
        executed = self.schedule.advanced + self.nest.recompute_factor * self.schedule.blocks
        return executed * self.nest.padded / (self.intervals * self.steps)

    @property
    def cost(self) -> float:
        """`recompute_factor` plus the cost of moving states: about two steps for each executed piece."""
        moved = 2 * self.schedule.executed / (self.intervals * self.steps)
        return self.recompute_factor + moved

    def __str__(self) -> str:
        whole = self.cut.length == self.steps
        each = f"{self.cut.group} intervals" if whole else f"{self.cut.length} steps"
        return f"{self.schedule.describe()}; {self.schedule.blocks} pieces of {each}, each {self.nest}"


def plan_offload(intervals: int, steps: int, device_states: int, slots: Mapping[StorageTier, int]) -> OffloadPlan:
    """The cheapest plan for a trajectory in pieces.

    **Arguments:**

    - `intervals`, `steps`: the number of intervals of the trajectory, and of steps in each.
    - `device_states`: the number of states that fit on the device.
    - `slots`: the number of checkpoints in each tier.
    """
    # of equally cheap ones the first
    best = min(_candidates(intervals, steps, device_states, slots), key=lambda plan: plan.cost, default=None)
    if best is None:
        raise PdefitError(
            f"The device's budget holds {device_states} states and the checkpoints' {sum(slots.values())}; differentiating "
            f"one step takes 2, and going back 1: set driver.device, driver.host or driver.file higher"
        )
    return best


def _candidates(
    intervals: int, steps: int, device_states: int, slots: Mapping[StorageTier, int]
) -> Iterator[OffloadPlan]:
    """For every number of levels the largest pieces that fit, and some smaller ones that may need less padding."""
    if sum(slots.values()) < 1:
        return
    for levels in range(1, MOST_LEVELS + 1):
        tried = 0
        for cut in _cuts(intervals, steps):
            inner = nest(cut.group, cut.length, levels)
            if inner.stored <= device_states:
                yield OffloadPlan(intervals, steps, cut, inner, choose_schedule(cut.count(intervals, steps), slots))
                tried += 1
            if tried == 8:
                break


def _cuts(intervals: int, steps: int) -> Iterator[Chunking]:
    """Pieces of whole intervals, then of equal parts of one, the largest first."""
    size = intervals
    while size >= 1:
        yield Chunking(size, steps)
        size = min(size - 1, int(size / 1.1)) if size > 1 else 0
    parts = 2
    while parts < steps:
        yield Chunking(1, math.ceil(steps / parts))
        parts = max(parts + 1, int(parts * 1.1))
    yield Chunking(1, 1)
