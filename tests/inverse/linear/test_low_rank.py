"""The leading part of a matrix against its dense eigenpairs."""

import numpy as np

from pdefit.inverse.linear.low_rank import leading


def test_the_leading_part_is_that_of_the_dense_eigenpairs():
    values = np.concatenate([[1e4, 300.0, 20.0, 5.0], 1e-9 * np.ones(56)])
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(60, 60)))[0]
    dense = (axes * values) @ axes.T
    found = leading(lambda rows: rows @ dense, 60, 20, 0.1, 4, 0, 1e-16, lambda _: False)
    expected, vectors = np.linalg.eigh(dense)
    left, sizes, _ = np.linalg.svd(found.factor, full_matrices=False)
    np.testing.assert_allclose(sizes[:4] ** 2, expected[:-5:-1], rtol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(left[:, :4] * vectors[:, :-5:-1], axis=0)), 1.0, rtol=1e-10)
    assert found.products < 20 and np.linalg.eigvalsh(dense - found.factor @ found.factor.T).min() > -1e-9
    assert np.trace(dense - found.factor @ found.factor.T) < max(found.missing, 1e-6)
