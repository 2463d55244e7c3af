"""Matrices that are known by their products alone, against dense ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pdefit.inverse.linear.conjugate_gradients import conjugate_gradients, known_product
from pdefit.inverse.linear.lanczos import unseen_by_products
from pdefit.inverse.linear.low_rank import leading


def matrix(values, seed=0):
    """A symmetric matrix with these eigenvalues."""
    vectors = np.linalg.qr(np.random.default_rng(seed).normal(size=(values.size, values.size)))[0]
    return (vectors * values) @ vectors.T


def test_the_leading_part_is_that_of_the_dense_eigenpairs():
    values = np.concatenate([[1e4, 300.0, 20.0, 5.0], 1e-9 * np.ones(56)])
    dense = matrix(values)
    found = leading(lambda rows: rows @ dense, 60, 20, 0.1, 4, 0, 1e-16, lambda _: False)
    expected, vectors = np.linalg.eigh(dense)
    left, sizes, _ = np.linalg.svd(found.factor, full_matrices=False)
    np.testing.assert_allclose(sizes[:4] ** 2, expected[:-5:-1], rtol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(left[:, :4] * vectors[:, :-5:-1], axis=0)), 1.0, rtol=1e-10)
    assert found.products < 20 and np.linalg.eigvalsh(dense - found.factor @ found.factor.T).min() > -1e-9
    assert np.trace(dense - found.factor @ found.factor.T) < max(found.missing, 1e-6)


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


def test_products_bound_what_is_unseen():
    """On either side of the exact length after every product, with a spectrum as wide as that of film and hidden gates."""
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(200, 200)))[0]
    values, start = 10.0 ** rng.uniform(-8, 11, 200), np.eye(200)[0]
    exact = start @ (vectors / (values + 1)) @ vectors.T @ start
    widths = []
    for products in (3, 10, 30, 60, 200):
        found = unseen_by_products(
            lambda v: vectors @ (values * (v @ vectors)), start, 1.0, np.ones(1), exact, products
        )
        assert found.least <= exact * (1 + 1e-6) and found.most >= exact * (1 - 1e-6)
        assert found.curve[0] == pytest.approx(found.least) and start @ found.part == pytest.approx(found.least)
        widths.append(found.most - found.least)
    assert widths[0] > 0.1 and widths[-1] < 0.03 * exact and np.all(np.diff(widths) <= 0)
