"""Noisy inputs as controls, with their measurement as prior."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import State

import pdefit

TIMES = np.linspace(0.0, 2.0, 9)
SEEN = np.sin(3 * TIMES) + 0.1 * np.random.default_rng(0).normal(size=9)
FREE = {"args": {"left": {"values": pdefit.Control(prior=pdefit.priors.Measured())}}}


class Driven(pdefit.AbstractSystem):
    """u' = left(t) - k u."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(args.left(t).astype(y.u.dtype) - self.k * y.u)

    def init(self, key):
        return State(jnp.zeros(1))


def functional(series, controls=FREE, deviation=0.1):
    system, ts = Driven(k=1.0), np.linspace(0.0, 2.0, 5)
    truth = pdefit.TimeSeries(TIMES, np.sin(3 * TIMES), "smooth", sigma=1e-6)
    record = pdefit.simulate(
        system, system.init(None), ts, solver=pdefit.solvers.RK4(), dt=0.05, args=pdefit.Inputs(left=truth)
    )
    data = pdefit.Observations.build(ts, dict(record.values), deviation)
    problem = pdefit.Problem(system, system.init(None), args=pdefit.Inputs(left=series))
    return pdefit.Functional(problem, data, controls, dt=0.05)


def test_the_posterior_is_that_of_linear_regression():
    """The equation is linear in the edge, so that its covariance is known."""
    sigma = np.linspace(0.05, 0.2, 9)
    series = pdefit.TimeSeries(TIMES, SEEN, "smooth", sigma=sigma, knots=6)
    problem = functional(series)
    found = pdefit.fit(problem, [pdefit.optimizers.LevenbergMarquardt()])
    # rows of the measurement and of the observations, each over its standard deviation
    basis = np.asarray(jax.vmap(series.with_values(jnp.eye(6)))(TIMES)) / sigma[:, None]
    seen, ts = problem.observations.values["u"][:, 0] / 0.1, problem.observations.ts

    def run(values):
        args = pdefit.Inputs(left=series.with_values(values))
        states = pdefit.solve(
            problem.problem.system, problem.problem.y0, ts, solver=pdefit.solvers.RK4(), dt=0.05, t0=0.0, args=args
        )
        return states.u[:, 0] / 0.1

    rows = np.concatenate([basis, np.asarray(jax.jacfwd(run)(jnp.zeros(6)))])
    wanted = np.linalg.lstsq(rows, np.concatenate([SEEN / sigma, seen]))[0]
    np.testing.assert_allclose(found.theta, wanted, rtol=1e-6)
    errors = pdefit.intervals(problem, found.theta, sigma_stated=True).error
    stated = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))
    assert np.all(errors >= stated * (1 - 1e-6)) and np.all(errors <= 1.5 * stated)


def test_a_value_at_every_time_is_known_as_well_as_it_was_measured():
    series = pdefit.TimeSeries(TIMES, SEEN, sigma=0.1)
    prior = pdefit.priors.Measured().resolve_for(series)
    x = jnp.linspace(-1.0, 1.0, 9)
    np.testing.assert_allclose(prior.residual(x), (x - SEEN) / 0.1, rtol=1e-12)


@pytest.mark.parametrize("deviation", [None, "elsewhere"])
def test_a_prior_without_measurement(deviation):
    series = pdefit.TimeSeries(TIMES, SEEN, sigma=None if deviation is None else 0.1)
    controls = FREE if deviation is None else {"k": pdefit.Control(prior=pdefit.priors.Measured())}
    with pytest.raises(pdefit.PdefitError, match="time series with sigma; give its sigma"):
        functional(series, controls)
