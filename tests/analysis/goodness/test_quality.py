"""The quality of a fit of one record."""

import numpy as np
from problems import decays

import pdefit
from pdefit.analysis.goodness.quality import setting_of


def test_unknown_functions_of_time_and_a_free_start_decide_what_loud_frames_mean():
    decay = decays(1)[0]
    problem = pdefit.Problem(
        decay.problem.system, decay.problem.y0, args=pdefit.Inputs(q=pdefit.TimeSeries([0.0, 1.0], [1.0, 1.0]))
    )
    log = pdefit.transforms.Log()
    for controls, courses, free in (
        ({"k": log, "args": {"q": {"values": log}}}, ("args.q.values",), False),
        ({"k": log, "y0": {"u": log}}, (), True),
    ):
        setting = setting_of(pdefit.Functional(problem, decay.observations, controls, dt=0.02))
        assert (setting.courses, setting.start_is_free) == (courses, free)
        np.testing.assert_array_equal(setting.times, decay.observations.ts)
