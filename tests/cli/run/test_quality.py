import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from problems import decays, fisher_functional, planets_functional

import pdefit
from pdefit.analysis.goodness.evidence import Verdict
from pdefit.analysis.goodness.verdict import FITTED, MISSES, STOPPED, distrust
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.discretisation import Discretisation
from pdefit.cli.run.quality import about_numbers, fit_quality, outcome
from pdefit.cli.run.residual_series import residual_series
from pdefit.inverse.fit.fit import fit
from pdefit.inverse.objective.compiled import weighted
from pdefit.inverse.uncertainty.intervals import Intervals

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[160]", "times.count=25")
UNMOVED = Discretisation([], {}, {})
WRONG = ("controls.D.guess=2.0", "+controls.D.estimate=false")


@pytest.mark.parametrize(
    ("overrides", "iterations", "word", "reason"),
    [
        ((), None, FITTED, "chi2 per value"),
        (("twin=self", "noise=0.0"), None, FITTED, "far below sigma"),
        (WRONG, None, MISSES, "residuals"),
        ((), 2, STOPPED, "iterations"),
        (("+stages.main.reweight={rounds: 5}",), None, FITTED, "not known"),
        (("+stages.main.reweight={rounds: 5}", *WRONG), None, MISSES, "correlated"),
        (("holdout=0.2",), None, FITTED, "chi2 per value"),
    ],
)
def test_the_verdict_on_a_front(compose, overrides, iterations, word, reason):
    exp = build_experiment(compose(*FRONT, *overrides))
    found = fit(exp.functional, exp.stages, max_iterations=iterations)
    judgement = fit_quality(exp, found, UNMOVED, None)
    (section,), verdict = judgement.sections, judgement.verdict
    assert verdict.word == word and reason in verdict.reason
    honest = word == FITTED and "noise=0.0" not in overrides
    assert honest == (distrust(verdict.word, exp.source.noiseless) == "")
    # re-estimated, and without noise only a weight
    assert exp.sigma_stated == (not any("reweight" in o or o == "noise=0.0" for o in overrides))
    assert (section["whiteness"] is None) == ("noise=0.0" in overrides)
    if "holdout=0.2" in overrides:
        # 0.2 of 13 fitted frames
        assert section["heldout"]["frames"] == 3 and section["values"] == 10 * 160
        assert section["heldout"]["chi2_per_value"] == pytest.approx(1.0, abs=4 * np.sqrt(2 / (3 * 160)))
    else:
        assert section["heldout"] is None and section["values"] == 13 * 160


def test_priors_are_no_data(compose):
    overrides = ("controls.D.guess=1.0", "+controls.D.prior={normal: [5.0, 0.1]}")
    exp = build_experiment(compose(*FRONT, *overrides))
    found = fit(exp.functional, exp.stages, max_iterations=1)
    (section,) = fit_quality(exp, found, UNMOVED, None).sections
    assert section["chi2"] < 2 * found.loss - 100


def test_residuals_over_time_have_signs_and_a_column_for_each_value():
    """Decay at a rate of 0.5 that is predicted at 1: every prediction is too low, and by how much is exact."""
    functional = decays(1)[0]
    series = residual_series(functional, weighted(functional, functional.theta0))
    ts = functional.observations.ts
    assert [*series] == ["u[0]", "u[1]", "u[2]"]
    for k, column in enumerate(series.values()):
        np.testing.assert_allclose(column, (k + 1) * (np.exp(-ts) - np.exp(-0.5 * ts)) / 0.01, atol=1e-5)


def test_bodies_have_columns_of_their_own_and_large_fields_their_size():
    functional, random = planets_functional(), np.random.default_rng(0)
    shape = functional.layout.index.shape
    residuals = {n: random.normal(size=(*shape, *x.shape[1:])) for n, x in functional.observations.values.items()}
    series = residual_series(functional, residuals)
    bodies, axes = functional.observations.values["position"].shape[1:]
    assert len(series) == 2 * bodies * axes and {n.partition(" ")[0] for n in series} == {"position", "velocity"}
    one = decays(1)[0]
    many = {"u": np.concatenate([np.full((1, 6, 4), 3.0), np.full((1, 6, 16), -2.0)], axis=2)}
    wide = eqx.tree_at(
        lambda f: (f.observations.values["u"], f.observations.mask["u"]),
        one,
        (jnp.zeros((6, 20)), jnp.ones((6, 20), bool)),
    )
    series = residual_series(wide, many)
    assert [*series] == ["u rms"]
    np.testing.assert_allclose(series["u rms"], np.sqrt((4 * 9 + 16 * 4) / 20), rtol=1e-15)


@pytest.mark.parametrize(
    ("control", "ends", "falls"),
    [
        # a number of either sign may pass through zero, unless its interval holds nothing else
        (pdefit.transforms.Identity(), None, False),
        (pdefit.transforms.Identity(), (-1.0, 1.0), False),
        (pdefit.transforms.Identity(), (-1e-5, 1e-5), True),
        (pdefit.transforms.Log(), None, True),
        (pdefit.transforms.Softplus(), None, True),
        (pdefit.Control(pdefit.transforms.Identity(), bounds=(0.0, 5.0)), None, True),
        (pdefit.Control(pdefit.transforms.Identity(), bounds=(-5.0, 5.0)), None, False),
    ],
)
def test_only_positive_numbers_fall_to_zero(control, ends, falls):
    functional = fisher_functional({"D": control})
    (bound,) = functional.controls.items
    theta = bound.to_theta(jnp.asarray(1e-6))
    found = pdefit.Fit(functional, theta, 2.0, 30.0, [], 7, "done", True, {}, [])
    known = None
    if ends is not None:
        one, none = np.ones(1), np.zeros((1, 1))
        low, high = (np.asarray([x]) for x in ends)
        known = Intervals(
            "", none, one, one, one, low, high, 9, none, one, (), ("D",), ("",), functional.controls, one > 0
        )
    lines = about_numbers(found, known)
    assert len(lines) == falls and all(line.startswith("D falls to zero") for line in lines)


def test_the_outcome_agrees_with_the_verdict():
    functional = fisher_functional()
    found = pdefit.Fit(functional, functional.theta0, 2.4, np.nan, [], 7, "done", False, {}, [])
    assert outcome(found, Verdict(STOPPED, ())) == "loss not finite at the guess -> 2.4 in 7 iterations (not converged)"
    # an optimizer that was stopped beside the minimum
    assert outcome(found, Verdict(FITTED, ())).endswith("7 iterations (stopped)")
    assert outcome(dataclasses.replace(found, loss_initial=30.0, converged=True), Verdict(FITTED, ())) == (
        "loss 30 -> 2.4 in 7 iterations"
    )
