"""Stages that end at the noise level, or at the best held-out score."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher_functional
from resumed import resumed_alike, run

import pdefit
from pdefit.inverse.fit import _fit_run as fit_run
from pdefit.inverse.objective.compiled import VALUE, sum_of_squares, weighted

LOG = {
    "D": pdefit.transforms.Log(),
    "r": pdefit.Control(pdefit.transforms.Log(), prior=pdefit.priors.LogNormal(1.5, 0.5)),
}
NOISY = fisher_functional(LOG, noise=0.02)
DESCENT = pdefit.optimizers.Adam(0.05)


def score(J, theta):
    """The mean squared weighted residual of the data."""
    return sum_of_squares(weighted(J, theta)) / J.observed_values


def first_below(J, level):
    """The first evaluation of a fit without a rule whose data are below a level, by the thetas of its history."""
    history = pdefit.fit(J, [pdefit.Stage(DESCENT, 40)]).history
    return next(r for r in history if score(J, jnp.asarray(r.theta)) <= level)


def test_noise_stops_at_the_first_evaluation_that_reaches_the_level():
    expected = first_below(NOISY, 4.0)
    found = pdefit.fit(NOISY, [pdefit.Stage(DESCENT, 40, stop=pdefit.stopping.Noise(4.0))])
    assert found.iterations == expected.iteration and 3 < found.iterations < 40
    np.testing.assert_array_equal(found.theta, expected.theta)
    assert found.converged and score(NOISY, found.theta) <= 4.0
    (event,) = found.events
    assert event.startswith("stage 1: stopped at the noise level: the mean squared residual is 3.")


def test_a_level_that_is_not_reached_changes_nothing():
    found = pdefit.fit(NOISY, [pdefit.Stage(DESCENT, 12, stop=pdefit.stopping.Noise(0.1))])
    plain = pdefit.fit(NOISY, [pdefit.Stage(DESCENT, 12)])
    np.testing.assert_array_equal(found.theta, plain.theta)
    assert not found.converged and found.events == []


@pytest.mark.parametrize("driver", [pdefit.drivers.Traced(), pdefit.drivers.Hosted()])
def test_other_drivers_and_tangents_stop_as_well(driver):
    optimizer = pdefit.optimizers.LevenbergMarquardt()
    found = pdefit.fit(NOISY, [pdefit.Stage(optimizer, 40, stop=pdefit.stopping.Noise(4.0))], driver=driver)
    scores = [score(NOISY, jnp.asarray(r.theta)) for r in found.history]
    assert found.converged and scores[-1] <= 4.0 < min(scores[:-1])
    np.testing.assert_array_equal(found.theta, found.history[-1].theta)


def withheld():
    """A functional of a few values with much noise, and the record with all others."""
    J = fisher_functional(LOG, noise=0.3)
    few = jnp.asarray(np.random.default_rng(3).random((9, 64)) < 0.02)
    return eqx.tree_at(lambda f: f.observations.mask["u"], J, few), J.observations


def test_holdout_returns_the_point_with_the_best_score():
    J, record = withheld()
    rule = pdefit.stopping.Holdout(record, patience=3)
    judged = rule.judged(J)
    assert judged.observed_values + J.observed_values == 9 * 64
    found = pdefit.fit(J, [pdefit.Stage(DESCENT, 80, stop=rule)])
    rows = found.history
    lowest = [r for i, r in enumerate(rows) if r.loss < min([x.loss for x in rows[:i]], default=np.inf)]
    scores = [score(judged, jnp.asarray(r.theta)) for r in lowest]
    best = int(np.argmin(scores))
    np.testing.assert_array_equal(found.theta, lowest[best].theta)
    assert 0 < best and len(lowest) - 1 - best == 3
    assert found.converged and found.iterations == lowest[-1].iteration < 80
    assert "best held-out score" in found.events[0]


@pytest.mark.parametrize("rule", ["noise", "holdout"])
def test_a_resumed_stage_stops_at_the_same_evaluation(rule, monkeypatch):
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 4)
    J, record = (NOISY, None) if rule == "noise" else withheld()
    stop = pdefit.stopping.Noise(4.0) if rule == "noise" else pdefit.stopping.Holdout(record, 3)
    stages = [pdefit.Stage(DESCENT, 80, stop=stop), pdefit.Stage(DESCENT, 1)]
    whole, rows, states = run(J, stages)
    assert len(states) >= 4
    for found in resumed_alike(J, stages, whole, rows, states):
        assert found.converged == whole.converged


def test_recordings_stop_at_the_noise_of_all():
    J = pdefit.Recordings([NOISY, fisher_functional(LOG, noise=0.02, guess=(0.6, 1.5))])
    theta = J.theta0 + 0.1
    extra = VALUE(J, theta) - sum(sum_of_squares(weighted(f, own)) / 2 for f, own in J.parts(theta))
    np.testing.assert_allclose(J.extra_value(theta), extra, rtol=1e-9)
    assert extra > 0
    found = pdefit.fit(J, [pdefit.Stage(DESCENT, 40, stop=pdefit.stopping.Noise(4.0))])
    np.testing.assert_allclose(found.theta, first_below(NOISY, 4.0).theta, rtol=0.1)
    # frames held out of each make the score
    whole = tuple(part.observations for part, _ in J.parts(theta))
    fitted = J.each(lambda f, own: (eqx.tree_at(_mask, f, f.observations.mask["u"].at[2].set(False)), own), theta)[0]
    judged = pdefit.stopping.Holdout(whole).judged(fitted)
    score = sum(float(np.sum(np.square(weighted(f, own)["u"][0, 2]))) / 2 for f, own in J.parts(theta))
    np.testing.assert_allclose(VALUE(judged, theta) - judged.extra_value(theta), score, rtol=1e-9)
    with pytest.raises(pdefit.PdefitError, match="expects the record with these data"):
        pdefit.fit(J, [pdefit.Stage(DESCENT, stop=pdefit.stopping.Holdout(NOISY.observations))])


def _mask(functional):
    return functional.observations.mask["u"]


def test_rules_that_cannot_be():
    noise, holdout = pdefit.stopping.Noise, pdefit.stopping.Holdout
    for stage, words in (
        (pdefit.Stage(DESCENT, reweight=pdefit.Reweight(), stop=noise()), "remove reweight"),
        (pdefit.Stage(DESCENT, stop=holdout()), "expects the record with these data"),
        (pdefit.Stage(DESCENT, stop=holdout(NOISY.observations)), "hold some out"),
    ):
        with pytest.raises(pdefit.PdefitError, match=words):
            pdefit.fit(NOISY, [stage])


def test_a_rule_leaves_the_number_of_products_to_the_optimizer():
    stage = pdefit.Stage(pdefit.optimizers.GaussNewtonCG(products=7), 5, stop=pdefit.stopping.Noise(1.0))
    assert stage.optimizer_for(NOISY).most_products == 7
