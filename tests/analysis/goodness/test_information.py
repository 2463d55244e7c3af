"""Criteria against the likelihoods that they stand for, and the sentence on cases whose answer is known."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from pdefit.analysis.goodness.information import (
    Candidate,
    akaike_weights,
    conclusion,
    criteria,
    held_out,
    sigma_is_known,
)
from pdefit.analysis.goodness.verdict import FITTED, MISSES

N, SIGMA = 60, 0.5
X = np.linspace(-1.0, 1.0, N)


def polynomial(data, degree, name="", **options):
    """A polynomial fitted to data whose sigma is stated."""
    design = np.vander(X, degree + 1)
    r = (data - design @ np.linalg.lstsq(design, data)[0]) / SIGMA
    return Candidate(name or f"degree {degree}", float(r @ r), N, degree + 1, FITTED, **options)


def noisy(rng, degree=1):
    return 1.0 + X * (degree > 0) + 2.5 * X**2 * (degree > 1) + SIGMA * rng.normal(size=N)


def test_criteria_are_those_of_the_likelihood():
    """Differences between two models, with normal densities by scipy; the factor of sigma is at its maximum."""
    data = noisy(np.random.default_rng(0), 2)
    for known in (True, False):
        expected, found = [], []
        for degree in (1, 3):
            one, k = polynomial(data, degree), degree + 1 + (not known)
            r = np.full(N, np.sqrt(one.chi2 / N) * SIGMA)
            size = SIGMA if known else SIGMA * np.sqrt(one.chi2 / N)
            twice = -2 * np.sum(stats.norm(0, size).logpdf(r))
            expected.append((twice + 2 * k, twice + 2 * k + 2 * k * (k + 1) / (N - k - 1), twice + k * np.log(N)))
            found.append(criteria(one.chi2, N, one.unknowns, sigma_known=known))
        np.testing.assert_allclose(np.subtract(*found), np.subtract(*expected), rtol=1e-10)
    assert criteria(10.0, 4, 3).aicc == np.inf


def test_weights_of_its_own_are_no_advantage():
    """Two models with one misfit, of which one takes sigma from its residuals: chi2 alone would prefer it."""
    data = noisy(np.random.default_rng(0), 2)
    stated = dataclasses.replace(polynomial(data, 1), log_sigma=N * np.log(SIGMA))
    level = SIGMA * np.sqrt(stated.chi2 / N)
    weighed = dataclasses.replace(stated, chi2=float(N), log_sigma=N * np.log(level))
    likelihood = [-2 * N * stats.norm(0, s).logpdf(0) + one.chi2 for one, s in ((stated, SIGMA), (weighed, level))]
    sizes = [criteria(c.chi2, N, c.unknowns, log_sigma=c.log_sigma).bic for c in (stated, weighed)]
    np.testing.assert_allclose(np.diff(sizes), np.diff(likelihood))
    other = [criteria(c.chi2, N, c.unknowns, sigma_known=False, log_sigma=c.log_sigma).bic for c in (stated, weighed)]
    np.testing.assert_allclose(*other)


def test_correlated_values_count_as_fewer():
    """Every value twice is no new information."""
    for known in (True, False):
        once, twice = (criteria(50.0 * m, 40 * m, 3, sigma_known=known, effective_values=40) for m in (1, 2))
        np.testing.assert_allclose(once, twice)


def test_weights_add_up_to_one():
    np.testing.assert_allclose(
        akaike_weights([10.0, 12.0, 1000.0]), [1 / (1 + np.exp(-1)), 1 / (1 + np.e), 0], atol=1e-9
    )


def test_the_true_model_is_preferred_and_surely():
    for seed in range(20):
        data = noisy(np.random.default_rng(seed), 2)
        (said,) = conclusion([polynomial(data, 1), polynomial(data, 2)])
        assert said.startswith("degree 2 is very strongly preferred over degree 1, by ") and said.endswith(
            "units of BIC"
        )


def test_a_term_too_many_is_rarely_preferred():
    """BIC takes it where chi2 falls by more than ln n, in 4.3 % of all cases."""
    pairs = ([polynomial(noisy(np.random.default_rng(seed)), d) for d in (1, 2)] for seed in range(400))
    wrong = np.mean([np.argmin([criteria(c.chi2, N, c.unknowns).bic for c in pair]) for pair in pairs])
    assert abs(wrong - stats.chi2(1).sf(np.log(N))) < 3 * np.sqrt(0.043 / 400)


def test_models_that_explain_alike_are_not_told_apart():
    data = noisy(np.random.default_rng(1))
    line = polynomial(data, 1, "one")
    other = dataclasses.replace(line, name="two", chi2=line.chi2 + 1.2)
    assert conclusion([line, other]) == ["the data cannot tell one and two apart (1.2 units of BIC)"]
    known = [dataclasses.replace(c, log_evidence=-50.0 - k) for k, c in enumerate((line, other))]
    assert "weakly preferred over two, by 2 units of twice the ln of evidence" in conclusion(known)[0]


def test_none_of_these_is_an_answer():
    data = noisy(np.random.default_rng(1), 2)
    both = [dataclasses.replace(polynomial(data, d), verdict=MISSES) for d in (0, 1)]
    said = conclusion(both)
    assert said[0] == "None of these explains the data: every run misses structure"
    assert said[1].startswith("Of them, degree 1 is very strongly preferred")
    # nobody knows how many values are independent
    assert said[1].endswith("units of BIC, as if residuals were independent")
    both[0] = dataclasses.replace(both[0], verdict=FITTED)
    assert not conclusion(both)[0].startswith("None")


def test_noise_is_estimated_where_the_stated_one_is_wrong_or_unknown():
    line = polynomial(noisy(np.random.default_rng(1)), 1)
    assert sigma_is_known([line, dataclasses.replace(line, chi2=5 * line.chi2)])
    for changes in ({"chi2": 5 * line.chi2}, {"chi2": line.chi2 / 5}, {"sigma_stated": False}):
        assert not sigma_is_known([dataclasses.replace(line, **changes)])


def test_held_out_frames_come_first():
    """Two predictions of equal quality are called different in about the share of two standard errors."""
    rng = np.random.default_rng(0)
    called = 0
    names = [Candidate(n, 100.0, 100, 2) for n in ("one", "two")]
    for _ in range(300):
        noise, errors = rng.normal(size=400), 0.3 * rng.normal(size=(2, 400))
        said = conclusion(names, held=held_out([(noise + e) ** 2 for e in errors]))
        called += "predicts held-out frames best" in said[0]
    assert abs(called / 300 - 0.046) < 0.036
    noise = rng.normal(size=400)
    better = held_out([noise**2, (noise + 1.0) ** 2])
    said = conclusion(names, held=better)
    assert (
        said[0].startswith("one predicts held-out frames best: the misfit of two is ")
        and "By what they fitted" in said[1]
    )
    # values that are correlated tell less
    assert held_out([noise**2, (noise + 1.0) ** 2], 0.25).error[1] == pytest.approx(2 * better.error[1], rel=0.02)
    assert "need fits of the same values" in conclusion(names, comparable=False)[0]
