import numpy as np
import pytest

from pdefit.analysis.goodness.verdict import (
    FITTED,
    MISSES,
    STOPPED,
    Correlation,
    Evidence,
    Quality,
    Verdict,
    decide,
    distrust,
)

GOOD = {"converged": True, "chi2": 1.0, "values": 10_000, "controls": 2, "sigma_known": True, "whiteness": {}}


def _decided(*changes: dict, **doubts: str) -> Verdict:
    facts = [GOOD | change for change in changes]
    each = [Quality(**(of | {"chi2": of["chi2"] * of["values"]})) for of in facts]
    return decide(Evidence(dict(zip([""] if len(each) == 1 else "abc", each, strict=False)), **doubts))


def _white(value: float, spread: float) -> dict:
    return {"whiteness": {"u": {"time": Correlation(0.0, 0.01, 9000), "x": Correlation(value, spread, 9000)}}}


@pytest.mark.parametrize(
    ("change", "word", "reason"),
    [
        ({}, FITTED, "chi2 per value 1"),
        ({"converged": False, "chi2": 0.0}, STOPPED, "iterations"),
        # double precision is advised where it is not in use
        ({"converged": False}, STOPPED, "iterations, another stage or optimizer"),
        ({"converged": False, "single_precision": True}, STOPPED, "or dtype=float64"),
        # chi2
        ({"chi2": 1.49}, FITTED, "1.49"),
        ({"chi2": 1.51}, MISSES, "1.51"),
        ({"chi2": 1.51, "sigma_known": False}, FITTED, "not known"),
        ({"chi2": 2.2, "values": 20}, FITTED, "2.2"),
        ({"chi2": 2.3, "values": 20}, MISSES, "2.3"),
        # whiteness: large enough, and sure
        (_white(0.0501, 0.01), FITTED, "uncorrelated"),
        (_white(0.0503, 0.01), MISSES, "along x (0.05 ± 0.01)"),
        (_white(-0.0503, 0.01), MISSES, "along x"),
        (_white(0.39, 0.1), FITTED, "uncorrelated"),
        (_white(0.41, 0.1), MISSES, "correlated"),
        (_white(0.3, 0.01) | {"sigma_known": False}, MISSES, "correlated"),
        (_white(0.3, 0.01) | {"windows_from_data": True}, MISSES, "noisy data"),
        # as many controls pull residuals to the other side
        (_white(-0.14, 0.01) | {"controls": 1000}, FITTED, "uncorrelated"),
        (_white(-0.16, 0.01) | {"controls": 1000}, MISSES, "correlated"),
        # no noise
        (_white(0.9, 0.01) | {"chi2": 0.0099}, FITTED, "far below sigma"),
        (_white(0.9, 0.01) | {"chi2": 0.0101}, MISSES, "correlated"),
        (_white(0.9, 0.01) | {"chi2": 0.0099, "sigma_known": False}, MISSES, "correlated"),
        # frames kept out of the fit
        ({"heldout": (1.49, 10_000)}, FITTED, "uncorrelated"),
        ({"heldout": (1.51, 10_000)}, MISSES, "held-out"),
        ({"heldout": (1.51, 50)}, FITTED, "uncorrelated"),
        ({"heldout": (0.8, 10_000), "chi2": 0.5, "sigma_known": False}, MISSES, "held-out"),
    ],
)
def test_each_threshold(change, word, reason):
    verdict = _decided(change)
    assert verdict.word == word and reason in verdict.reason
    assert str(verdict) == f"{verdict.word}: {verdict.reason}"


@pytest.mark.parametrize("chi2", [np.nan, np.inf])
def test_what_is_not_finite_is_never_fitted(chi2):
    assert _decided({"chi2": chi2}).word == MISSES


def test_of_many_recordings_the_worst_decides():
    assert _decided({}, {"chi2": 1.2}).reason == "all 2 recordings, with chi2 per value from 1 to 1.2"
    assert _decided({}, {"chi2": 3.0}).reason == "recording b: residuals are larger than sigma (chi2 per value 3)"
    assert _decided({"converged": False}, {"chi2": 3.0}).word == STOPPED


def test_doubts_about_intervals_stand_behind_what_decides():
    doubt = distrust(FITTED, noiseless=True)
    assert "no noise" in doubt and distrust(FITTED, noiseless=False) == ""
    assert _decided({}, doubt=doubt).reason.endswith(f"uncorrelated; intervals are not to be trusted: {doubt}")
    assert _decided({}, shift="a step", doubt=doubt).reason.endswith(f"uncorrelated; a step; {doubt}")
    # the remedy follows what it remedies
    stopped = _decided({"converged": False}, shift="a step", doubt=doubt)
    assert stopped.reason == f"{stopped.reasons[0]}; {stopped.next}; a step" and "iterations" in stopped.next
