"""The models of one class against known properties of each."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pdefit_reaction import CellInvasion, FisherKPP

import pdefit

GRID = pdefit.CartesianGrid(shape=(200,), extent=(2.0,), origin=(-1.0,), length_unit="mm")
RATE = eqx.filter_jit(CellInvasion.vector_field)


def cells(D=0.01, r=1.2, K=1700.0, m=0.0, a=1.0, lag=0.0):
    return CellInvasion(GRID, *map(jnp.asarray, (D, r, K, m, a, lag)))


def state(u):
    return type(cells().init(None))(jnp.asarray(u))


def test_it_contains_fishers_equation():
    fisher = FisherKPP(GRID, jnp.asarray(0.01), jnp.asarray(1.2), 0.2)
    y = fisher.init(None)
    expected = 1700 * fisher.vector_field(0.0, y, None).u
    np.testing.assert_allclose(RATE(cells(), 1.0, state(1700 * y.u), None).u, expected, atol=1e-9)


def test_crowding_is_richards_growth():
    """u = K (1 + c exp(-a r t))^(-1/a) for a uniform density."""
    r, K, a, t = 1.2, 1700.0, 2.5, 0.4
    u = K * (1 + 3 * np.exp(-a * r * t)) ** (-1 / a)
    rate = u * r * 3 * np.exp(-a * r * t) / (1 + 3 * np.exp(-a * r * t))
    np.testing.assert_allclose(RATE(cells(a=a), 1.0, state(np.full(200, u)), None).u, rate, rtol=1e-12)


def test_growth_wakes_up():
    """After one lag its factor is 1 - 1/e."""
    full, awake = (np.asarray(RATE(cells(lag=x), 0.5, state(np.full(200, 300.0)), None).u) for x in (0.0, 0.5))
    np.testing.assert_allclose(awake, (1 - np.exp(-1)) * full, rtol=1e-12)


def test_crowded_cells_spread_as_a_porous_medium():
    """Barenblatt's solution for m = 1, s = t^(-1/3) (1 - x^2 / (6 D t^(2/3))), and zero beyond its edge."""
    D, t, x = 0.01, 1.0, np.asarray(GRID.axis(0))

    def share(t):
        return np.maximum(t ** (-1 / 3) * (0.2 - x**2 / (6 * D * t ** (2 / 3))), 0.0)

    rate = np.asarray(RATE(cells(D, r=0.0, m=1.0), 0.0, state(1700 * share(t)), None).u)
    inside, slope = np.abs(x) < 0.1, 1700 * (share(t + 1e-5) - share(t - 1e-5)) / 2e-5
    # the error of second order in the cells of 0.01 mm
    np.testing.assert_allclose(rate[inside], slope[inside], atol=0.005 * np.max(np.abs(slope[inside])))
    # nothing is lost through the ends, nor made
    assert abs(np.sum(rate)) < 1e-9 * np.sum(np.abs(rate))
    assert np.all(rate[np.abs(x) > 0.15] == 0)


def test_an_empty_place_has_derivatives():
    """Powers of a density of zero are cut off below an unobservably small fraction of the capacity."""
    system = cells(m=0.5, a=1.5, lag=0.3)

    def total(system, u):
        return jnp.sum(system.vector_field(0.1, state(u), None).u ** 2)

    u = jnp.zeros(200).at[50:100].set(900.0).at[100:110].set(-5.0)
    gradients = eqx.filter_jit(eqx.filter_grad(lambda both: total(*both)))((system, u))
    assert all(
        np.all(np.isfinite(x))
        for x in (gradients[1], *(getattr(gradients[0], n) for n in ("D", "r", "K", "m", "a", "lag")))
    )
