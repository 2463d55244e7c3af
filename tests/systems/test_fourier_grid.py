"""Derivatives and products on periodic grids."""

import jax.numpy as jnp
import numpy as np
import pytest

import pdefit


@pytest.mark.parametrize("n", [15, 16])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_resolved_waves_are_exact(n, order):
    grid, k = pdefit.FourierGrid((n,), (2.0,), (-1.0,)), 3 * np.pi
    (x,) = grid.mesh()
    exact = [jnp.sin, jnp.cos, lambda z: -jnp.sin(z), lambda z: -jnp.cos(z)][order % 4](k * x + 0.3) * k**order
    np.testing.assert_allclose(grid.derivative(jnp.sin(k * x + 0.3), order), exact, atol=1e-11 * k**order)


def test_odd_derivatives_of_the_highest_mode_vanish():
    grid = pdefit.FourierGrid((8,), (1.0,))
    u = jnp.asarray((-1.0) ** np.arange(8))
    np.testing.assert_allclose(grid.derivative(u), 0.0, atol=1e-12)
    np.testing.assert_allclose(grid.derivative(u, 2), -((8 * np.pi) ** 2) * u)


def test_derivatives_in_two_dimensions():
    grid = pdefit.FourierGrid((12, 9), (2.0, 3.0), (0.5, -1.0), length_unit="mm")
    x, y = grid.mesh()
    p, q = 2 * np.pi / 2.0 * 2, 2 * np.pi / 3.0
    u = jnp.sin(p * x) * jnp.cos(q * y)
    np.testing.assert_allclose(grid.derivative(u, 1, 0), p * jnp.cos(p * x) * jnp.cos(q * y), atol=1e-11)
    np.testing.assert_allclose(grid.derivative(u, 1, 1), -q * jnp.sin(p * x) * jnp.sin(q * y), atol=1e-11)
    laplacian = grid.from_modes(grid.laplacian_symbol() * grid.to_modes(u))
    np.testing.assert_allclose(laplacian, -(p**2 + q**2) * u, atol=1e-10)
    assert (grid.axis(0)[0], grid.axis(1)[0], grid.periodic) == (0.5, -1.0, (True, True))
    coords = grid.coords("K", "temperature")
    assert coords.coord_units == {"x": "mm", "y": "mm"} and coords.unit == "K"


def test_dealiased_products_are_exact():
    """Of two fields without their upper third, in the modes that are left."""
    grid, fine = pdefit.FourierGrid((32,), (1.0,)), pdefit.FourierGrid((128,), (1.0,))
    modes = np.random.default_rng(0).normal(size=(2, 17)) * (1 + 0.5j)
    modes[:, 0] = 1.0
    a, b = (grid.dealias(jnp.asarray(m)) for m in modes)
    product = grid.dealias(grid.to_modes(grid.from_modes(a) * grid.from_modes(b)))
    wide = [jnp.pad(m, (0, 48)) * 4 for m in (a, b)]
    exact = fine.to_modes(fine.from_modes(wide[0]) * fine.from_modes(wide[1]))[:17] / 4
    np.testing.assert_allclose(product, grid.dealias(exact), atol=1e-12)
    aliased = grid.to_modes(grid.from_modes(jnp.asarray(modes[0])) ** 2)
    assert float(jnp.max(jnp.abs(aliased[11:]))) > 1e-3


def test_coarser_points_are_points_of_the_fine_grid():
    fine, coarse = pdefit.FourierGrid((12, 6), (1.0, 1.0)), pdefit.FourierGrid((4, 2), (1.0, 1.0))
    for f, c in zip(fine.mesh(), coarse.mesh(), strict=True):
        np.testing.assert_allclose(fine.coarsen(f, 3), c)
    with pytest.raises(ValueError, match="divisible by 5"):
        fine.coarsen(fine.mesh()[0], 5)
    with pytest.raises(pdefit.PdefitError, match=r"a whole number, but got 1\.5"):
        fine.coarsen(fine.mesh()[0], 1.5)


def test_impossible_grids_are_refused():
    with pytest.raises(ValueError, match="FourierGrid expects at least two cells"):
        pdefit.FourierGrid((1,), (1.0,))
