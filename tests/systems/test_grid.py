import jax.numpy as jnp
import numpy as np
import pytest

import pdefit


def test_cells_fill_the_box():
    g = pdefit.CartesianGrid(shape=(4, 5), extent=(2.0, 10.0), origin=(-1.0, 0.0), length_unit="mm")
    np.testing.assert_allclose(g.axis(0), [-0.75, -0.25, 0.25, 0.75])
    assert g.spacing == (0.5, 2.0)
    coords = g.coords("mV", "voltage")
    assert coords.dims == ("x", "y") and coords.coord_units == {"x": "mm", "y": "mm"} and coords.unit == "mV"
    assert [m.shape for m in g.mesh()] == [(4, 5), (4, 5)]


def test_coarsening_averages_blocks_onto_the_coarse_cells():
    fine = pdefit.CartesianGrid(shape=(8, 6), extent=(4.0, 3.0))
    coarse = pdefit.CartesianGrid(shape=(4, 3), extent=(4.0, 3.0))
    for axis in (0, 1):
        np.testing.assert_allclose(fine.coarsen(fine.mesh()[axis], 2), coarse.mesh()[axis])
    finer = pdefit.CartesianGrid(shape=(12, 9), extent=(4.0, 3.0))
    np.testing.assert_allclose(finer.coarsen(jnp.ones((12, 9)), 1.5), np.ones((8, 6)))
    with pytest.raises(ValueError, match="divisible"):
        fine.coarsen(jnp.zeros((8, 6)), 4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": (8, 8), "extent": (1.0,)},
        {"shape": (1,), "extent": (1.0,)},
        {"shape": (8,), "extent": (-1.0,)},
        {"shape": (4, 4, 4, 4), "extent": (1.0,) * 4},
        {"shape": (8, 8), "extent": (1.0, 1.0), "boundary": (pdefit.boundaries.NoFlux(),)},
    ],
)
def test_impossible_grids_are_refused(arguments):
    with pytest.raises(ValueError, match="CartesianGrid expects"):
        pdefit.CartesianGrid(**arguments)
