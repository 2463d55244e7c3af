"""A column against a loop over its cells, and against the exact solution for a linear flux."""

import jax.numpy as jnp
import numpy as np
import scipy
from pdefit_reaction import BoussinesqColumn

import pdefit
from pdefit.terms import Formula

GRID = pdefit.CartesianGrid((32,), (1.0,))


def test_rates_are_those_of_a_loop_over_cells():
    system = BoussinesqColumn(GRID, jnp.asarray(0.05))
    T, h = np.asarray(system.init(None).T), 1 / 32
    F = np.cos(np.sin(T**3)) + np.sin(np.cos(T**2))
    wanted = []
    for i in range(32):
        above, below = T[min(i + 1, 31)], T[max(i - 1, 0)]
        # what enters through the upper face, of the cell above, leaves through the lower one as that of the cell itself
        wanted.append(-(F[min(i + 1, 31)] - F[i]) / h + 0.05 * (above - 2 * T[i] + below) / h**2)
    np.testing.assert_allclose(system.vector_field(0.0, system.init(None), None).T, wanted, rtol=1e-10, atol=1e-12)


def test_a_linear_flux_carries_heat_down():
    """The matrix exponential of the equations for F = -c T, whose pulse sinks by c t."""
    c, kappa, t = 0.5, 0.002, 0.4
    system = BoussinesqColumn(GRID, jnp.asarray(kappa), Formula("1 - c * T", ("T",), {"c": c}))
    n, h = 32, 1 / 32
    down = (np.eye(n, k=1) - np.eye(n)) * c / h
    down[-1] = 0.0
    spread = np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n)
    spread[0, 0] = spread[-1, -1] = -1.0
    y0 = system.init(None)
    wanted = scipy.linalg.expm(t * (down + kappa * spread / h**2)) @ np.asarray(y0.T)
    found = np.asarray(pdefit.solve(system, y0, np.array([t]), solver=pdefit.solvers.RK4(), dt=0.005, t0=0.0).T[-1])
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    z = np.asarray(GRID.axis(0))
    assert abs(found @ z / found.sum() - (0.75 - c * t)) < 0.01
