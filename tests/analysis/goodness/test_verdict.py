import numpy as np
import pytest

from pdefit.analysis.goodness.verdict import FITTED, MISSES, STOPPED, decide
from pdefit.analysis.goodness.whiteness import Correlation

GOOD = {"converged": True, "chi2": 1.0, "values": 10_000, "controls": 2, "sigma_known": True, "whiteness": {}}


def _white(value: float, spread: float) -> dict:
    return {"whiteness": {"u": {"time": Correlation(0.0, 0.01, 9000), "x": Correlation(value, spread, 9000)}}}


@pytest.mark.parametrize(
    ("change", "word", "reason"),
    [
        ({}, FITTED, "chi2 per value 1"),
        ({"converged": False}, STOPPED, "iterations"),
        ({"converged": False, "chi2": 0.0}, STOPPED, "iterations"),
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
    verdict = decide(**(GOOD | change))
    assert verdict.word == word and reason in verdict.reason
    assert str(verdict) == f"{verdict.word}: {verdict.reason}"


@pytest.mark.parametrize("chi2", [np.nan, np.inf])
def test_what_is_not_finite_is_never_fitted(chi2):
    assert decide(**(GOOD | {"chi2": chi2})).word == MISSES
