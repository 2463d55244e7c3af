import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pdefit.analysis.goodness.assessment import Assessment
from pdefit.analysis.goodness.evidence import Correlation, Quality, Suspect, Verdict
from pdefit.analysis.goodness.noise_shape import NoiseShape
from pdefit.analysis.goodness.structure import SURE, Structure
from pdefit.analysis.goodness.verdict import (
    BLOWN_UP,
    BOUNDED,
    EMPTY,
    FITTED,
    LIMITED,
    MISSES,
    NOISY,
    ROUNDED,
    STOPPED,
    STOPPED_AND_MISSES,
    decide,
    distrust,
)
from pdefit.inverse.controls.theta import AtBound

GOOD = {"converged": True, "chi2": 1.0, "values": 10_000, "controls": 2, "sigma_known": True, "whiteness": {}}


def _decided(*changes: dict, **doubts: str) -> Verdict:
    facts = [GOOD | change for change in changes]
    each = [Quality(**(of | {"chi2": of["chi2"] * of["values"]})) for of in facts]
    return decide(Assessment(dict(zip([""] if len(each) == 1 else "abc", each, strict=False)), **doubts))


def _white(value: float, spread: float, time: float = 0.04) -> dict:
    return {"whiteness": {"u": {"time": Correlation(time, 0.01, 9000), "x": Correlation(value, spread, 9000)}}}


def _patch(excess: float, *axes: str) -> Structure:
    return Structure("u", "averaged over patches", axes, excess, 0.1)


FOOTPRINT = Structure("u", "along its slope in x", (), 5.0, 0.1)
EVENT = NoiseShape("event", "residuals near t = 300 s are 6 times the others", "give q more knots near t = 300 s")
COUNTS = {"counts": {"n": 1.0}, "sigma_exact": False}
QUIET = {"whiteness": {"n": {"time": Correlation(0.1, 0.2, 19)}}}
REFINED = Quality(chi2=100.0, values=10_000, whiteness=None, controls=2, converged=True)


