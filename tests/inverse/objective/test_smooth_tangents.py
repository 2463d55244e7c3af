"""Hard switches fitted without bias, and what is said of the bias that noise leaves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, fisher_functional
from scipy.optimize import minimize_scalar
from small_systems import Relay

import pdefit
from pdefit.inverse.objective.smooth_tangents import inexact_bias, smoothed


def relay(noise=0.0, smooth_tangents=True, seed=0, guess=1.3, dt=0.02):
    """The speed of something that doubles it at a threshold, from its path."""
    truth = Relay(k=jnp.asarray(1.0))
    y0, ts = truth.init(None), np.linspace(0.0, 1.2, 13)
    data = pdefit.add_noise(pdefit.simulate(truth, y0, ts, dt=dt), noise, jax.random.key(seed))
    problem = pdefit.Problem(Relay(k=jnp.asarray(guess)), y0)
    return pdefit.Functional(problem, data, {"k": pdefit.transforms.Log()}, dt=dt, smooth_tangents=smooth_tangents)


def test_hard_data_are_fitted_exactly_and_a_smooth_model_is_biased():
    functional = relay()
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    assert abs(float(found.problem.system.k) - 1) < 1e-6
    smooth = pdefit.fit(smoothed(functional), [pdefit.optimizers.LevenbergMarquardt()])
    assert abs(float(smooth.problem.system.k) - 1) > 0.01


def test_residuals_are_hard_and_the_gradient_is_that_of_the_smooth_twin():
    functional = relay(noise=0.02)
    theta = functional.theta0
    value, gradient, matrix = eqx.filter_jit(pdefit.Functional.normal_equations)(functional, theta)
    np.testing.assert_allclose(value, VALUE(functional, theta), rtol=1e-13)
    blind = eqx.filter_jit(pdefit.Functional.normal_equations)(relay(noise=0.02, smooth_tangents=False), theta)
    # without the twin the tangent does not see that a larger k reaches the threshold sooner
    assert matrix[0, 0] > 1.1 * blind[2][0, 0] and gradient[0] != blind[1][0]


@pytest.mark.parametrize("seed", range(3))
def test_the_bias_that_noise_leaves_is_told(seed):
    # J is as rough as steps are long: a threshold is crossed in one or the next
    functional = relay(noise=0.05, seed=seed, dt=0.002)
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    best = minimize_scalar(lambda x: float(VALUE(functional, jnp.asarray([x]))), bounds=(-0.5, 0.5), method="bounded")
    left = best.x - float(found.theta[0])
    told = float(inexact_bias(functional, jnp.asarray(found.theta))[0])
    error = pdefit.intervals(functional, found.theta).error
    # to a fraction of what the data leave open
    assert abs(told - left) < 0.3 * float(error[0])


def test_the_certificate_is_that_of_the_twin_and_of_the_way_down():
    functional = relay(noise=0.02)
    used = {"optimizers": [pdefit.optimizers.LevenbergMarquardt()]}
    certificate = pdefit.certify(functional, functional.theta0, **used)
    assert certificate.passed
    angle, length = certificate.checks[-2:]
    assert angle.name.startswith("degrees between") and angle.error < 5
    assert length.name.startswith("length of smooth tangents") and length.error < 1.2
    assert not pdefit.certify(relay(noise=0.02, smooth_tangents=False), functional.theta0, **used).passed


def test_a_system_without_hard_switches_is_refused():
    with pytest.raises(pdefit.PdefitError, match="hard switches"):
        fisher_functional(smooth_tangents=True)
