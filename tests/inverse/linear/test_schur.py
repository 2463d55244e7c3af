"""Eliminated unknowns against a dense solve."""

import jax.numpy as jnp
import numpy as np
import pytest

from pdefit.inverse.linear.schur import chained, complement, separate, without


def dense(blocks, below, border, corner):
    """The whole matrix, the shared unknowns last."""
    (e, q, s), size = border.shape, border.shape[0] * border.shape[1]
    whole = np.zeros((size + s, size + s))
    for i in range(e):
        at = slice(i * q, (i + 1) * q)
        whole[at, at], whole[at, size:], whole[size:, at] = blocks[i], border[i], border[i].T
        if i and below is not None:
            before = slice((i - 1) * q, i * q)
            whole[at, before], whole[before, at] = below[i - 1], below[i - 1].T
    whole[size:, size:] = corner
    return whole


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("sizes", [(5, 3, 2), (1, 4, 0), (4, 1, 3)], ids=str)
def test_shared_unknowns_and_blocks_solve_the_whole_system(sizes, coupled):
    e, q, s = sizes
    rng = np.random.default_rng(0)
    blocks = np.stack([m @ m.T + 5 * np.eye(q) for m in rng.normal(size=(e, q, q))])
    below = rng.normal(size=(e - 1, q, q)) if coupled else None
    border, own, corner, right = rng.normal(size=(e, q, s)), rng.normal(size=(e, q)), 40 * np.eye(s), rng.normal(size=s)
    root = separate(jnp.asarray(blocks)) if below is None else chained(jnp.asarray(blocks), jnp.asarray(below))
    left = complement(root, *map(jnp.asarray, (border, own, corner, right)))
    x = jnp.linalg.solve(left.matrix, left.right)
    whole = dense(blocks, below, border, corner)
    expected = np.linalg.solve(whole, np.concatenate([own.ravel(), right]))
    np.testing.assert_allclose(np.concatenate([np.ravel(left.blocks(x)), x]), expected, rtol=1e-11, atol=1e-13)
    if s:
        inverse = np.linalg.inv(whole)[-s:, -s:]
        np.testing.assert_allclose(left.matrix, np.linalg.inv(inverse), rtol=1e-11, atol=1e-12)


def test_some_unknowns_of_a_dense_matrix_are_eliminated_as_far_as_they_are_determined():
    """Two of the eliminated unknowns have one and the same effect; a third unknown is held."""
    rng = np.random.default_rng(1)
    jac, r = rng.normal(size=(20, 6)), rng.normal(size=20)
    jac[:, 4] = jac[:, 3]
    gone, kept = np.array([1, 3, 4]), np.array([5, 0])
    left = without(jac.T @ jac, jac.T @ r, gone, kept)
    x = np.linalg.solve(left.matrix, left.right)
    # least squares with the twin left out
    expected = np.linalg.lstsq(jac[:, [1, 3, 5, 0]], r)[0]
    np.testing.assert_allclose(x, expected[2:], rtol=1e-10)
    rest = np.ravel(left.blocks(jnp.asarray(x)))
    np.testing.assert_allclose([rest[0], rest[1] + rest[2]], expected[:2], rtol=1e-10)
    untouched = without(jac.T @ jac, jac.T @ r, np.zeros(0, int), kept)
    np.testing.assert_array_equal(untouched.matrix, (jac.T @ jac)[np.ix_(kept, kept)])
