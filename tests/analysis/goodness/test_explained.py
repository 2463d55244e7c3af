"""Score test of held values on residuals of linear models, whose true score is known."""

import numpy as np
import pytest
from problems import decays

from pdefit.analysis.goodness.explained import suspects
from pdefit.analysis.goodness.remainder import Remainder
from pdefit.inverse.uncertainty.held import Held

# of which the residuals of a linear model need nothing
FUNCTIONAL = decays(1)[0]


def _model(draws, values, held):
    """Changes of residuals with four fitted numbers, and with held ones, that all resemble each other."""
    common = draws.normal(size=(values, 1))
    return [draws.normal(size=(values, k)) + common for k in (4, held)]


def _asked(fitted, held, r, sigma_known, clean=lambda _: True):
    left = r - fitted @ np.linalg.lstsq(fitted, r)[0]
    changes = [Held(f"h{k}", f"h{k}", 1.0, 0.1, {"u": 0.1 * c}) for k, c in enumerate(held.T)]
    return suspects(Remainder(FUNCTIONAL, {"u": left}, [{"u": c} for c in fitted.T]), changes, sigma_known, clean)


@pytest.mark.parametrize("sigma_known", [True, False])
@pytest.mark.parametrize("values", [12, 200])
def test_right_values_are_suspected_in_less_than_one_fit_of_two_hundred(values, sigma_known):
    draws = np.random.default_rng(0)
    named = sum(bool(_asked(*_model(draws, values, 10), draws.normal(size=values), sigma_known)) for _ in range(400))
    assert named <= 2


def test_scores_beyond_five_are_named_with_the_right_value():
    draws, named, beyond = np.random.default_rng(0), [], 0
    for _ in range(100):
        fitted, held = _model(draws, 200, 10)
        change = held[:, 3] - fitted @ np.linalg.lstsq(fitted, held[:, 3])[0]
        wrong = 6 / np.linalg.norm(change)
        r = wrong * held[:, 3] + draws.normal(size=200)
        if change @ r > 5 * np.linalg.norm(change):
            beyond += 1
            named += [s for s in _asked(fitted, held, r, True)[:1] if s.name == "h3"]
    assert beyond > 70 and len(named) >= 0.9 * beyond
    # scores beyond five are too large by a third of a standard error
    assert np.mean([s.better for s in named]) == pytest.approx(1 - wrong, abs=wrong / 6)


def test_what_is_not_clean_or_not_apart_is_not_named():
    draws = np.random.default_rng(0)
    fitted, held = _model(draws, 50, 1)
    r = held[:, 0] + draws.normal(size=50)
    assert _asked(fitted, held, r, True) and not _asked(fitted, held, r, True, lambda _: False)
    # a value that changes the residuals as the fitted numbers do
    assert not _asked(fitted, fitted @ draws.normal(size=(4, 1)), r, True)


def test_values_without_an_effect_on_one_recording_leave_the_others_to_be_tested():
    draws = np.random.default_rng(0)
    fitted, held = _model(draws, 200, 3)
    r = 2.0 * held[:, 0] + draws.normal(size=200)
    held[:, 1], held[3, 2] = 0.0, np.nan
    (found,) = _asked(fitted, held, r, True)
    assert found.name == "h0"
