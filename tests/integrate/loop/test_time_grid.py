import numpy as np
import pytest

from pdefit import PdefitError
from pdefit.integrate.loop.time_grid import constant_grid, stack_grids


def test_regular_times_get_equal_counts():
    grid = constant_grid(0.0, np.linspace(0.1, 1.0, 10), 0.05)
    np.testing.assert_array_equal(grid.count, 2)
    np.testing.assert_allclose(grid.step, 0.05)
    assert grid.length == 2 and not grid.observes_start


def test_irregular_times_get_as_many_steps_as_they_need():
    ts = np.array([0.0, 0.3, 0.35, 2.0])
    grid = constant_grid(0.0, ts, 0.1)
    np.testing.assert_array_equal(grid.count, [3, 1, 17])
    assert grid.observes_start and grid.length == 17
    np.testing.assert_allclose(grid.start + grid.count * grid.step, ts[1:], rtol=1e-15)
    assert np.all(grid.step <= 0.1 * (1 + 1e-9))


def test_a_whole_number_of_steps_is_not_rounded_up():
    # 0.3 / 0.1 is 2.9999999999999996, 0.7 / 0.1 is 6.999999999999999 and 1.1 - 0.8 is 0.30000000000000004
    assert constant_grid(0.8, np.array([1.1]), 0.1).count[0] == 3
    assert constant_grid(0.0, np.array([0.7]), 0.1).count[0] == 7


def test_shorter_plans_are_padded_with_nothing_to_do():
    long, short = constant_grid(0.0, np.array([1.0, 2.0, 3.0]), 0.5), constant_grid(5.0, np.array([5.5]), 0.5)
    batch = stack_grids([long, short])
    np.testing.assert_array_equal(batch.count, [[2, 2, 2], [1, 0, 0]])
    np.testing.assert_array_equal(batch.step[1], [0.5, 0.0, 0.0])
    np.testing.assert_array_equal(batch.start[1], [5.0, 5.5, 5.5])


@pytest.mark.parametrize(
    ("t0", "ts", "dt"), [(0.0, [1.0, 1.0], 0.1), (2.0, [1.0], 0.1), (0.0, [1.0], 0.0), (0.0, [], 0.1)]
)
def test_impossible_plans_are_refused(t0, ts, dt):
    with pytest.raises(
        PdefitError, match="expect dt above 0" if dt == 0.0 else "expect increasing times that begin at t0"
    ):
        constant_grid(t0, np.asarray(ts), dt)
