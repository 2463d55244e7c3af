"""Residuals over time as a run writes them, and the course of the loss in words."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from problems import decays, fisher_functional, planets_functional

import pdefit
from pdefit.analysis.goodness.evidence import Verdict
from pdefit.analysis.goodness.verdict import FITTED, STOPPED
from pdefit.cli.run.fit import outcome
from pdefit.cli.run.residual_series import residual_series
from pdefit.inverse.objective.compiled import weighted


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
    residuals = {n: x for n, x in residuals.items() if n in functional.observed}
    series = residual_series(functional, residuals)
    bodies, axes = functional.observations.values["position"].shape[1:]
    assert len(series) == bodies * axes and {n.partition(" ")[0] for n in series} == {"position"}
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


def test_the_outcome_agrees_with_the_verdict():
    functional = fisher_functional()
    found = pdefit.Fit(functional, functional.theta0, 2.4, np.nan, [], 7, "done", False, {}, [])
    assert outcome(found, Verdict(STOPPED, ())) == "loss not finite at the guess -> 2.4 in 7 iterations (not converged)"
    # an optimizer that was stopped beside the minimum
    assert outcome(found, Verdict(FITTED, ())).endswith("7 iterations (stopped)")
    assert outcome(dataclasses.replace(found, loss_initial=30.0, converged=True), Verdict(FITTED, ())) == (
        "loss 30 -> 2.4 in 7 iterations"
    )
