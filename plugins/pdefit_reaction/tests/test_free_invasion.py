"""Free functions of the density against the parametric model, well by well."""

import jax.numpy as jnp
import numpy as np
from pdefit_reaction import CellInvasion, FreeInvasion

import pdefit
from pdefit.terms import Formula, Series

GRID = pdefit.CartesianGrid((38,), (1.9,), length_unit="mm")


def test_it_contains_the_model_of_given_form():
    one = CellInvasion(GRID, *map(jnp.asarray, (0.012, 1.2, 1700.0, 1.0, 1.0, 0.3)))
    free = FreeInvasion(
        GRID, Formula("D * u / 1700", ("u",), {"D": 0.012}), lag=jnp.asarray(0.3), wells=3
    )  # growth: r u (1 - u / K) with the same numbers by default
    y = free.init(None)
    found = np.asarray(free.vector_field(0.5, y, None).u)
    for rates, u in zip(found, y.u, strict=True):
        wanted = one.vector_field(0.5, type(one.init(None))(u), None).u
        np.testing.assert_allclose(rates, wanted, rtol=1e-9, atol=1e-6)


def test_wells_exchange_nothing_and_cells_that_only_move_are_kept():
    spline = Series(("u",), 0.0, 1700.0, "spline", 5, [0.004, 0.01, 0.02, 0.01, 0.03])
    free = FreeInvasion(GRID, spline, Formula("0", ("u",)), wells=2)
    y = free.init(None)
    other = type(y)(y.u.at[1].set(100.0))
    a, b = (np.asarray(free.vector_field(0.0, x, None).u) for x in (y, other))
    np.testing.assert_array_equal(a[0], b[0])
    assert np.max(np.abs(b[1])) < 1e-9 and abs(a[0].sum()) < 1e-9 * np.abs(a[0]).sum()


def test_coordinates_name_wells_and_columns():
    known = FreeInvasion(GRID, wells=2).coords()["u"]
    assert known.dims == ("well", "x") and known.coords["x"].size == 38 and known.coord_units["x"] == "mm"
