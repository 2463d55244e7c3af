"""Averages over windows, against sums over finer cells, integrals of polynomials and transposes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import observed
from staggered import Staggered

import pdefit
from pdefit.inverse.problem.observed_fields import observed_positions

Average = pdefit.instruments.Average
PERIODIC, WALL = pdefit.boundaries.Periodic(), pdefit.boundaries.NoFlux()


def direct(u, width, wraps, parts=4):
    """Means along the first axis over the parts of cells whose middles lie in the window around each point."""
    n = len(u)
    fine = np.repeat(np.asarray(u), parts, axis=0)
    middles = (np.arange(n * parts) + 0.5) / parts
    rows = []
    for i in range(n):
        if wraps:
            low = round((i + 0.5 - width / 2) * parts)
            rows.append(np.mean([fine[k % (n * parts)] for k in range(low, low + round(width * parts))], axis=0))
        else:
            rows.append(np.mean(fine[np.abs(middles - (i + 0.5)) < width / 2], axis=0))
    return np.stack(rows)


@pytest.mark.parametrize("boundary", [PERIODIC, WALL], ids=["periodic", "wall"])
@pytest.mark.parametrize("width", [(2.5, 3.0), (13.5, 1.0), (1.5, 0.5)])
def test_averages_are_sums_over_parts_of_cells(boundary, width):
    system = Staggered(pdefit.CartesianGrid((6, 7), (3.0, 1.0), boundary=boundary))
    y = system.init(jax.random.key(0))
    seen = observed(Average(width).on(system), y)
    for name, u in y._asdict().items():
        expected = direct(u, max(width[0], 1), boundary.wraps)
        expected = np.moveaxis(direct(np.moveaxis(expected, 1, 0), max(width[1], 1), boundary.wraps), 0, 1)
        np.testing.assert_allclose(seen[name], expected, atol=1e-14)


def test_windows_of_cells_are_exact_integrals_of_a_field_of_cell_averages():
    n, width = 12, 5
    grid = pdefit.CartesianGrid((n,), (1.0,), boundary=WALL)
    edges = np.linspace(0, 1, n + 1)
    cells = np.diff(edges**4) / np.diff(edges)
    seen = np.asarray(observed(Average(width, grid), {"u": cells})["u"])
    low, high = np.maximum(np.arange(n) - 2, 0) / n, np.minimum(np.arange(n) + 3, n) / n
    np.testing.assert_allclose(seen, (high**4 - low**4) / (high - low), atol=1e-14)


@pytest.mark.parametrize("boundary", [PERIODIC, WALL], ids=["periodic", "wall"])
def test_positions_stay_also_at_the_ends(boundary):
    system = Staggered(pdefit.CartesianGrid((6, 7), (3.0, 1.0), (-1.0, 2.0), boundary=boundary))
    y, coords = system.init(jax.random.key(0)), system.coords()
    found = observed_positions(Average(2.5).on(system), 0.0, y, None, coords)
    for name, where in coords.items():
        assert found[name].dims == where.dims
        for dim in where.dims:
            np.testing.assert_array_equal(found[name].coords[dim], where.coords[dim])


def test_what_cannot_be_averaged_is_refused():
    grid = pdefit.CartesianGrid((6, 6), (1.0, 1.0))
    with pytest.raises(pdefit.PdefitError, match="above 0"):
        Average(0.0)
    with pytest.raises(pdefit.PdefitError, match="each of 2 axes"):
        Average((1.0, 2.0, 3.0), grid)
    with pytest.raises(pdefit.PdefitError, match="before subsample"):
        Average(2.0, grid)(0.0, {"u": jnp.ones((3, 6))}, None)
    with pytest.raises(pdefit.PdefitError, match="no grid"):
        Average(2.0)(0.0, {"u": jnp.ones((3, 6))}, None)
    # a number beside the fields stays as it is, and so does single precision
    seen = observed(Average(2.0, grid), {"n": jnp.ones(()), "u": jnp.ones((6, 6), jnp.float32)})
    assert seen["n"].shape == () and seen["u"].dtype == jnp.float32