@pytest.mark.parametrize(
    ("change", "word", "reason"),
    [
        ({}, FITTED, "chi2 per value 1"),
        ({"converged": False, "chi2": 0.0}, STOPPED, "iterations"),
        # numbers at the minimum, whatever the optimizer says
        ({"converged": False, "remaining": 0.05}, FITTED, "no number by more than 0.05 standard errors"),
        ({"converged": False, "remaining": 0.2, "falling": 0.3}, STOPPED, "30.0%"),
        # open gaps fix the numbers wherever the minimum is, and hide what the model misses
        (
            {"converged": False, "remaining": 1e-3, "gap": 1e3},
            STOPPED,
            "trajectories do not join: gaps between windows are",
        ),
        ({"converged": False, "remaining": 1e-3, "gap": 1.0}, FITTED, "no number by more than 0.001 standard errors"),
        ({"gap": 10.0}, MISSES, "trajectories do not join"),
        ({"converged": False, "falling": 0.01, "chi2": 1.2} | _white(0.2, 0.01), STOPPED_AND_MISSES, "along x (0.20"),
        ({"converged": False, "falling": 0.2, "chi2": 1.2} | _white(0.2, 0.01), STOPPED, "iterations"),
        # 25 of chi2, beside 10 and 100 that the last evaluations took away
        ({"converged": False, "falling": 0.001, "structures": (_patch(5.0, "x"),)}, STOPPED_AND_MISSES, "5.0 standard"),
        ({"converged": False, "falling": 0.01, "structures": (_patch(5.0, "x"),)}, STOPPED, "it may vanish, too"),
        # what finer steps take away
        ({"chi2": 9.0, "refined": REFINED} | _white(0.9, 0.01), LIMITED, "take away 100%"),
        ({"structures": (FOOTPRINT,), "refined": REFINED}, LIMITED, "finer steps"),
        ({"chi2": 1e-9, "converged": False, "refined": dataclasses.replace(REFINED, chi2=1e-6)}, LIMITED, "finer"),
        # smooth structure, and noise of another kind
        ({"structures": (_patch(4.1, "time", "x"), _patch(3.9, "x"))}, MISSES, "4.1 standard deviations"),
        ({"structures": (FOOTPRINT,)}, MISSES, "along its slope in x hold a misfit of 0.1 sigma"),
        (_white(0.0, 0.01, 0.5), NOISY, "has a memory"),
        ({"structures": (_patch(9.0, "x"),)} | _white(0.0, 0.01, 0.5), MISSES, "along time"),
        (_white(0.5, 0.01, 0.0), NOISY, "share their noise"),
        ({"noise": (NoiseShape("frame", "frame 3 is loud", "mask it"),)}, NOISY, "frame 3 is loud"),
        ({"noise": (EVENT,)}, MISSES, "6 times the others. Next: give q more knots near t = 300 s"),
        ({"noise": (EVENT,), "chi2": 1.7}, MISSES, "Next: give q more knots near t = 300 s"),
        ({"noise": (EVENT,), "converged": False, "falling": 0.01}, STOPPED_AND_MISSES, "Next: allow more iterations"),
        ({"noise": (NoiseShape("start", "follows its noise", "a prior"),)}, FITTED, "follows its noise. Next: a prior"),
        # an optimizer that crept goes on, and accuses no equation
        (
            {"converged": False, "falling": 0.01, "chi2": 2.0},
            STOPPED_AND_MISSES,
            "(chi2 per value 2). Next: allow more it",
        ),
        (
            {"converged": False, "falling": 0.01, "chi2": 9.0},
            STOPPED_AND_MISSES,
            "(chi2 per value 9). Next: allow more it",
        ),
        # counts
        ({"chi2": 3.0} | COUNTS, NOISY, "noise is larger than Poisson's; residuals show no structure. Next: state the"),
        ({"chi2": 3.0} | COUNTS, NOISY, "negative binomial (data.sigma={n: {gain: 1, relative: auto}})"),
        ({"chi2": 9.0, "values": 20} | COUNTS | QUIET, NOISY, "larger than Poisson's"),
        ({"chi2": 9.0, "values": 20} | COUNTS, MISSES, "or counts scatter by more than Poisson's law. Next: state"),
        ({"chi2": 3.0, "structures": (FOOTPRINT,)} | COUNTS, MISSES, "Next: see in the report"),
        (
            {"noise": (NoiseShape("signal", "noise grows", "a sigma"),)} | COUNTS,
            NOISY,
            "Next: state the variance of the neg",
        ),
        # few values hide much
        ({"values": 40}, FITTED, "no structure (40 values show it reliably only beyond 0.95 sigma)"),
        ({"values": 12, "sigma_known": False}, FITTED, "no structure (12 values are too few to show any)"),
        # a sigma as large as the data spread
        ({"sigma_known": False, "explained": 0.04}, EMPTY, "the model explains 4% of the variance of the data"),
        ({"sigma_known": False, "explained": 0.2}, FITTED, "not known"),
        ({"explained": 0.04}, FITTED, "chi2 per value 1"),
        # double precision is advised where it is not in use
        ({"converged": False}, STOPPED, "iterations, another stage or optimizer"),
        ({"converged": False, "single_precision": True}, STOPPED, "or dtype=float64"),
        # chi2
        ({"chi2": 1.49}, FITTED, "1.49"),
        ({"chi2": 1.51}, NOISY, "1.2 times sigma"),
        ({"chi2": 1.51, "sigma_exact": True}, MISSES, "1.51"),
        ({"chi2": 1.07, "sigma_exact": True}, MISSES, "1.07"),
        ({"chi2": 1.07}, FITTED, "5.0 standard deviations above 1: sigma is larger by 3.5 %, or a small term"),
        ({"chi2": 0.25}, NOISY, "0.5 times sigma: sigma is too large"),
        (
            {"chi2": 106.0} | _white(0.5, 0.01),
            MISSES,
            "10 times sigma (chi2 per value 106): the equation lacks a term, or the ",
        ),
        ({"chi2": 106.0, "courses": ("q",)} | _white(0.5, 0.01), MISSES, "q bends between its knots, or the search"),
        ({"chi2": 1.7, "courses": ("q",)} | _white(0.5, 0.01), MISSES, "Next: give q more knots at the times"),
        ({"chi2": 1.51, "sigma_known": False}, FITTED, "not known"),
        ({"chi2": 2.2, "values": 20}, FITTED, "2.2"),
        ({"chi2": 2.3, "values": 20}, MISSES, "2.3"),
        # whiteness: large enough, and sure
        (_white(0.0501, 0.01), FITTED, "no structure"),
        (_white(0.0503, 0.01), MISSES, "along x (0.05 ± 0.01)"),
        (_white(-0.0503, 0.01), MISSES, "along x"),
        (_white(0.39, 0.1), FITTED, "no structure"),
        (_white(0.41, 0.1), MISSES, "correlated"),
        (_white(0.3, 0.01) | {"sigma_known": False}, MISSES, "correlated"),
        (_white(0.3, 0.01) | {"windows_from_data": True}, MISSES, "noisy data"),
        # as many controls pull residuals to the other side
        (_white(-0.14, 0.01) | {"controls": 1000}, FITTED, "no structure"),
        (_white(-0.16, 0.01) | {"controls": 1000}, MISSES, "correlated"),
        # no noise
        (_white(0.9, 0.01) | {"chi2": 0.0099, "noiseless": True}, FITTED, "far below sigma"),
        (_white(0.9, 0.01) | {"chi2": 0.0099}, NOISY, "far below sigma"),
        # two unknowns that nothing contradicts
        ({"chi2": 0.0, "values": 2}, FITTED, "far below sigma"),
        (_white(0.9, 0.01) | {"chi2": 0.0101}, MISSES, "correlated"),
        (_white(0.9, 0.01) | {"chi2": 0.0099, "sigma_known": False}, MISSES, "correlated"),
        # frames kept out of the fit
        ({"heldout": (1.49, 10_000)}, FITTED, "no structure"),
        ({"heldout": (1.51, 10_000)}, MISSES, "held-out"),
        ({"heldout": (1.51, 50)}, FITTED, "no structure"),
        ({"heldout": (0.8, 10_000), "chi2": 0.5, "sigma_known": False}, MISSES, "held-out"),
    ],
)
def test_each_threshold(change, word, reason):
    verdict = _decided(change)
    assert verdict.word == word and reason in verdict.reason
    assert str(verdict) == f"{verdict.word}: {verdict.reason}"


