"""Recordings that share a force: its smoothing, one rotation for each run, and the first recording as reference."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_sphere import KnotForce, NavierStokes, Sphere
from pdefit_sphere.flow import Velocity

import pdefit

SPHERE = Sphere(3)
SMOOTH = pdefit.Smoothing(length=0.3, time=0.4, order=1.5, amplitude=0.7)


@pytest.fixture(scope="module")
def joint():
    """Two recordings of random velocities, with a rotated and delayed force."""
    force = KnotForce((4, 5, 7), (0.0, 1.0))
    system = NavierStokes(SPHERE, jnp.asarray(0.1), force=force, orientation=jnp.zeros(3), delay=jnp.zeros(()))
    zeros = jnp.zeros(SPHERE.shape)
    controls = {
        "force": {"values": pdefit.Control(smoothing=SMOOTH)},
        "orientation": pdefit.Control(scope="experiment", scale=0.1),
        "delay": pdefit.Control(scope="experiment"),
        "y0": {
            n: pdefit.Control(smoothing=pdefit.Smoothing(0.01, 1.0), scope="experiment") for n in ("u_theta", "u_phi")
        },
    }
    rng, parts = np.random.default_rng(0), []
    for _ in range(2):
        data = pdefit.Observations.build(
            [0.0, 0.4, 0.8], {n: rng.normal(size=(3, *SPHERE.shape)) for n in controls["y0"]}
        )
        problem = pdefit.Problem(system, Velocity(zeros, zeros))
        parts.append(pdefit.Functional(problem, data, controls, dt=0.2, adjoint=pdefit.adjoints.StoreAll()))
    both = pdefit.Recordings(parts, gauge={"orientation": 0, "delay": 0})
    return both, 0.5 * jnp.asarray(rng.normal(size=both.controls.size))


def test_the_first_recording_keeps_its_orientation_and_priors_count_once(joint):
    both, theta = joint
    names = [c.path for c in both.controls.items]
    assert names[:3] == ["orientation[1]", "delay[1]", "force.values"] and len(names) == 7
    system = eqx.filter_jit(both.at)(theta).system
    np.testing.assert_array_equal(system.orientation, np.stack([np.zeros(3), 0.1 * theta[:3]]))
    np.testing.assert_array_equal(system.delay, [0.0, theta[3]])

    @eqx.filter_jit
    def found(both, theta):
        return both.value_and_grad(theta), both.gauss_newton_product(theta, theta), both.residuals(theta)

    (value, gradient), product, residuals = found(both, theta)
    # sums of the parts hold what is shared twice
    parts = sum(eqx.filter_jit(lambda part, own: part.value(own))(part, own) for part, own in both.parts(theta))
    shared = np.asarray(theta[both.controls.elements["force.values"]])
    np.testing.assert_allclose(value, parts - shared @ shared / 2, rtol=1e-12)
    np.testing.assert_allclose(value, residuals @ residuals / 2, rtol=1e-12)
    slopes = eqx.filter_jit(lambda both, x, v: jax.jvp(both.residuals, (x,), (v,)))(both, theta, theta)
    np.testing.assert_allclose(gradient @ theta, slopes[0] @ slopes[1], rtol=1e-9)
    np.testing.assert_allclose(product @ theta, slopes[1] @ slopes[1], rtol=1e-9)


def test_smoothing_of_knots():
    force = KnotForce((6, 8, 12), (0.0, 1.0), degree=5)
    smoother = force.smoother("values", 0.3, 0.2, 1.5, 0.7)
    z = jax.random.normal(jax.random.key(0), (400, *force.values.shape))
    fields = jax.vmap(smoother.smooth)(z)
    area = np.sin(force.places[0])[:, None, None]
    np.testing.assert_allclose(np.mean(fields**2, 0), smoother.variance, atol=0.35 * np.max(smoother.variance))
    # rotations keep the prior: components along theta and phi have one variance everywhere
    np.testing.assert_allclose(smoother.variance, np.broadcast_to(smoother.variance[:, :1, :1, :1], (6, 8, 12, 2)))
    assert np.sum(area * smoother.variance) / np.sum(area * np.ones((6, 8, 12, 2))) == pytest.approx(0.49)
    np.testing.assert_allclose(smoother.smooth(smoother.unsmooth(fields[0])), fields[0], atol=1e-9)
    assert smoother.groups.shape == force.values.shape


def test_certificate_and_posterior(joint):
    both, theta = joint
    # tangents of the whole record, and of orientation and delay by themselves
    certificate = pdefit.certify(both, theta, fit_cost=1e4)
    assert certificate.passed, certificate
    posterior = pdefit.field_posterior(both, theta, rank=60, sigma_stated=True)
    deviation, prior = posterior.standard_deviation["force.values"], posterior.prior_standard_deviation["force.values"]
    assert np.all(deviation <= prior * (1 + 1e-9)) and np.min(deviation / prior) < 0.9
    assert posterior.standard_deviation["orientation[1]"].shape == (3,)
