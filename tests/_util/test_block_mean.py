import jax.numpy as jnp
import numpy as np
import pytest

from pdefit._util.block_mean import block_mean, prolong


def averages(cells):
    """Of sin(2 pi x) + 1.5 over cells of the unit interval."""
    edges = np.linspace(0, 1, cells + 1)
    return 1.5 - np.diff(np.cos(2 * np.pi * edges)) * cells / (2 * np.pi)


@pytest.mark.parametrize("wraps", [True, False])
def test_the_halves_of_a_cell_have_its_average_and_no_new_extrema(wraps):
    x = np.random.default_rng(0).normal(size=(3, 6, 5))
    fine = prolong(x, (wraps, wraps))
    assert fine.shape == (3, 12, 10)
    np.testing.assert_allclose(block_mean(jnp.asarray(fine), (1, 2, 2)), x, rtol=1e-14)
    assert np.max(fine) <= np.max(x) and np.min(fine) >= np.min(x)


def test_blocks_of_a_cell_and_a_half_share_cells():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(18, 6)))
    # three halves of cells are a block
    halves = block_mean(jnp.repeat(x, 2, axis=0), (3, 2))
    np.testing.assert_allclose(block_mean(x, (1.5, 2)), halves, rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(block_mean(x, (3.0, 2)), block_mean(x, (3, 2)))


def test_errors_fall_with_the_third_power_away_from_extrema():
    errors = []
    for cells in (64, 128):
        error = np.abs(prolong(averages(cells), (True,)) - averages(2 * cells))
        # between the extrema at 1/4 and 3/4
        errors.append(np.max(error[int(0.7 * cells) : int(1.3 * cells)]))
    assert np.log2(errors[0] / errors[1]) > 2.8
