"""Influences of values on numbers, against the Jacobian; and how far numbers are from their minimum."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher_functional

import pdefit
from pdefit.inverse.uncertainty.influences import influences, remaining


@pytest.fixture(scope="module")
def fitted():
    found = pdefit.fit(fisher_functional(noise=0.02), [pdefit.optimizers.LevenbergMarquardt(decrement=0.0)])
    return found, pdefit.intervals(found.functional, found.theta, sigma_stated=True)


def test_influences_are_rows_of_the_pseudoinverse(fitted):
    found, known = fitted
    jacobian = np.asarray(found.functional.jacobian(found.theta))
    expected = jacobian @ known.inverse.T / np.sqrt(np.diag(known.inverse))
    np.testing.assert_allclose(np.linalg.norm(expected, axis=0), 1.0)
    (record,) = influences(found, known)
    for k, change in enumerate(record):
        # a step of a tenth of a standard error is not quite linear
        np.testing.assert_allclose(np.ravel(change["u"]), expected[:, k], atol=0.01 * np.max(np.abs(expected)))


def test_the_distance_to_the_minimum_in_standard_errors(fitted):
    found, known = fitted
    assert remaining(found, known) < 1e-4
    step = 0.3 * np.linalg.cholesky(known.covariance)[:, 0]
    away = dataclasses.replace(found, theta=jnp.asarray(found.theta + step))
    there = pdefit.intervals(away.functional, away.theta, sigma_stated=True)
    assert remaining(away, there) == pytest.approx(0.3, rel=0.1)
