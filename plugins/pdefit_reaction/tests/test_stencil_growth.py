"""A stencil against its exact waves, and the boundary condition of a ring."""

import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import StencilGrowth

import pdefit
from pdefit.boundaries import Periodic
from pdefit.terms import Formula


def ring(left, right, growth, cells=20):
    grid = pdefit.CartesianGrid((cells,), (1.0,), boundary=Periodic())
    return StencilGrowth(grid, jnp.asarray(left), jnp.asarray(right), growth)


def test_waves_spread_drift_and_grow_as_their_eigenvalue_says():
    """A wave exp(i k x) is an eigenvector of every stencil on a ring."""
    left, right, a, t = 0.013, 0.007, 0.4, 0.8
    system = ring(left, right, Formula("a * u", ("u",), {"a": a}))
    x, (h,), k = np.asarray(system.grid.axis(0)), system.grid.spacing, 4 * np.pi
    rate = (left * (np.exp(-1j * k * h) - 1) + right * (np.exp(1j * k * h) - 1)) / h**2 + a
    y0 = type(system.init(None))(jnp.cos(k * x))
    found = pdefit.solve(system, y0, np.array([t]), solver=pdefit.solvers.RK4(), dt=0.01, t0=0.0).u[-1]
    np.testing.assert_allclose(found, np.real(np.exp(1j * k * x + rate * t)), atol=1e-7)


def test_rates_are_those_of_a_loop_over_cells():
    system = ring(0.013, 0.007, Formula("u * (1 - u)", ("u",)))
    u, (h,) = np.asarray(system.init(None).u), system.grid.spacing
    wanted = [
        (0.013 * (u[i - 1] - u[i]) + 0.007 * (u[(i + 1) % 20] - u[i])) / h**2 + u[i] * (1 - u[i]) for i in range(20)
    ]
    np.testing.assert_allclose(system.vector_field(0.0, system.init(None), None).u, wanted, rtol=1e-12, atol=1e-14)


def test_a_row_with_ends_is_refused():
    with pytest.raises(ValueError, match="periodic axis"):
        StencilGrowth(pdefit.CartesianGrid((8,), (1.0,)), jnp.asarray(0.1), jnp.asarray(0.1))
