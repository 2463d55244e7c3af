"""Bands of learned terms against the same from a matrix of basis functions."""

import jax.numpy as jnp
import numpy as np
from pdefit_reaction import StencilGrowth

import pdefit
from pdefit.boundaries import Periodic
from pdefit.terms import Series


def test_the_band_of_a_series_is_that_of_its_basis_functions():
    grid = pdefit.CartesianGrid((8,), (1.0,), boundary=Periodic())
    c = np.array([0.1, -0.2, 0.3])
    system = StencilGrowth(
        grid, jnp.asarray(0.01), jnp.asarray(0.01), Series(("u",), 0.0, 2.0, count=3, coefficients=c)
    )
    y0, ts = system.init(None), np.array([0.0, 0.1])
    data = pdefit.simulate(system, y0, ts, dt=0.1)
    J = pdefit.Functional(
        pdefit.Problem(system, y0), data, {"left": pdefit.transforms.Identity(), "growth": pdefit.Control()}, dt=0.1
    )
    half = np.random.default_rng(0).normal(size=(4, 4))
    covariance, u = half @ half.T, np.linspace(0.0, 2.0, 5)
    found = pdefit.band(J, J.theta0, "growth", (u,), covariance)
    # the weight does not enter the growth, whatever is known of it
    basis, own = np.polynomial.chebyshev.chebvander(u - 1, 2), covariance[1:, 1:]
    np.testing.assert_allclose(found.value, basis @ c, atol=1e-14)
    np.testing.assert_allclose(found.error, np.sqrt(np.einsum("ui,ij,uj->u", basis, own, basis)), rtol=1e-12)
    # of a difference, in which the constant falls out
    less = pdefit.band(J, J.theta0, "growth", (u,), covariance, (0.0,))
    basis = basis - basis[0]
    np.testing.assert_allclose(less.error, np.sqrt(np.einsum("ui,ij,uj->u", basis, own, basis)), atol=1e-12)
    assert less.value[0] == less.error[0] == 0.0
