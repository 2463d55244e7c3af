"""The posterior of fields against the dense matrix."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, fisher

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.inverse.uncertainty.control_values import prior_variance

VALUES = eqx.filter_jit(jax.jacobian(lambda theta, controls: controls.values(theta)))
NUMBERS = {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}
# a positive field with a prior of half a logarithm
SMOOTH = pdefit.Control(pdefit.transforms.Log(), smoothing=pdefit.Smoothing(length=3.0, amplitude=0.5))


def start():
    """A density that is nowhere zero."""
    x = pdefit.CartesianGrid(shape=(64,), extent=(40.0,), origin=(-20.0,)).axis(0)
    return fisher().init(None)._replace(u=jnp.asarray(0.3 + 0.2 * np.sin(x / 5)))


def functional(field, noise=0.0, sigma=0.05):
    """D, r and the initial state of a density at their true values, from data at every second point."""
    y0, ts = start(), np.linspace(0.0, 4.0, 5)
    seen = np.array(pdefit.simulate(fisher(), y0, ts, dt=0.05).values["u"])
    seen[:, ::2] = np.nan
    seen += noise * np.random.default_rng(0).standard_normal(seen.shape)
    data = pdefit.Observations.build(ts, {"u": seen}, sigma)
    return pdefit.Functional(pdefit.Problem(fisher(), y0), data, NUMBERS | {"y0": {"u": field}}, dt=0.05)


def modes():
    """The same with 24 modes, as if the data had chosen their smoothness; the mean has no prior."""
    found = functional(pdefit.Control(modes=24))
    waves = found.controls.items[-1].parametrization.waves
    return found.with_roughness({"y0.u": jnp.asarray(np.where(waves > 0, 10 * np.exp(2.5 * waves), 0.0))})


def dense(found):
    """The covariance of all controls in search space, and the derivative of their values."""
    matrix = np.asarray(eqx.filter_jit(pdefit.Functional.normal_equations)(found, found.theta0)[2])
    return np.linalg.inv(matrix), {path: np.asarray(x) for path, x in VALUES(found.theta0, found.controls).items()}


@pytest.fixture(scope="module", params=["modes", "smoothing"])
def case(request):
    """A functional, its posterior with all eigenpairs, and the dense covariance."""
    found = modes() if request.param == "modes" else functional(SMOOTH)
    whole = pdefit.field_posterior(found, found.theta0, rank=100, tolerance=0.0, sigma_stated=True)
    return found, whole, *dense(found)


def test_all_eigenpairs_together_are_the_dense_covariance(case):
    """Fields and numbers: deviations, eigenvalues and degrees of freedom."""
    found, whole, covariance, values = case
    for path, jac in values.items():
        rows = jac.reshape(-1, covariance.shape[0])
        expected = np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))
        np.testing.assert_allclose(whole.standard_deviation[path].ravel(), expected, rtol=1e-6)
    weights = found.controls.roughness_of_theta()
    given = weights > 0
    # the Schur complement in units of the prior, which elimination of the other elements leaves
    schur = np.linalg.inv(covariance[np.ix_(given, given)]) / np.outer(weights[given], weights[given])
    eigenvalues = np.linalg.eigvalsh(schur)[::-1] - 1
    np.testing.assert_allclose(whole.eigenvalues, eigenvalues[: whole.eigenvalues.size], rtol=1e-6, atol=1e-6)
    assert whole.degrees_of_freedom == pytest.approx(np.sum(eigenvalues / (1 + eigenvalues)), rel=1e-6)
    assert whole.noise == 1 and whole.missing == 0 and not whole.remark
    assert whole.products == weights.size


def test_the_evidence_has_its_maximum_where_the_estimate_uses_its_degrees_of_freedom(case):
    """d ln(evidence) / d ln(amplitude) is |w theta|^2 less the degrees of freedom, those of a trace of dense matrices."""
    found, whole, covariance, _ = case
    weights = found.controls.roughness_of_theta()
    theta = found.theta0 + 0.3 * jnp.where(weights > 0, 1 / np.where(weights > 0, weights, 1.0), 0.0)
    moved = dataclasses.replace(whole, theta=theta)
    field = found.controls.elements["y0.u"] & (weights > 0)
    used = np.sum((weights * np.asarray(theta))[field] ** 2)
    freedom = np.sum(1 - np.diag(covariance)[field] * weights[field] ** 2)
    assert moved.amplitude_factors == {"y0.u": pytest.approx(np.sqrt(used / freedom), rel=1e-6)}


def test_few_eigenpairs_bound_the_deviation_from_above(case):
    found, whole, _, _ = case
    few = pdefit.field_posterior(found, found.theta0, rank=6, sigma_stated=True)
    for path, expected in whole.standard_deviation.items():
        assert np.all(few.standard_deviation[path] >= expected * (1 - 1e-9))
    field, prior = few.standard_deviation["y0.u"], whole.prior_standard_deviation["y0.u"]
    assert np.max(field / whole.standard_deviation["y0.u"]) > 1.2
    assert np.all(field < 1.01 * prior) or found.controls.items[-1].has_modes
    assert np.all(few.eigenvalues <= whole.eigenvalues[:6] * (1 + 1e-9)) and few.products == 6 + np.sum(
        few.weights == 0
    )
    assert "up to" in few.remark and "a larger rank finds them" in few.remark


def test_the_search_ends_where_eigenvalues_are_small(case):
    """The rest of the trace is estimated from above, and the deviation is right to some percent."""
    found, whole, _, _ = case
    found = pdefit.field_posterior(found, found.theta0, rank=100, tolerance=0.3, batch=4, sigma_stated=True)
    assert found.eigenvalues.size < whole.eigenvalues.size
    left = np.sum(whole.eigenvalues) - np.sum(found.eigenvalues)
    assert left < 2 * found.missing and found.missing < 0.3 * found.eigenvalues.size
    ratio = found.standard_deviation["y0.u"] / whole.standard_deviation["y0.u"]
    assert np.all(ratio >= 1 - 1e-9) and np.max(ratio) < 1.1


def test_samples_have_the_covariance(case):
    found, whole, covariance, _ = case
    drawn = whole.draws(20000, jax.random.key(0)) - np.asarray(found.theta0)
    size = np.sqrt(np.diag(covariance))
    # five standard errors of a correlation
    np.testing.assert_allclose(np.cov(drawn.T) / np.outer(size, size), covariance / np.outer(size, size), atol=0.05)
    np.testing.assert_allclose(drawn.mean(axis=0) / size, 0.0, atol=0.04)
    values = whole.samples(3, jax.random.key(1))
    assert values["y0.u"].shape == (3, 64) and values["D"].shape == (3,)
    assert found.controls.items[-1].has_modes or np.all(values["y0.u"] > 0)


def test_an_unknown_noise_is_that_of_the_residuals():
    """A stated amplitude stays what it is."""
    noisy = functional(SMOOTH, noise=0.02, sigma=0.2)
    found = pdefit.field_posterior(noisy, noisy.theta0, rank=100, tolerance=0.0)
    covariance, values = dense(noisy)
    weights = noisy.controls.roughness_of_theta()
    used = weights.size - np.diag(covariance) @ weights**2
    # theta0 is the guess, where the prior has no residual
    expected = 2 * VALUE(noisy, noisy.theta0) / (noisy.observed_values - used)
    assert found.noise**2 == pytest.approx(float(expected), rel=1e-6) and found.noise < 0.2
    data = np.linalg.inv(covariance) - np.diag(weights**2)
    rows, scaled = values["y0.u"], np.linalg.inv(data / found.noise**2 + np.diag(weights**2))
    expected = np.sqrt(np.einsum("ij,jk,ik->i", rows, scaled, rows))
    np.testing.assert_allclose(found.standard_deviation["y0.u"], expected, rtol=1e-6)


def test_the_variance_of_the_prior_needs_no_matrix(case):
    control = case[0].controls.items[-1]
    part, weights = case[0].controls.split(case[0].theta0)[-1], control.parametrization.weights
    jac, given = np.asarray(jax.jit(jax.jacobian(control.to_physical))(part)), weights > 0
    expected = np.sum((jac[:, given] / weights[given]) ** 2, axis=1)
    np.testing.assert_allclose(prior_variance(control, part, weights), expected, rtol=1e-10)


def test_fields_without_a_prior_are_refused():
    plain = functional(pdefit.Control(modes=24))
    with pytest.raises(
        PdefitError, match="expects a prior of y0.u; give its smoothing an amplitude, or make it of modes"
    ):
        pdefit.field_posterior(plain, plain.theta0)
