"""Loops in loops: they cover every step, hold few states, and no other nest of the same form holds fewer."""

import itertools
import math

import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.integrate.loop.checkpoint_levels import MOST_LEVELS, CheckpointLevels, cheapest, nest

SIZES = [
    (1, 1),
    (1, 2),
    (2, 1),
    (3, 7),
    (9, 4),
    (100, 10),
    (101, 10),
    (97, 13),
    (1, 1000),
    (2, 500),
    (1000, 1),
    (7, 10007),
]


@pytest.mark.parametrize("levels", range(1, MOST_LEVELS + 1))
@pytest.mark.parametrize(("intervals", "steps"), SIZES)
def test_every_step_is_covered_and_few_states_are_held(intervals, steps, levels):
    found = nest(intervals, steps, levels)
    assert found.levels == levels and found.recompute_factor == 1 + levels
    assert math.prod(found.intervals) >= intervals and math.prod(found.steps) >= steps
    n = intervals * steps
    assert found.padded <= 1.15 * n
    # where every step is observed, the end of every interval counts twice
    assert found.stored <= (levels + (steps == 1)) * n ** (1 / levels) * 1.05 + 20 * levels or levels == 1
    if levels == 1:
        assert found.stored == n + intervals + (steps if intervals > 1 else 0)


def test_the_targets_of_a_thousand_steps():
    assert nest(100, 10, 2).stored <= 2 * math.sqrt(1000) + 20
    assert nest(100, 10, 3).stored <= 3 * 1000 ** (1 / 3) + 10


@pytest.mark.parametrize(("intervals", "steps"), [(6, 5), (12, 4), (5, 12), (1, 30), (30, 1), (7, 7)])
def test_no_nest_of_two_levels_is_better(intervals, steps):
    def covering(n, k):
        return [c for c in itertools.product(range(1, n + 1), repeat=k) if n <= math.prod(c) <= 2 * n]

    shapes = [((1, 1), False), ((2, 1), True), ((1, 2), True)]
    every = [
        CheckpointLevels(i, s, merged)
        for (a, b), merged in shapes
        for i in covering(intervals, a)
        for s in covering(steps, b)
    ]

    def badness(n):
        return n.stored * (n.padded / (intervals * steps)) ** 2

    assert badness(nest(intervals, steps, 2)) == pytest.approx(min(map(badness, every)))


def test_the_cheapest_that_fits():
    assert cheapest(100, 10, 1110).levels == 1
    assert cheapest(100, 10, 1109).levels == 2
    assert cheapest(100, 10, 78).levels == 3
    assert cheapest(100, 10, 24).levels == 4
    assert cheapest(100, 10, 23) is None
    held = [cheapest(100, 10, budget).stored for budget in range(24, 1200, 7)]
    assert all(np.asarray(held) <= np.arange(24, 1200, 7))


def test_levels_that_do_not_exist():
    with pytest.raises(PdefitError, match="1 to 4 levels"):
        nest(10, 10, 5)