def test_a_suspect_alone_may_vanish_while_the_fit_goes_on():
    suspect = {"suspects": (Suspect("h", 1.0, 2.0, 5.0),), "converged": False}
    assert _decided(suspect | {"falling": 0.01}).word == STOPPED
    assert _decided(suspect | {"falling": 0.001}).word == STOPPED_AND_MISSES


def test_of_an_unknown_field_data_determine_a_part():
    # all of it would take up 0.09
    assert _decided({"chi2": 0.98, "controls": 900}).reasons == ("chi2 per value 0.98, residuals show no structure",)


@pytest.mark.parametrize("chi2", [np.nan, np.inf])
def test_what_is_not_finite_is_never_fitted(chi2):
    assert _decided({"chi2": chi2}).word == BLOWN_UP


def test_of_many_recordings_the_worst_decides():
    assert _decided({}, {"chi2": 1.2}).reason == "all 2 recordings, with chi2 per value from 1 to 1.2"
    larger = _decided({}, {"chi2": 3.0, "sigma_exact": True})
    assert larger.reasons == ("recording b: residuals are larger than sigma (chi2 per value 3)",)
    assert _decided({"converged": False}, {"chi2": 3.0}).word == STOPPED
    # a sigma that residuals decide makes chi2 1
    unknown = _decided({"sigma_known": False}, {"sigma_known": False}).reason
    assert unknown.startswith("all 2 recordings: ") and "not known beforehand" in unknown and "chi2" not in unknown


def test_doubts_about_intervals_stand_behind_what_decides():
    doubt = distrust(FITTED, noiseless=True)
    assert "no noise" in doubt and distrust(FITTED, noiseless=False) == ""
    assert _decided({}, doubt=doubt).reason.endswith(f"no structure; intervals are not to be trusted: {doubt}")
    assert _decided({}, shift="a step", doubt=doubt).reasons[1:] == ("a step", doubt)
    stopped = _decided({"converged": False}, shift="a step", doubt=doubt, numbers=("D falls to zero",))
    assert stopped.reasons[1:] == ("a step", "D falls to zero") and "iterations" in stopped.next
    assert stopped.reason == f"{'; '.join(stopped.reasons)}. Next: {stopped.next}"


def test_a_number_at_its_bound_comes_first():
    bound: Any = (AtBound("r", None, 0, 1.5, False),)  # pyright: ignore[reportArgumentType]
    verdict = _decided({"chi2": 1.8} | _white(0.5, 0.01), bound=bound)
    assert (
        verdict.word == MISSES
        and verdict.reasons[-1] == "r ends at its bound 1.5"
        and verdict.next == "widen the bounds of r"
    )
    verdict = _decided({}, bound=bound)
    assert (verdict.word, verdict.reasons[0]) == (BOUNDED, "r ends at its bound 1.5")
    assert verdict.next == "widen the bounds of r, or hold it there"


def test_a_loud_frame_is_told_before_what_it_spoils():
    loud = NoiseShape("frame", "frame 10 is loud", "mask it")
    verdict = _decided({"chi2": 7.0, "noise": (loud,)} | _white(0.5, 0.01))
    assert verdict.reasons[0] == "frame 10 is loud" and verdict.next == "mask it"


def test_data_end_where_their_digits_end():
    verdict = _decided({"chi2": 50.0, "converged": False}, rounding="0.3 steps", limit="half the step moves D by 1e-6")
    assert (verdict.word, verdict.reasons) == (ROUNDED, ("0.3 steps", "half the step moves D by 1e-6"))
    assert _decided({}, rounding="0.3 steps").word == FITTED


def test_a_verdict_that_is_not_good_casts_doubt_on_intervals():
    for word in (BOUNDED, LIMITED, ROUNDED, NOISY, EMPTY, MISSES, STOPPED, STOPPED_AND_MISSES):
        assert distrust(word, noiseless=False) and "the data have no noise" not in distrust(word, noiseless=False)


def test_residuals_far_below_sigma_are_no_noise_that_was_stated():
    found = _decided({"chi2": 5.7e-13})
    assert found.word != FITTED and "sigma is larger than the scatter" in found.reason


def test_chi2_below_what_chance_allows_says_that_sigma_is_larger():
    """Beyond the quantile of chi2 with n - p degrees of freedom at the four sigma of the verdict."""
    free = GOOD["values"] - GOOD["controls"]
    least = float(stats.chi2.ppf(stats.norm.cdf(-SURE), free)) / GOOD["values"]
    below, above = (_decided({"chi2": chi2}).reason for chi2 in (0.999 * least, 1.001 * least))
    assert "sigma is larger than the scatter" in below and "sigma is larger" not in above
