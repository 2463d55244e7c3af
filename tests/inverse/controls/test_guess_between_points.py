import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import FisherKPP
from staggered import Staggered

import pdefit


def guess(shape, boundary, x, value):
    grid = pdefit.CartesianGrid(shape=shape, extent=(1.0,) * len(shape), boundary=boundary)
    data = pdefit.Observations.from_points(np.zeros(len(x)), x, value)
    system = FisherKPP(grid=grid, D=jnp.asarray(1.0), r=jnp.asarray(1.0), front=0.5)
    problem = pdefit.Problem(system, system.init(None))
    return grid, pdefit.guesses.FromData().value(jnp.zeros(shape), "y0.u", jax.random.key(0), data, problem)


def test_linear_fields_are_found_between_points_and_the_nearest_value_outside():
    x = np.array([[0.05, 0.05], [0.05, 0.95], [0.95, 0.05], [0.95, 0.95], [0.4, 0.6]])
    grid, found = guess((4, 40), pdefit.boundaries.NoFlux(), x, 1 + x @ [2.0, 3.0])
    expected = 1 + 2 * grid.axis(0)[:, None] + 3 * grid.axis(1)[None, :]
    inside = (grid.axis(1) > 0.05) & (grid.axis(1) < 0.95)
    np.testing.assert_allclose(found[:, inside], expected[:, inside], rtol=1e-12)
    assert set(found[:, ~inside].ravel()) <= set(1 + x @ [2.0, 3.0])


def test_periodic_axes_wrap():
    x = np.array([[0.1], [0.9], [-0.5]])
    grid, found = guess((10,), pdefit.boundaries.Periodic(), x, [1.0, 2.0, 5.0])
    np.testing.assert_allclose(found[[0, 9]], [1.25, 1.75], rtol=1e-12)
    np.testing.assert_allclose(found[1], 1 + 0.05 / 0.4 * 4, rtol=1e-12)


def test_points_on_a_line_and_missing_ones():
    x = np.array([[0.2, 0.5], [0.4, 0.5], [0.7, 0.5]])
    found = guess((2, 2), pdefit.boundaries.NoFlux(), x, [1.0, np.nan, 3.0])[1]
    np.testing.assert_array_equal(found, [[1, 1], [3, 3]])
    np.testing.assert_array_equal(guess((2, 2), pdefit.boundaries.NoFlux(), x[:1], [1.0])[1], np.ones((2, 2)))
    with pytest.raises(pdefit.PdefitError, match="no point of it has a value"):
        guess((2, 2), pdefit.boundaries.NoFlux(), x, [np.nan] * 3)


def test_staggered_velocities_are_guessed_from_vectors_at_corners():
    # each in its place, although as many corners as faces
    system = Staggered(pdefit.CartesianGrid((12, 10), (3.0, 1.0), boundary=pdefit.boundaries.Periodic()))
    y = system.made(lambda x, y: np.sin(2 * np.pi * x / 3) + np.cos(2 * np.pi * y))
    problem = pdefit.Problem(system, jax.tree.map(jnp.zeros_like, y), pdefit.instruments.Corners())
    data = pdefit.Observations.build(np.zeros(1), {n: x[None] for n, x in problem.observe(0.0, y, None).items()})
    for name, x in y._asdict().items():
        found = pdefit.guesses.FromData().value(0 * x, f"y0.{name}", jax.random.key(0), data, problem)
        # the error of a cubic, twice; half a cell is an error of 0.26
        np.testing.assert_allclose(found, x, atol=0.01)
