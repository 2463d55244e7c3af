"""Conjugate gradients against a dense solve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pdefit.inverse.linear.conjugate_gradients import conjugate_gradients, known_product


def matrix(values):
    """A symmetric matrix with these eigenvalues."""
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(values.size, values.size)))[0]
    return (vectors * values) @ vectors.T


@pytest.mark.parametrize("repeat", [None, jax.lax.while_loop])
def test_conjugate_gradients_solve_the_dense_system(repeat):
    dense, b = jnp.asarray(matrix(np.geomspace(1.0, 50.0, 12))), jnp.asarray(np.random.default_rng(1).normal(size=12))
    loop = {} if repeat is None else {"repeat": repeat}
    scale = 1 / jnp.diag(dense)
    found = conjugate_gradients(lambda v: dense @ v, lambda r: scale * r, b, lambda at: at.squared < 1e-26, 40, **loop)
    expected = np.linalg.solve(dense, b)
    np.testing.assert_allclose(found.solution, expected, rtol=1e-9)
    np.testing.assert_allclose(found.residual, b - dense @ found.solution, atol=1e-12)
    # twice the fall of the quadratic form is b^T x
    assert 2 * float(found.falls[found.products]) == pytest.approx(float(b @ expected), rel=1e-12)


def test_a_product_is_known_to_half_a_percent():
    dense, b = matrix(np.geomspace(0.1, 100.0, 80)), np.random.default_rng(2).normal(size=80)
    found = known_product(lambda v: jnp.asarray(dense) @ v, lambda r: r, jnp.asarray(b))
    exact = b @ np.linalg.solve(dense, b)
    assert found.products < 300 and 0.99 * exact < b @ np.asarray(found.solution) <= exact * (1 + 1e-9)
    nothing = known_product(lambda v: 0 * v, lambda r: r, jnp.asarray(b))
    np.testing.assert_array_equal(nothing.solution, 0.0)
