import equinox as eqx
import jax
import numpy as np
import pytest
from problems import fisher_functional
from small_systems import Lines

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.evidence import Quality
from pdefit.analysis.goodness.holdout import held_frames, heldout_score, withhold
from pdefit.inverse.shooting.formulation import Segments, Single
from pdefit.inverse.uncertainty.influences import independent_errors

TS = np.linspace(0.0, 10.0, 101)


@pytest.mark.parametrize("formulations", [[Single()], [Single(), Segments(1.0)], [Segments(0.2)]])
@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3])
def test_held_frames_are_spread_and_start_nothing(fraction, formulations):
    held = held_frames(TS, fraction, formulations)
    starts = np.concatenate([f.layout(TS, np.inf).nodes for f in formulations])
    assert held.size == round(fraction * 101) == np.unique(held).size
    assert not set(held) & {0, 100, *starts}
    gaps = np.diff(np.concatenate([[0], held, [100]]))
    assert gaps.max() <= 1.5 * 101 / (held.size + 0.5) + 2


def test_frames_are_counted_from_the_first_that_is_seen():
    assert held_frames(TS, [1, 98], [Single()], 1).tolist() == [2, 99]
    assert held_frames(TS[:6], 0.4, [Single()], 1).tolist() == [2, 4]
    for wrong in (0, 99):
        with pytest.raises(PdefitError, match="between 1 and 98"):
            held_frames(TS, [wrong], [Single()], 1)


def test_without_a_holdout_nothing_is_held():
    assert held_frames(TS, 0, [Single()]).size == 0


@pytest.mark.parametrize(
    ("fraction", "formulation", "words"),
    [
        (0.6, Single(), ("holdout", "0.5")),
        (-0.1, Single(), ("holdout", "-0.1")),
        (True, Single(), ("holdout", "True")),
        ("some", Single(), ("holdout", "some")),
        (float("nan"), Single(), ("holdout", "nan")),
        (0.1, Segments(0.1), ("10 of 101", "longer windows")),
    ],
)
def test_what_cannot_be_held_is_one_sentence(fraction, formulation, words):
    with pytest.raises(PdefitError) as error:
        held_frames(TS, fraction, [formulation])
    for word in words:
        assert word in str(error.value)


def test_held_frames_have_no_influence_and_are_scored_afterwards():
    functional = fisher_functional(noise=0.02, count=25)
    everything = functional.observations
    held = np.asarray([5, 11, 17])
    fitted = eqx.tree_at(lambda f: f.observations, functional, withhold(everything, held))
    assert fitted.observed_values == 22 * 64
    # whatever they hold
    spoilt = eqx.tree_at(lambda f: f.observations.values["u"], fitted, everything.values["u"].at[held].set(1e3))
    gradient = eqx.filter_jit(pdefit.Functional.value_and_grad)
    jax.tree.map(np.testing.assert_array_equal, gradient(fitted, fitted.theta0), gradient(spoilt, fitted.theta0))
    fit = pdefit.fit(fitted, [pdefit.optimizers.LevenbergMarquardt()])
    score, count = heldout_score(fit.functional, fit.theta, everything, held)
    assert count == 3 * 64 and score == pytest.approx(1.0, abs=4 * np.sqrt(2 / count))
    # the two parts are the whole
    both, _ = heldout_score(fit.functional, fit.theta, everything, np.arange(25))
    assert both * 25 * 64 == pytest.approx(2 * fit.loss + score * count)


def test_held_frames_are_measured_by_the_variance_of_their_prediction():
    # u = a t + c t^2 / 2 and v = b t + c t^2 / 2: linear, so that its variance is known
    ts, held = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([2, 3])
    rows = {"u": np.stack([ts, 0 * ts, ts**2 / 2], -1), "v": np.stack([0 * ts, ts, ts**2 / 2], -1)}
    noise = np.random.default_rng(0)
    seen = pdefit.Observations.build(ts, {n: a.sum(-1) + 0.1 * noise.normal(size=5) for n, a in rows.items()}, 0.1)
    system = Lines(*np.ones((3,)))
    controls = {name: pdefit.transforms.Identity() for name in "abc"}
    functional = pdefit.Functional(
        pdefit.Problem(system, system.init(None)), withhold(seen, held), controls, dt=0.5, solver=pdefit.solvers.RK4()
    )
    fit = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    known = pdefit.intervals(functional, fit.theta, sigma_stated=True)
    (errors,) = independent_errors(fit, known)
    kept = np.setdiff1d(np.arange(5), held)
    of_fitted = np.concatenate([a[kept] for a in rows.values()]) / 0.1
    inverse = np.linalg.inv(of_fitted.T @ of_fitted)
    np.testing.assert_allclose(np.transpose(errors) @ errors, inverse, rtol=1e-6)
    expected = 0.0
    for name, a in rows.items():
        r = (a @ np.asarray(fit.theta) - np.asarray(seen.values[name]))[held] / 0.1
        expected += np.sum(r**2 / (1 + np.einsum("ip,pq,iq->i", a[held] / 0.1, inverse, a[held] / 0.1)))
    score, count = heldout_score(fit.functional, fit.theta, seen, held, errors)
    assert count == 4 and score == pytest.approx(expected / 4, rel=1e-6)
    assert score < heldout_score(fit.functional, fit.theta, seen, held)[0]


def test_right_models_of_small_records_are_not_condemned_by_held_frames():
    # the chi2 of the fit has values - controls degrees of freedom, that of held frames one for each value
    draws = np.random.default_rng(0)
    for fitted, numbers, held in ((8, 4, 2), (12, 3, 4), (40, 5, 6)):
        pairs = zip(draws.chisquare(fitted - numbers, 1000), draws.chisquare(held, 1000) / held, strict=True)
        condemned = sum(
            Quality(chi2, fitted, None, numbers, True, heldout=(score, held)).unheld for chi2, score in pairs
        )
        assert condemned <= 1
    # six times the variance is more than chance
    assert Quality(40.0, 45, None, 5, True, heldout=(6.0, 20)).unheld
