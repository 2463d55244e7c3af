import jax
import numpy as np
import pytest
from problems import fisher_functional, planets_functional

import pdefit
from pdefit.analysis.goodness.remainder import Remainder, _correlation
from pdefit.inverse.objective.compiled import weighted


def test_white_noise_has_the_stated_spread():
    random = np.random.default_rng(0)
    scores = []
    for _ in range(300):
        # of unequal size, with a fifth missing
        values = random.normal(size=(1, 40, 6)) * np.linspace(0.2, 3.0, 6)
        found = _correlation(values, random.uniform(size=values.shape) > 0.2, 1)
        assert found is not None
        scores.append(found.value / found.spread)
    assert abs(np.mean(scores)) < 4 / np.sqrt(300)
    assert 0.9 < np.std(scores) < 1.1


def test_a_known_correlation_is_found_and_gaps_are_no_neighbours():
    random = np.random.default_rng(0)
    values = np.zeros((2, 4000))
    for i in range(1, 4000):
        values[:, i] = 0.6 * values[:, i - 1] + random.normal(size=2)
    seen = np.ones(values.shape, bool)
    found = _correlation(values, seen, 1)
    assert found is not None and found.value == pytest.approx(0.6, abs=0.03) and found.pairs == 2 * 3999
    seen[:, ::2] = False
    assert _correlation(values, seen, 1) is None
    seen[:, 2] = True
    only = _correlation(values, seen, 1)
    assert only is not None and only.pairs == 4


def test_structure_beyond_next_neighbours_goes_unseen():
    random = np.random.default_rng(0)
    values = np.zeros((1, 4000))
    for i in range(2, 4000):
        values[:, i] = 0.6 * values[:, i - 2] + random.normal()
    found = _correlation(values, np.ones(values.shape, bool), 1)
    assert found is not None and found.value == pytest.approx(0.0, abs=0.05)
    assert np.corrcoef(values[0, 2:], values[0, :-2])[0, 1] == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("fixed", [1.0, 2.0])
def test_a_wrong_parameter_shows_along_time_and_space(fixed):
    functional = fisher_functional({"r": pdefit.transforms.Log()}, noise=0.02, count=25, guess=(fixed, 1.5))
    fit = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    found = Remainder(fit.functional, fit.residuals).whiteness["u"]
    assert set(found) == {"time", "x"} and found["time"].pairs == 24 * 64 and found["x"].pairs == 25 * 63
    for c in found.values():
        assert (c.value > 0.3 and c.value > 8 * c.spread) if fixed == 2.0 else abs(c.value) < 4 * c.spread


def test_windows_and_bodies_are_no_neighbours():
    functional = planets_functional()
    found = Remainder(functional, weighted(functional, functional.theta0)).whiteness["position"]
    fitted = np.asarray(functional.fitted("position"))
    # four windows of six frames, three bodies, two components
    assert set(found) == {"time"}
    assert found["time"].pairs == int(np.sum(fitted[:, 1:] & fitted[:, :-1])) < 24 * 6


def test_nothing_left_over_is_no_correlation():
    functional = fisher_functional(guess=(1.0, 1.0))
    nothing = {name: np.zeros_like(r) for name, r in weighted(functional, functional.theta0).items()}
    assert jax.tree.leaves(Remainder(functional, nothing).whiteness) == []
