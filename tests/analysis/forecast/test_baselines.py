"""Forecasts that need no equations, of complete and of incomplete frames."""

import numpy as np

import pdefit
from pdefit.analysis.forecast.baselines import baselines


def test_each_point_goes_on_from_its_own_last_values():
    ts, nan = [0.0, 1.0, 3.0, 4.0, 6.0], np.nan
    # complete; missing at the end; seen once; never seen; and two frames later
    u = [[1.0, 1.0, nan, nan], [2.0, 2.0, 7.0, nan], [6.0, nan, nan, nan], [9.0] * 4, [9.0] * 4]
    record = pdefit.Observations.build(ts, {"u": np.array(u)})
    found = baselines(record, 3, {"u": np.full((2, 4), -5.0)})
    np.testing.assert_allclose(found["last frame"]["u"], [[6.0, 2.0, 7.0, -5.0]] * 2)
    np.testing.assert_allclose(found["mean of frames"]["u"], [[3.0, 1.5, 7.0, -5.0]] * 2)
    np.testing.assert_allclose(found["linear extrapolation"]["u"], [[8.0, 5.0, 7.0, -5.0], [12.0, 7.0, 7.0, -5.0]])


def test_points_that_move_have_what_the_instrument_sees_of_the_last_state():
    places = np.arange(3.0).reshape(3, 1, 1)
    record = pdefit.Observations.build([0.0, 1.0, 2.0], {"u": np.ones((3, 1))}, 1.0, {"u": places})
    for forecast in baselines(record, 2, {"u": np.full((1, 1), -5.0)}).values():
        np.testing.assert_allclose(forecast["u"], [[-5.0]])
