"""Influences of values on numbers, against the Jacobian; and how far numbers are from their minimum."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher_functional
from scipy import stats
from small_systems import State

import pdefit
from pdefit.inverse.uncertainty.influences import influences, numbers, remaining


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


class Fed(pdefit.AbstractSystem):
    """u' = b - k u + c t u^2 / 10^5: two numbers that the data determine, and one that they hardly feel."""

    time_unit = "s"
    b: jax.Array = pdefit.parameter()
    k: jax.Array = pdefit.parameter()
    c: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return State(self.b - self.k * y.u + 1e-5 * self.c * t * y.u**2)

    def init(self, key):
        return State(jnp.ones(1))


def at_guess(**controls):
    """A fit of a record with b = 2 and k = 1 that stays at its guess, and its intervals."""
    ts = np.linspace(0.0, 3.0, 13)
    seen = (2 - np.exp(-ts) + 0.01 * np.random.default_rng(0).normal(size=13))[:, None]
    system = Fed(b=jnp.asarray(2.0), k=jnp.ones(()), c=jnp.ones(()))
    problem = pdefit.Problem(system, system.init(None))
    objective = pdefit.Functional(problem, pdefit.Observations.build(ts, {"u": seen}, 0.01), controls, dt=0.25)
    found = pdefit.Fit(objective, objective.theta0, 0.0, 0.0, [], 0, "done", True, {}, [])
    return found, pdefit.intervals(objective, found.theta)


def test_a_number_at_its_bound_counts_as_held():
    """It has no interval and no influence, and the interval of the other number is that of a fit of this number alone.

    The data draw k to 1, beyond its bound.
    """
    low = pdefit.Control(guess=pdefit.guesses.Value(0.95), bounds=(0.01, 0.95))
    found, known = at_guess(b=pdefit.Control(), k=low)
    value, gradient, matrix = known.equations[1]
    assert gradient[1] < 0
    # 13 values and one number
    alone = np.sqrt(2 * value / 12 / matrix[0, 0])
    np.testing.assert_allclose(known.reach[0], stats.t.ppf(0.975, 12) * alone, rtol=1e-6)
    assert not np.isfinite(known.reach[1]) and list(numbers(found, known)) == [0]


def test_a_flat_number_has_no_interval():
    """Its standard error is many times the range of its bounds."""
    flat = pdefit.Control(pdefit.transforms.Log(), bounds=(0.1, 10.0))
    found, known = at_guess(b=pdefit.Control(), c=flat)
    assert known.unidentifiable == ("c",) and np.isfinite(known.reach[0])
    assert not np.isfinite(known.reach[1]) and list(numbers(found, known)) == [0]
