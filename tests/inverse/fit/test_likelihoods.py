"""Noise that follows the prediction: weighted fits by turns end at the most likely numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import decays
from scipy import optimize, stats

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.config._noise import NAMED

LOG = pdefit.transforms.Log()
LM = pdefit.optimizers.LevenbergMarquardt(tolerance=1e-8)


def _fit(values, variance, functional):
    """The fit of one decay of three cells to other values, by a variance that follows the prediction."""
    values = np.asarray(values, float)
    sigma = variance.at_data(values, np.ones(values.shape, bool))
    data = pdefit.Observations.build(functional.observations.ts, {"u": values}, {"u": sigma})
    functional = pdefit.Functional(functional.problem, data, {"k": LOG, "y0": {"u": LOG}}, dt=0.05)
    by = pdefit.likelihoods.ByPrediction(variables={"u": variance})
    return pdefit.fit(functional, [pdefit.Stage(LM, reweight=by)]), by


@pytest.fixture(scope="module")
def decay():
    return decays(1, frames=9)[0]


def _curve(theta, ts):
    return np.exp(theta[1:])[None] * np.exp(-np.exp(theta[0]) * ts)[:, None]


def test_counts_end_at_the_maximum_of_their_likelihood(decay):
    ts, truth = np.asarray(decay.observations.ts), np.log([2.5, 20.0, 4.0, 2.0])
    counts = np.random.default_rng(3).poisson(_curve(truth, ts)).astype(float)
    assert (counts == 0).any()
    found, _ = _fit(counts, pdefit.likelihoods.Poisson(), decay)

    def unlikely(theta):
        m = _curve(theta, ts)
        return np.sum(m - counts * np.log(m))

    best = optimize.minimize(unlikely, truth, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(found.theta, best, atol=1e-3 * 0.1)
    # the matrix is the information of Fisher
    curves = np.asarray(
        jax.jacfwd(lambda x: jnp.exp(x[1:])[None] * jnp.exp(-jnp.exp(x[0]) * ts)[:, None])(jnp.asarray(best))
    )
    fisher = np.einsum("tip,tiq,ti->pq", curves, curves, 1 / _curve(best, ts))
    matrix = np.asarray(found.functional.normal_equations(jnp.asarray(found.theta))[2])
    np.testing.assert_allclose(matrix, fisher, rtol=2e-3)
    assert any("gain 1" in event for event in found.events)


def test_both_parts_of_the_noise_are_found(decay):
    ts, random = np.asarray(decay.observations.ts), np.random.default_rng(0)
    variance = pdefit.likelihoods.Proportional()
    m = _curve(np.log([0.9, 20.0, 4.0, 2.0]), ts)
    found, by = _fit(m + np.hypot(0.05, 0.1 * m) * random.standard_normal(m.shape), variance, decay)
    known = by.known(found.functional, jnp.asarray(found.theta))["u"]
    np.testing.assert_allclose(
        found.functional.observations.sigma["u"], known.sigma(_curve(found.theta, ts)), rtol=2e-3
    )
    many = random.uniform(0.01, 20.0, 4000)
    noise = np.hypot(0.05, 0.1 * many) * random.standard_normal(4000)
    found = variance.estimated(many, noise, 0)
    assert found.relative == pytest.approx(0.1, rel=0.05) and found.constant == pytest.approx(0.05, rel=0.3)
    assert pdefit.likelihoods.Proportional(relative=0.1).estimated(many, noise, 0).relative == 0.1


def test_what_is_no_variance_is_refused(decay):
    for given in ({}, {"constant": -1.0}, {"relative": float("nan")}):
        with pytest.raises(PdefitError, match="0 or more"):
            pdefit.likelihoods.PredictedVariance(**given)
    with pytest.raises(PdefitError, match="v"):
        pdefit.likelihoods.ByPrediction(variables={"v": pdefit.likelihoods.Poisson()}).known(decay, decay.theta0)


@pytest.mark.parametrize("k", [0.5, 4.0, 30.0])
def test_counts_with_a_relative_part_are_the_negative_binomial(k):
    """Its variance is m + m^2 / k, so that k = 1 / relative^2."""
    m = np.asarray([0.5, 3.0, 40.0, 900.0])
    variance = pdefit.likelihoods.PredictedVariance(gain=1.0, relative=k**-0.5)
    np.testing.assert_allclose(variance.sigma(m) ** 2, stats.nbinom(k, k / (k + m)).var(), rtol=1e-12)
    # and the relative part of an overdispersed record is found
    if k == 4.0:
        many = np.random.default_rng(0).uniform(5.0, 100.0, 4000)
        counts = np.random.default_rng(1).negative_binomial(k, k / (k + many))
        found = pdefit.likelihoods.PredictedVariance(gain=1.0, relative=None).estimated(many, counts - many, 0)
        assert found.relative is not None and 1 / found.relative**2 == pytest.approx(k, rel=0.1)


def test_the_negative_binomial_has_its_name():
    k, given, few = 4.0, pdefit.likelihoods.NegativeBinomial(4.0), np.array([1.0, 30.0])
    np.testing.assert_allclose(given.sigma(few) ** 2, few + few**2 / k)
    assert NAMED["negative_binomial"] == {"gain": 1.0, "relative": "auto"}
    assert pdefit.likelihoods.NegativeBinomial().is_estimated and not given.is_estimated
    # scipy's law has this variance, and its scatter gives k back
    rng = np.random.default_rng(0)
    means = np.linspace(20.0, 60.0, 4000)
    counts = stats.nbinom(k, k / (k + means)).rvs(random_state=rng)
    found = pdefit.likelihoods.NegativeBinomial().estimated(means, counts - means, 0)
    np.testing.assert_allclose(found.relative**-2, k, rtol=0.05)
    with pytest.raises(pdefit.PdefitError, match="expects k above 0"):
        pdefit.likelihoods.NegativeBinomial(0.0)
