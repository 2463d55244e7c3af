"""The verdict on a fit in Python."""

import numpy as np
import pytest
from problems import fisher_functional

import pdefit
from pdefit.analysis.goodness.verdict import FITTED, MISSES, STOPPED


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
