"""Schedules of checkpoints: executed by a small interpreter, counted against theory and against an independent package."""

import functools
import itertools
import math
import time

import checkpoint_schedules as oracle
import numpy as np
import pytest

from pdefit.inverse.offload._revolve import Binomial, accesses, advances, place, split
from pdefit.inverse.offload.planner import choose_schedule
from pdefit.inverse.offload.schedule import AbstractSchedule, Advance, KeepAll, Restore, Reverse, StorageTier, Store

_SMALL = [(blocks, slots) for blocks in (1, 2, 3, 4, 5, 6, 7, 11, 20) for slots in (1, 2, 3, 4, 5, 6, 19, 20, 25)]
_LARGE = [(35, 3), (36, 3), (160, 160), (160, 159), (200, 10), (500, 2), (1000, 30), (1001, 44)]


def _interpret(schedule: AbstractSchedule) -> dict[str, int]:
    """Execute the actions on numbers, refuse whatever is wrong, and count."""
    kept: dict[tuple[StorageTier, int], int] = {}
    in_hand: int | None = 0
    swept, left = 0, schedule.blocks
    count = {"advanced": 0, "file": 0}
    for action in schedule.actions():
        match action:
            case Advance(first, last):
                assert in_hand == first < last <= schedule.blocks
                assert left == schedule.blocks or last < left, "blocks that are reversed are not run again"
                if left == schedule.blocks and first == swept:
                    swept = last
                in_hand = last
                count["advanced"] += last - first
            case Store(state, tier, slot):
                assert in_hand == state < left, "a state that is not in hand, or not needed, is stored"
                assert 0 <= slot < schedule.slots[tier] and type(tier) is StorageTier
                kept[tier, slot] = state
                count["file"] += tier is StorageTier.FILE
            case Restore(state, tier, slot):
                assert kept[tier, slot] == state != in_hand
                in_hand = state
                count["file"] += tier is StorageTier.FILE
            case Reverse(block):
                assert swept == schedule.blocks, "the value is not known before the first block is reversed"
                assert in_hand == block == left - 1
                left, in_hand = block, None
            case _:
                raise AssertionError(action)
    assert left == 0
    for tier in schedule.slots:
        assert len([k for k in kept if k[0] is tier]) == schedule.peak[tier] <= schedule.slots[tier]
    return count


