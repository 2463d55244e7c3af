"""The hosted driver's course: within every budget, and the cheapest of those."""

import pytest

from pdefit._util.errors import PdefitError
from pdefit.inverse.offload.planner import Chunking, plan_offload
from pdefit.inverse.offload.schedule import StorageTier

SIZES = [(1, 7), (10, 1), (100, 10), (2, 1000), (97, 13), (1, 2000)]
BUDGETS = [(2, 1, 0), (3, 2, 5), (20, 10, 0), (50, 0, 256), (50, 100, 1000)]


@pytest.mark.parametrize(("device", "host", "file"), BUDGETS)
@pytest.mark.parametrize(("intervals", "steps"), SIZES)
def test_every_budget_is_kept(intervals, steps, device, host, file):
    course = plan_offload(intervals, steps, device, {StorageTier.HOST: host, StorageTier.FILE: file})
    assert course.nest.stored <= device
    used = course.schedule.peak
    assert used.get(StorageTier.HOST, 0) <= host and used.get(StorageTier.FILE, 0) <= file
    pieces = course.cut.count(intervals, steps)
    assert course.schedule.blocks == pieces
    covered = pieces * course.cut.group * course.cut.length
    assert intervals * steps <= covered and (course.cut.group == 1 or course.cut.length == steps)
    assert course.recompute_factor >= 3 * 0.99


def test_more_memory_never_costs_more():
    costs = [plan_offload(2, 1000, device, {StorageTier.HOST: 20}).cost for device in (2, 4, 8, 16, 32, 64, 128, 1000)]
    assert all(later <= earlier * 1.02 for earlier, later in zip(costs, costs[1:], strict=False))
    costs = [plan_offload(2, 1000, 10, {StorageTier.HOST: slots}).cost for slots in (1, 2, 4, 8, 64, 512)]
    assert all(later <= earlier for earlier, later in zip(costs, costs[1:], strict=False))


def test_everything_fits():
    """One piece, every step kept: forward, forward again, and once in each step's own reverse."""
    assert plan_offload(10, 10, 1000, {StorageTier.HOST: 1}).recompute_factor == 3


def test_pieces_of_a_record():
    assert Chunking(4, 10).count(100, 10) == 25
    assert Chunking(3, 10).count(100, 10) == 34
    assert Chunking(1, 4).count(100, 10) == 300


@pytest.mark.parametrize(("device", "slots"), [(1, 10), (100, 0)])
def test_no_room_at_all(device, slots):
    with pytest.raises(PdefitError, match=r"set driver.device, driver.host or driver.file higher"):
        plan_offload(10, 10, device, {StorageTier.HOST: slots})
