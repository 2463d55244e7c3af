"""The verdict on each of many fits, beside the verdicts on fits one by one."""

import dataclasses

import equinox as eqx
import numpy as np
import pytest
from problems import decays

import pdefit
from pdefit.analysis.goodness.verdict import BLOWN_UP, FITTED

LM = pdefit.optimizers.LevenbergMarquardt()


@pytest.fixture(scope="module")
def functionals():
    """Decays of rates 0.5, 1.25 and 2, of which the first is beyond the bounds."""
    slow = pdefit.Control(pdefit.transforms.Log(), bounds=(1.0, 9.0))
    random = np.random.default_rng(0)

    def noisy(functional):
        seen = functional.observations.values["u"]
        return eqx.tree_at(lambda f: f.observations.values["u"], functional, seen + random.normal(0, 0.02, seen.shape))

    return [noisy(one) for one in decays(3, frames=40, sigma=0.02, controls={"k": slow}, start=2.0)]


def test_members_are_judged_as_fits_one_by_one(functionals):
    found = pdefit.fit_members(pdefit.Members.of(functionals), [LM])
    each = pdefit.judge(found, sigma_exact=True)
    for functional, one in zip(functionals, each, strict=True):
        alone = pdefit.judge(pdefit.fit(functional, [LM]), with_intervals=False, sigma_exact=True)
        assert one.verdict.word == alone.verdict.word and one.bound == alone.bound
        assert one.chi2_per_value == pytest.approx(alone.chi2_per_value)
        assert one.recordings[""].whiteness == alone.recordings[""].whiteness
    assert [one.verdict.word == FITTED for one in each] == [False, True, True]
    assert each[0].verdict.next == "widen the bounds of k"


def test_a_member_that_blew_up_is_told(functionals):
    found = pdefit.fit_members(pdefit.Members.of(functionals), [LM])
    lost = dataclasses.replace(found, loss=np.where(np.arange(3) == 1, np.inf, found.loss))
    assert [one.verdict.word == BLOWN_UP for one in pdefit.judge(lost)] == [False, True, False]
