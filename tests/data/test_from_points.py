import numpy as np
import pytest

import pdefit

T = [0.3, 0.1 + 0.2, 0.0, 0.3, 1.0]
X = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0]]


def test_points_of_one_time_up_to_round_off_are_one_frame():
    found = pdefit.Observations.from_points(
        T, X, {"u": [1, 2, 3, 4, 5], "v": [1, np.nan, 3, 4, 5]}, {"u": 0.1, "v": 2.0}
    )
    np.testing.assert_array_equal(found.ts, [0.0, 0.3, 1.0])
    np.testing.assert_array_equal(found.values["u"], [[3, 0, 0], [1, 4, 2], [5, 0, 0]])
    np.testing.assert_array_equal(found.mask["u"], [[True, False, False], [True] * 3, [True, False, False]])
    np.testing.assert_array_equal(found.mask["v"][1], [True, True, False])
    np.testing.assert_array_equal(found.positions["u"][1], [[1, 2], [7, 8], [3, 4]])
    np.testing.assert_array_equal(found.positions["v"][0], [[5, 6], [0, 0], [0, 0]])
    np.testing.assert_array_equal(found.positions_at(2)["u"][0], [9, 10])
    np.testing.assert_array_equal(found.measured_positions["u"], [[5, 6], [1, 2], [7, 8], [3, 4], [9, 10]])


def test_one_coordinate_and_one_sigma_a_point():
    found = pdefit.Observations.from_points([1.0, 0.0, 1.0], [7.0, 8.0, 9.0], [1.0, 2.0, 3.0], {"u": [0.1, 0.2, 0.3]})
    np.testing.assert_array_equal(found.positions["u"], [[[8], [0]], [[7], [9]]])
    np.testing.assert_array_equal(found.sigma["u"], [[0.2, 1.0], [0.1, 0.3]])


@pytest.mark.parametrize(
    ("t", "x", "value", "words"),
    [
        ([0.0, 1.0], [1.0], [1.0, 2.0], "coordinates"),
        ([0.0, 1.0], [1.0, 2.0], [1.0], "values"),
        ([], [], [], "times"),
        ([0.0, np.nan], [1.0, 2.0], [1.0, 2.0], "finite"),
        ([0.0, 1.0], [1.0, np.inf], [1.0, 2.0], "finite"),
    ],
)
def test_lists_that_do_not_fit_are_refused(t, x, value, words):
    with pytest.raises(ValueError, match=words):
        pdefit.Observations.from_points(t, x, value)
