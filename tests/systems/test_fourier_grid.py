"""Derivatives and products on periodic grids."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit


@pytest.mark.parametrize("n", [15, 16])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_resolved_waves_are_exact(n, order):
    grid, k = pdefit.FourierGrid((n,), (2.0,), (-1.0,)), 3 * np.pi
    x = np.asarray(grid.mesh()[0])
    exact = [np.sin, np.cos, lambda z: -np.sin(z), lambda z: -np.cos(z)][order % 4](k * x + 0.3) * k**order
    found = jax.jit(lambda u: grid.derivative(u, order))(np.sin(k * x + 0.3))
    np.testing.assert_allclose(found, exact, atol=1e-11 * k**order)


def test_odd_derivatives_of_the_highest_mode_vanish():
    grid = pdefit.FourierGrid((8,), (1.0,))
    u = jnp.asarray((-1.0) ** np.arange(8))
    first, second = jax.jit(lambda u: (grid.derivative(u), grid.derivative(u, 2)))(u)
    np.testing.assert_allclose(first, 0.0, atol=1e-12)
    np.testing.assert_allclose(second, -((8 * np.pi) ** 2) * np.asarray(u))


def test_derivatives_in_two_dimensions():
    grid = pdefit.FourierGrid((12, 9), (2.0, 3.0), (0.5, -1.0), length_unit="mm")
    x, y = map(np.asarray, grid.mesh())
    p, q = 2 * np.pi / 2.0 * 2, 2 * np.pi / 3.0
    u = np.sin(p * x) * np.cos(q * y)

    @jax.jit
    def derivatives(u):
        laplacian = grid.from_modes(grid.laplacian_symbol() * grid.to_modes(u))
        return grid.derivative(u, 1, 0), grid.derivative(u, 1, 1), laplacian

    along, across, laplacian = derivatives(u)
    np.testing.assert_allclose(along, p * np.cos(p * x) * np.cos(q * y), atol=1e-11)
    np.testing.assert_allclose(across, -q * np.sin(p * x) * np.sin(q * y), atol=1e-11)
    np.testing.assert_allclose(laplacian, -(p**2 + q**2) * u, atol=1e-10)
    assert (grid.axis(0)[0], grid.axis(1)[0], grid.periodic) == (0.5, -1.0, (True, True))
    coords = grid.coords("K", "temperature")
    assert coords.coord_units == {"x": "mm", "y": "mm"} and coords.unit == "K"


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_symbols_leave_the_precision_of_modes_and_parameters(dtype):
    grid, u = pdefit.FourierGrid((6, 4), (1.0, 1.0)), jnp.ones((6, 4), dtype)
    modes = grid.to_modes(u)
    for symbol in (grid.symbol(1, 0), grid.symbol(2, 1), grid.laplacian_symbol()):
        assert (symbol * modes).dtype == modes.dtype
    assert (u[0, 0] * grid.laplacian_symbol()).dtype == grid.derivative(u).dtype == dtype


def test_dealiased_products_are_exact():
    """Of two fields without their upper third, in the modes that are left."""
    grid, fine = pdefit.FourierGrid((32,), (1.0,)), pdefit.FourierGrid((128,), (1.0,))
    modes = np.random.default_rng(0).normal(size=(2, 17)) * (1 + 0.5j)
    modes[:, 0] = 1.0

    @jax.jit
    def products(modes):
        a, b = (grid.dealias(m) for m in modes)
        product = grid.dealias(grid.to_modes(grid.from_modes(a) * grid.from_modes(b)))
        wide = [jnp.pad(m, (0, 48)) * 4 for m in (a, b)]
        exact = fine.to_modes(fine.from_modes(wide[0]) * fine.from_modes(wide[1]))[:17] / 4
        return product, grid.dealias(exact), grid.to_modes(grid.from_modes(modes[0]) ** 2)

    product, exact, aliased = products(modes)
    np.testing.assert_allclose(product, exact, atol=1e-12)
    assert np.max(np.abs(np.asarray(aliased)[11:])) > 1e-3


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
