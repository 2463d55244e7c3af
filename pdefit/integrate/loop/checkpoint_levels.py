"""Nesting of the time loop: one loop for each level of checkpoints.

The loop lengths are integers, chosen before anything is traced.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

from pdefit._util.errors import PdefitError

# with four levels a million steps fit into 130 states; each costs one more forward run
MOST_LEVELS = 4


class CheckpointLevels(NamedTuple):
    """Loops over groups of intervals, intervals, groups of steps, and steps, outermost first.

    Every loop is one level of checkpoints: it stores the state at each of its iterations for the reverse pass. A level
    costs one more run of the trajectory, because the reverse pass of an iteration begins by repeating it.

    **Arguments:**

    - `intervals`: the lengths of the loops over intervals; their product is at least the number of intervals.
    - `steps`: the lengths of the loops over the steps of one interval; their product is at least the number of steps.
    - `merged`: whether the innermost loop over intervals and the outermost over steps form one level, with blocks that
      span several intervals.
    """

    intervals: tuple[int, ...]
    steps: tuple[int, ...]
    merged: bool

    @property
    def levels(self) -> int:
        """Number of levels of checkpoints."""
        return len(self.intervals) + len(self.steps) - self.merged

    @property
    def stored(self) -> int:
        """Number of states that the reverse pass holds at its peak."""
        inner, outer = self.steps, self.intervals
        if self.merged:
            # the end of every interval is kept beside its steps, for what is observed there; and the steps of the interval
            # in work lie beside those of the block until it is done
            in_work = inner[0] if outer[-1] > 1 else 0
            return sum(outer[:-1]) + outer[-1] * (inner[0] + 1) + in_work + sum(inner[1:])
        return sum(outer) + sum(inner)

    @property
    def padded(self) -> int:
        """Number of steps of one pass, including steps of zero length."""
        return math.prod(self.intervals) * math.prod(self.steps)

    @property
    def recompute_factor(self) -> float:
        """Forward runs of the trajectory for a gradient: one, and one more for each level."""
        return 1.0 + self.levels

    def __str__(self) -> str:
        names = {1: "store-all", 2: "two-level", 3: "three-level", 4: "four-level"}
        shape = " x ".join(map(str, self.intervals)) + " intervals, " + " x ".join(map(str, self.steps)) + " steps"
        return f"{names[self.levels]} ({shape})"


@functools.lru_cache(maxsize=256)
def nest(intervals: int, steps: int, levels: int) -> CheckpointLevels:
    """The nesting with the fewest stored states, or a few more if that avoids padding, which costs time.

    **Arguments:**

    - `intervals`: the number of intervals of the trajectory.
    - `steps`: the number of steps of each interval.
    - `levels`: the number of levels of checkpoints.
    """
    if not 1 <= levels <= MOST_LEVELS:
        raise PdefitError(f"Checkpoints have 1 to {MOST_LEVELS} levels, but {levels} are asked for")

    # padding is run in every pass and states are only held, so steps count more: a tenth more of them must save a sixth
    # of the states
    def badness(n: CheckpointLevels) -> float:
        return n.stored * (n.padded / (intervals * steps)) ** 2

    return min(_candidates(intervals, steps, levels), key=badness)


def cheapest(intervals: int, steps: int, most_states: float | int) -> CheckpointLevels | None:
    """The nesting with the fewest levels that stores at most `most_states` states; None if there is none.

    **Arguments:** as in `nest`, and

    - `most_states`: the largest number of stored states.
    """
    loops = (nest(intervals, steps, levels) for levels in range(1, MOST_LEVELS + 1))
    return next((n for n in loops if n.stored <= most_states), None)


def _candidates(intervals: int, steps: int, levels: int) -> Iterator[CheckpointLevels]:
    """Nestings worth comparing.

    On each side of the boundary between intervals and steps at most one loop is unbalanced.
    """
    for outer in range(1, levels + 1):
        inner = levels - outer
        if inner:
            yield CheckpointLevels(_split(intervals, outer), _split(steps, inner), merged=False)
        # merged: groups of whole intervals, or parts of intervals
        if inner == 0:
            for group in _around(intervals) if outer > 1 else [intervals]:
                yield CheckpointLevels((*_split(math.ceil(intervals / group), outer - 1), group), (steps,), merged=True)
        elif outer == 1:
            for part in _around(steps):
                yield CheckpointLevels((intervals,), (part, *_split(math.ceil(steps / part), inner)), merged=True)


def _split(n: int, k: int) -> tuple[int, ...]:
    """k factors with a product of at least n and, nearly, the smallest sum."""
    if k == 0:
        return ()
    if k == 1:
        return (n,)
    near = round(n ** (1 / k))
    firsts = range(max(1, near - 3), near + 4)
    return min(((f, *_split(math.ceil(n / f), k - 1)) for f in firsts), key=lambda s: (sum(s), math.prod(s)))


def _around(n: int) -> list[int]:
    """Group sizes up to n: all small ones, then sizes in steps of 5 %."""
    sizes, size = [], 1
    while size < n:
        sizes.append(size)
        size = max(size + 1, int(size * 1.05))
    return [*sizes, n]
