"""Transforms, rotations and splines against analytic fields and other formulas."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_sphere import Sphere
from pdefit_sphere.harmonics import packed, scalars, vectors
from pdefit_sphere.knots import places, projection, time_weights
from pdefit_sphere.rotations import matrix, rotated

import pdefit


def _mesh(sphere):
    return (x.reshape(-1) for x in np.meshgrid(sphere.theta, sphere.phi, indexing="ij"))


@pytest.mark.parametrize("degree", [1, 10, 21])
def test_fields_come_back_from_their_coefficients(degree):
    sphere = Sphere(degree, 2.0)
    drawn = np.random.default_rng(0).normal(size=(2, degree * (degree + 2)))
    drawn /= np.max(np.abs(drawn))

    @jax.jit
    def there_and_back(drawn):
        psi, chi = map(sphere.unpack, drawn)
        back = sphere.potentials(*sphere.tangent(psi, chi))
        again = sphere.analysis(sphere.synthesis(psi))
        return (*back, again), (psi, chi, psi), jnp.stack([sphere.pack(psi), sphere.pack(chi)])

    back, modes, packed_again = there_and_back(drawn)
    for found, wanted in zip(back, modes, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(packed_again, drawn)


def test_harmonics_are_orthonormal():
    sphere = Sphere(10)
    theta, phi = _mesh(sphere)
    area = np.repeat(sphere.weights[:, 0], sphere.shape[1])
    y, (along, across) = scalars(10, theta, phi), vectors(10, theta, phi)
    np.testing.assert_allclose((y.T * area) @ y, np.eye(120), atol=1e-13)
    number = sphere.number[packed(10)[2]]
    lengths = (along.T * area) @ along + (across.T * area) @ across
    np.testing.assert_allclose(lengths / np.sqrt(np.outer(number, number)), np.eye(120), atol=1e-13)


def test_divergence_and_vorticity_of_an_analytic_field():
    # psi = z x = sin cos cos(phi), chi = z on a sphere of radius 2
    sphere = Sphere(4, 2.0)
    theta, phi = np.meshgrid(sphere.theta, sphere.phi, indexing="ij")
    u_theta = np.cos(2 * theta) * np.cos(phi) / 2
    u_phi = (-np.cos(theta) * np.sin(phi) - np.sin(theta)) / 2
    psi, chi = eqx.filter_jit(sphere.potentials)(u_theta, u_phi)
    wanted = -6 / 4 * np.sin(theta) * np.cos(theta) * np.cos(phi)
    np.testing.assert_allclose(eqx.filter_jit(sphere.divergence)(psi), wanted, atol=1e-14)
    np.testing.assert_allclose(eqx.filter_jit(sphere.vorticity)(chi), -2 / 4 * np.cos(theta), atol=1e-14)
    # at points, of which the first is a pole
    there, around = np.array([0.0, 0.3, np.pi, 2.0]), np.array([0.5, 1.0, 2.0, 6.5])
    wanted = [np.cos(2 * there) * np.cos(around) / 2, (-np.cos(there) * np.sin(around) - np.sin(there)) / 2]
    np.testing.assert_allclose(sphere.at(psi, chi, there, around), np.stack(wanted, -1), atol=1e-14)
    with pytest.raises(pdefit.PdefitError, match="from 0 to pi"):
        sphere.at(psi, chi, -0.1, 0.0)


def test_float32():
    sphere = Sphere(6)
    drawn = np.random.default_rng(0).normal(size=(2, 48)).astype(np.float32)
    u = jax.jit(lambda drawn: sphere.tangent(*map(sphere.unpack, drawn)))(drawn)
    back = jax.jit(lambda u: jnp.stack([sphere.pack(x) for x in sphere.potentials(*u)]))(u)
    assert back.dtype == u[0].dtype == jnp.float32
    np.testing.assert_allclose(back, drawn, atol=1e-5)


@pytest.mark.parametrize("vector", [(0.3, -1.2, 0.7), (0.0, 0.0, 0.0), (0.0, 0.0, 2.0)])
def test_rotated_coefficients_are_those_of_the_rotated_field(vector):
    random = np.random.default_rng(1)
    coefficients, vector = random.normal(size=(48, 1)), np.asarray(vector)
    points = random.normal(size=(20, 3))
    turn = np.asarray(jax.jit(matrix)(vector))

    def values(x, coefficients):
        return scalars(6, np.arccos(x[:, 2] / np.linalg.norm(x, axis=1)), np.arctan2(x[:, 1], x[:, 0])) @ coefficients

    found = jax.jit(rotated)(coefficients, vector)
    np.testing.assert_allclose(values(points, np.asarray(found)), values(points @ turn, coefficients), atol=1e-13)
    if vector[0] == 0:
        about = jax.jit(rotated)(coefficients, vector[2])
        np.testing.assert_allclose(found, about, atol=1e-13)


def test_splines_in_time_have_continuous_second_derivatives():
    knots, values = (0.0, 1.0, 1.5, 3.0), np.asarray([0.3, -1.0, 0.5, 2.0])

    @jax.jit
    def weights(t):
        return time_weights(knots, t)

    np.testing.assert_allclose([weights(t) @ values for t in knots], values, atol=1e-14)
    np.testing.assert_allclose(weights(4.5) @ (2 * np.asarray(knots) + 1), 10.0, rtol=1e-14)

    def bend(t):
        a, b, c = (weights(t + d) @ values for d in (-1e-3, 0.0, 1e-3))
        return float(a - 2 * b + c) / 1e-6

    for t in knots:
        assert abs(bend(t - 2e-3) - bend(t + 2e-3)) < 0.1


def test_knots_hold_a_smooth_field_across_the_poles():
    # a rotation about an axis in the plane of the equator, which passes the poles at full speed
    def error(count):
        theta, phi = np.meshgrid(*places((count, 2 * count + 1)), indexing="ij")
        values = np.stack([-np.sin(phi), -np.cos(theta) * np.cos(phi)], -1)
        found = np.tensordot(projection(values.shape[:2], 3), values, 3)
        wanted = np.zeros((15, 2))
        # chi is -(x), and sqrt(3 / (4 pi)) x is the harmonic of degree 1 and order 1
        wanted[2, 1] = -np.sqrt(4 * np.pi / 3)
        return np.abs(found - wanted).max()

    errors = [error(n) for n in (6, 12)]
    assert errors[1] < 2e-3 and np.log2(errors[0] / errors[1]) > 3.5