def _tiers(slots: int) -> list[dict[StorageTier, int]]:
    """The same number of slots in one tier, in the other, and in both."""
    mixed = [{StorageTier.FILE: slots - fast, StorageTier.HOST: fast} for fast in {slots // 3, slots // 2, slots - 1}]
    return [{StorageTier.HOST: slots}, {StorageTier.FILE: slots}, *mixed]


@functools.cache
def _fewest(blocks: int, slots: int) -> int:
    """By trying every position of the next checkpoint: the fewest advances that reverse `blocks` from a stored state."""
    if blocks == 1:
        return 0
    if slots == 1:
        return blocks * (blocks - 1) // 2
    return min([last + _fewest(blocks - last, slots - 1) + _fewest(last, slots) for last in range(1, blocks)])


@functools.cache
def _fewest_with_sweep(blocks: int, slots: int) -> int:
    """The same, where a sweep through all blocks comes first and may leave checkpoints behind."""
    ways = [blocks + _fewest(blocks, slots)]
    if slots > 1:
        ways += [
            last + _fewest(last, slots) + _fewest_with_sweep(blocks - last, slots - 1) for last in range(1, blocks)
        ]
    return min(ways)


@pytest.mark.parametrize(("blocks", "slots"), _SMALL + _LARGE)
def test_every_schedule_reverses_every_block_once_within_its_budget(blocks, slots):
    for tiers in _tiers(slots):
        for schedule in (choose_schedule(blocks, tiers), Binomial(blocks, tiers)):
            assert _interpret(schedule)["advanced"] == schedule.advanced == schedule.executed - blocks


@pytest.mark.parametrize("slots", range(1, 8))
def test_no_schedule_runs_fewer_blocks(slots):
    for blocks in range(1, 41):
        assert advances(blocks, min(slots, blocks)) == _fewest_with_sweep(blocks, slots)


@pytest.mark.parametrize(("blocks", "slots"), [(n, s) for n, s in _SMALL + _LARGE if n > 1])
@pytest.mark.parametrize("kind", ["Revolve", "MultistageCheckpointSchedule", "HRevolve"])
def test_counts_agree_with_an_independent_package(kind, blocks, slots):
    """Its sweep runs the last block only to reverse it, so the objective, one more block, explains the difference."""
    make = {
        "Revolve": oracle.Revolve,
        "MultistageCheckpointSchedule": lambda n, s: oracle.MultistageCheckpointSchedule(n, s, 0),
        "HRevolve": lambda n, s: oracle.HRevolve(n, s, 0),
    }[kind]
    if kind != "MultistageCheckpointSchedule" and blocks * slots > 5000:
        pytest.skip("the other package plans in quadratic time")

    def executed(n: int) -> int:
        total = 0
        for action in make(n, min(slots, n)):
            if isinstance(action, oracle.Forward):
                total += action.n1 - action.n0
            if isinstance(action, oracle.EndReverse):
                return total
        raise AssertionError

    assert choose_schedule(blocks, {StorageTier.HOST: slots}).advanced == executed(blocks + 1) - (blocks + 1)


def test_two_hundred_blocks_in_ten_slots():
    schedule = choose_schedule(200, {StorageTier.FILE: 10})
    # 722 in the literature, without a first sweep through the last block
    assert (schedule.advanced, schedule.executed) == (525, 725)
    assert schedule.describe() == "binomial, 10 checkpoints in the file, 3.6 x"


@pytest.mark.parametrize(
    ("tiers", "words"),
    [
        ({StorageTier.FILE: 200}, "store-all, 160 checkpoints in the file"),
        (
            {StorageTier.FILE: 200, StorageTier.HOST: 60},
            "store-all, 160 checkpoints (60 in host memory, 100 in the file)",
        ),
        ({StorageTier.FILE: 20, StorageTier.HOST: 0}, "binomial, 20 checkpoints in the file, 2.9 x"),
        ({StorageTier.HOST: 1}, "binomial, 1 checkpoint in host memory, 81.5 x"),
    ],
)
def test_a_schedule_is_told_in_one_line(tiers, words):
    assert choose_schedule(160, tiers).describe() == words


def test_with_a_slot_for_each_block_nothing_is_recomputed():
    for blocks in (1, 2, 17):
        tiers = {StorageTier.HOST: blocks}
        assert list(Binomial(blocks, tiers).actions()) == list(KeepAll(blocks, tiers).actions())


def test_states_that_are_needed_first_lie_in_the_fastest_tier():
    stored = [a for a in KeepAll(5, {StorageTier.FILE: 9, StorageTier.HOST: 2}).actions() if isinstance(a, Store)]
    assert [(a.state, a.tier.name, a.slot) for a in stored] == [
        (0, "FILE", 0),
        (1, "FILE", 1),
        (2, "FILE", 2),
        (3, "HOST", 0),
        (4, "HOST", 1),
    ]


@pytest.mark.parametrize(("blocks", "slots"), _SMALL + _LARGE)
def test_accesses_are_those_of_the_actions(blocks, slots):
    slots = min(slots, blocks)
    used = [0] * slots
    for action in Binomial(blocks, {StorageTier.HOST: slots}).actions():
        if isinstance(action, Store | Restore):
            used[action.slot] += 1
    assert used == accesses(blocks, slots)


@pytest.mark.parametrize(("blocks", "slots"), [(20, 4), (35, 3), (200, 10), (500, 6)])
def test_no_choice_of_slots_touches_the_file_less(blocks, slots):
    used = accesses(blocks, slots)
    for fast in range(slots):
        tiers = {StorageTier.HOST: fast, StorageTier.FILE: slots - fast}
        fewest = min(sum(choice) for choice in itertools.combinations(used, slots - fast))
        assert _interpret(Binomial(blocks, tiers))["file"] == fewest
        assert len(set(place(used, tiers))) == slots


def test_every_advance_stays_where_the_theory_is_optimal():
    generator = np.random.default_rng(0)
    for length, slots in zip(generator.integers(2, 10**6, 200), generator.integers(2, 60, 200), strict=True):
        length, slots = int(length), int(slots)
        first = split(length, slots)
        repetitions = next(r for r in itertools.count() if math.comb(slots + r, r) >= length)
        assert math.comb(slots + repetitions - 2, slots) <= first <= math.comb(slots + repetitions - 1, slots)
        rest = length - first
        assert math.comb(slots + repetitions - 2, slots - 1) <= rest <= math.comb(slots + repetitions - 1, slots - 1)


@pytest.mark.parametrize("slots", [1, 2, 3, 100, 10**5, 10**6])
def test_a_million_blocks_are_planned_at_once(slots):
    start = time.process_time()
    schedule = choose_schedule(10**6, {StorageTier.HOST: slots // 2, StorageTier.FILE: slots - slots // 2})
    assert schedule.advanced >= 10**6 and sum(schedule.peak.values()) == slots
    assert schedule.describe().count("\n") == 0
    assert time.process_time() - start < 1.0
    # nobody waits for the whole list
    first = next(schedule.actions())
    assert isinstance(first, Store) and (first.state, first.slot) == (0, 0)


@pytest.mark.parametrize(("blocks", "slots"), [(0, 1), (-1, 3), (5, 0), (5, -1)])
def test_a_schedule_that_cannot_be_is_refused(blocks, slots):
    with pytest.raises(ValueError, match="expects at least"):
        choose_schedule(blocks, {StorageTier.HOST: slots})


def test_storing_all_needs_all_slots():
    with pytest.raises(ValueError, match="KeepAll expects at least 5 slots"):
        KeepAll(5, {StorageTier.HOST: 4})
    with pytest.raises(ValueError, match="expects at least"):
        Binomial(5, {StorageTier.HOST: 4, StorageTier.FILE: -1})
