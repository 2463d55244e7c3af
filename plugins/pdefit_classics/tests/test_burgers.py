"""The exact shock of Burgers' equation, conservation at its edges, and edges that move."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_classics import Burgers
from pdefit_classics.cole_hopf import sine_wave

import pdefit
from pdefit.boundaries import Dirichlet, Ends, Periodic


def box(cells, viscosity=0.1, boundary=None, width=2.0):
    grid = pdefit.CartesianGrid((cells,), (width,), (-width / 2,), boundary=boundary or Dirichlet())
    return Burgers(grid, 1.0, viscosity)


@eqx.filter_jit
def exact(system, t):
    return system.exact(t)


@eqx.filter_jit
def rates(system, y):
    return system.vector_field(0.0, y, None)


def run(system, t, args=None):
    y0 = exact(system, jnp.asarray(0.0))
    dt = 1.1 * system.stable_step(y0)
    y = pdefit.solve(system, y0, np.array([t]), solver=pdefit.solvers.RK4(), dt=dt, t0=0.0, args=args)
    return np.asarray(y.u)[-1]


def error(system, t, args=None):
    return np.max(np.abs(run(system, t, args) - np.asarray(exact(system, jnp.asarray(t)).u)))


def test_inner_fluxes_are_of_eighth_order():
    errors = []
    for cells in (32, 64):
        errors.append(error(box(cells, 0.5, Periodic()), 0.3))
    assert 7.7 < np.log2(errors[0] / errors[1]) < 8.2


def test_moving_edges_are_of_fourth_order_or_better():
    """The exact solution in a narrower box, whose edges then move, with the shock inside."""
    times = np.linspace(0.0, 0.3, 301)
    at_edge = np.asarray(jax.jit(jax.vmap(lambda t: sine_wave(jnp.asarray([-0.6]), t, 1.0, 0.1)[0]))(times))
    args = pdefit.Inputs(left=pdefit.TimeSeries(times, at_edge), right=pdefit.TimeSeries(times, -at_edge))
    errors = []
    for cells in (24, 48):
        system = box(cells, 0.1, Ends(Dirichlet("left"), Dirichlet("right")), 1.2)
        errors.append(error(system, 0.3, args))
    assert np.log2(errors[0] / errors[1]) > 3.7
    assert errors[1] < 1e-5


def test_what_leaves_the_box_crosses_its_edges():
    system = box(64, 0.05, Periodic())
    start = exact(system, jnp.asarray(0.0))
    y0 = type(start)(jnp.asarray(1.0 + np.asarray(start.u)))
    np.testing.assert_allclose(np.sum(rates(system, y0).u), 0.0, atol=1e-11)
    closed = box(64, 0.05)
    flux = np.asarray(rates(closed, y0).u)
    assert abs(flux.sum() * closed.grid.spacing[0]) > 1.0


def test_the_stated_step_is_stable_at_a_shock():
    system = box(256, 0.01 / np.pi)
    found = run(system, 0.6)
    # the shock is three cells wide here
    np.testing.assert_allclose(found, exact(system, jnp.asarray(0.6)).u, atol=0.04)
