"""The verdict on a fit in Python."""

import numpy as np
import pytest
from problems import decays, fisher_functional, lines

import pdefit
from pdefit.analysis.goodness.quality import setting_of
from pdefit.analysis.goodness.verdict import EMPTY, FITTED, MISSES, STOPPED


def test_three_verdicts_and_the_numbers_they_rest_on():
    def found(guess, most=None):
        functional = fisher_functional({"r": pdefit.transforms.Log()}, noise=0.02, count=25, guess=guess)
        return pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()], max_iterations=most)

    right = pdefit.judge(found((1.0, 1.5)))
    assert right.verdict.word == FITTED and right.values == 25 * 64 and right.whiteness is not None
    assert right.chi2_per_value == pytest.approx(1, abs=5 * np.sqrt(2 / right.values))
    wrong = found((2.0, 1.5))
    assert pdefit.judge(wrong).verdict.word == MISSES and "sigma" in str(pdefit.judge(wrong))
    assert "correlated" in pdefit.judge(wrong, sigma_known=False).verdict.reason
    assert pdefit.judge(found((1.0, 1.5), 2)).verdict.word == STOPPED


def test_residuals_far_below_sigma_are_not_tested_for_whiteness():
    functional = fisher_functional({"r": pdefit.transforms.Log()}, count=25, guess=(1.0, 1.5))
    found = pdefit.judge(pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()]))
    assert found.whiteness is None and "far below sigma" in str(found)


def test_recordings_are_judged_one_by_one():
    recordings = pdefit.Recordings([fisher_functional(), fisher_functional()])
    with pytest.raises(pdefit.PdefitError, match="one record"):
        pdefit.judge(pdefit.fit(recordings, [pdefit.optimizers.LevenbergMarquardt()], max_iterations=1))


def test_a_sigma_as_large_as_the_spread_of_the_data_explains_nothing():
    """Two lines through independent noise, and through lines, with a sigma that residuals decide."""
    ts, random = np.linspace(0.25, 10.0, 40), np.random.default_rng(0)
    line, _ = lines(ts)
    noise = pdefit.Observations.build(ts, {n: random.standard_normal(ts.size) for n in "uv"})
    plain = dict.fromkeys("abc", pdefit.transforms.Identity())
    steps = [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), reweight=pdefit.Reweight(rounds=2))]

    def judged(data, **options):
        found = pdefit.fit(pdefit.Functional(line.problem, data, plain, dt=0.25), steps)
        assert found.estimated == ("u", "v")
        return pdefit.judge(found, **options)

    empty, right = judged(noise), judged(line.observations)
    assert empty.verdict.word == EMPTY and empty.explained < 0.1
    assert "not known beforehand" in empty.verdict.reason and "state a sigma" in empty.verdict.next
    assert right.verdict.word == FITTED and right.explained > 0.999 and "not known beforehand" in right.verdict.reason


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
