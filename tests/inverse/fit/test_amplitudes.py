"""Amplitudes of smoothing priors that the data choose, beside the evidence of a linear problem by dense matrices."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from problems import fisher
from resumed import resumed_alike, run

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.inverse.fit import _fit_run as fit_run
from pdefit.inverse.fit import amplitudes
from pdefit.inverse.fit.amplitudes import choose_amplitudes
from pdefit.inverse.objective.compiled import PRODUCT

SIGMA, TRUE = 0.02, 0.1
STAGES = [pdefit.Stage(pdefit.optimizers.GaussNewtonCG(products=60, tolerance=1e-12, decrement=0.0))]
JACOBIAN = eqx.filter_jit(lambda f, theta: (f.residuals(theta), jax.jacobian(f.residuals)(theta)))


def diffusion(seed=0, sigma=SIGMA, amplitude="auto", scale=0.3, true=TRUE, base=0.5):
    """The initial state of pure diffusion, drawn from its prior around a guess that is uniform, from noisy data."""
    ts, rng = np.linspace(0.0, 1.0, 3), np.random.default_rng(seed)
    system, uniform = fisher(1.0, 1e-12), fisher().init(None)._replace(u=jnp.full(64, base))
    field = pdefit.Control(smoothing=pdefit.Smoothing(2.0, amplitude, order=2.0), scale=scale)

    def functional(values):
        data = pdefit.Observations.build(ts, {"u": values}, sigma)
        return pdefit.Functional(pdefit.Problem(system, uniform), data, {"y0": {"u": field}}, dt=0.125)

    sobolev = functional(np.zeros((3, 64))).controls.items[0].parametrization
    drawn = sobolev.field(jnp.asarray(rng.standard_normal(64)) * true / sobolev.smoother.amplitude)
    seen = np.asarray(pdefit.simulate(system, uniform._replace(u=drawn), ts, dt=0.125).values["u"])
    return functional(seen + sigma * rng.standard_normal(seen.shape))


def dense(functional, theta):
    """The residuals of the data at a point of a linear problem, and their derivative in z of unit variance."""
    residuals, jac = (np.asarray(x) for x in JACOBIAN(functional, theta))
    weights = functional.controls.roughness_of_theta()
    return residuals[:-64], jac[:-64] / weights, weights * np.asarray(theta)


def evidence(functional, theta, factor):
    """The log evidence with an amplitude that is a factor larger, up to a constant."""
    residuals, jac, z = dense(functional, theta)
    at_zero, matrix = residuals - jac @ z, np.eye(len(jac)) + factor**2 * jac @ jac.T
    return -np.linalg.slogdet(matrix)[1] / 2 - at_zero @ np.linalg.solve(matrix, at_zero) / 2


def by_matrices(functional, theta, product, masks):
    """The traces over the whole field."""
    _, jac, _ = dense(functional, theta)
    data = jac.T @ jac
    part = np.linalg.solve(np.eye(64) + data, data)
    return np.array([np.trace(part)]), np.array([np.sum(part**2)])


def amplitude(functional):
    (control,) = functional.controls.items
    return control.parametrization.amplitude(control.scale)


def found_amplitude(found):
    return amplitude(found.functional)


def test_the_amplitude_is_that_of_the_largest_evidence(monkeypatch):
    """With exact traces."""
    monkeypatch.setattr(amplitudes, "_determined", by_matrices)
    monkeypatch.setattr(amplitudes, "_SETTLED", 1e-4)
    monkeypatch.setattr(fit_run, "SMOOTHINGS", 20)
    found = pdefit.fit(diffusion(), STAGES)
    best = scipy.optimize.minimize_scalar(
        lambda x: -evidence(found.functional, found.theta, np.exp(x)), bounds=(-2, 2), method="bounded"
    )
    assert abs(best.x) < 3e-4
    assert any("amplitude chosen by the data: y0.u from 0.3 to" in event for event in found.events)
    # few rounds, because a step is nearly Newton's
    assert len(found.events) < 8


def test_random_signs_know_the_degrees_of_freedom():
    functional = diffusion()
    theta, mask = functional.theta0, np.ones(64, bool)
    trace, squares = amplitudes._determined(functional, theta, PRODUCT, [mask])
    exact, second = by_matrices(functional, theta, PRODUCT, [mask])
    error = np.sqrt(2 * second / amplitudes._VECTORS)
    assert abs(trace - exact) < 3 * error and error < 0.2 * exact
    np.testing.assert_allclose(squares, second, rtol=0.3)


def test_amplitudes_over_seeds_are_those_that_drew_the_truth():
    """To the statistical error of an amplitude, one over the root of 2 tr F^2."""
    found = [pdefit.fit(diffusion(seed), STAGES) for seed in range(4)]
    off = np.log([found_amplitude(x) / TRUE for x in found])
    error = 1 / np.sqrt(2 * by_matrices(found[0].functional, found[0].theta, None, [])[1][0])
    assert abs(np.mean(off)) < 3 * error / np.sqrt(len(off)) and np.std(off) < 2 * error
    # and the intervals of 95 % hold it in as many places
    inside = []
    for seed, fit in enumerate(found):
        known = pdefit.field_posterior(fit.functional, fit.theta, rank=64, tolerance=0.0, sigma_stated=True)
        truth = diffusion(seed, sigma=1e-9)
        wrong = np.asarray(fit.problem.y0.u) - np.asarray(truth.observations.values["u"][0])
        inside.append(np.abs(wrong) < 1.96 * known.standard_deviation["y0.u"])
    assert 0.9 < np.mean(inside) < 0.98


def test_a_stopped_fit_goes_on_to_the_same_amplitude(monkeypatch):
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 2)
    functional = diffusion()
    whole, rows, states = run(functional, STAGES)
    for again in resumed_alike(functional, STAGES, whole, rows, states[:: len(states) // 3]):
        assert found_amplitude(again) == found_amplitude(whole)


def test_a_stated_amplitude_stays():
    functional = diffusion(amplitude=0.3)
    assert choose_amplitudes(functional, functional.theta0, PRODUCT) is None and not functional.controls.roughness
    assert amplitude(functional) == pytest.approx(0.3)


def test_data_that_tell_no_amplitude_are_named():
    """Too noisy ones, and those of a field that is its guess."""
    found = pdefit.fit(diffusion(sigma=20.0), STAGES)
    assert found_amplitude(found) == pytest.approx(0.3)
    (event,) = [event for event in found.events if "no amplitude" in event]
    assert "no amplitude of y0.u, of which they determine less than one number; state it" in event
    found = pdefit.fit(diffusion(true=1e-9, sigma=1e-4), STAGES)
    assert found_amplitude(found) < 0.01
    assert "no amplitude of y0.u, which went from 0.3 to 0.0" in found.events[-1]


def test_the_first_amplitude_is_the_spread_of_the_guess():
    varied = jnp.linspace(0.0, 1.0, 64)
    assert pdefit.Smoothing(1.0, "auto").from_guess(varied, 3.0).amplitude == pytest.approx(float(jnp.std(varied)))
    assert pdefit.Smoothing(1.0, "auto").from_guess(jnp.ones(64), 3.0).amplitude == 3.0
    assert pdefit.Smoothing(1.0, 0.2).from_guess(varied, 3.0).amplitude == 0.2


def test_many_recordings_are_refused():
    with pytest.raises(PdefitError, match="a number for its amplitude auto"):
        pdefit.Recordings([diffusion(), diffusion(1)])
