"""Physics of Fisher-KPP: its exact front, in one and two dimensions, and its limits."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import FisherKPP

import pdefit


def front(shape, extent, D=1.0, r=1.0, **options):
    grid = pdefit.CartesianGrid(shape=shape, extent=extent, origin=tuple(-e / 2 for e in extent), **options)
    return FisherKPP(grid=grid, D=jnp.asarray(D), r=jnp.asarray(r), front=-4.0)


@eqx.filter_jit
def initial(system):
    return system.init(None)


def error(system, t, dt):
    y = pdefit.solve(system, initial(system), np.array([t]), solver=pdefit.solvers.RK4(), dt=dt, t0=0.0)
    return np.max(np.abs(np.asarray(y.u)[-1] - np.asarray(eqx.filter_jit(system.exact)(jnp.asarray(t)).u)))


def test_space_order_is_two_in_two_dimensions():
    errors = []
    for n in (100, 200, 400):
        system = front((n, 3), (80.0, 5.0))
        errors.append(error(system, 3.0, 0.4 * system.stable_step(initial(system))))
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.1)


def test_a_front_along_any_axis_is_the_same():
    """A plane front is independent of a second dimension, even a periodic one."""
    flat = front((160,), (80.0,))
    for boundary in (pdefit.boundaries.NoFlux(), (pdefit.boundaries.NoFlux(), pdefit.boundaries.Periodic())):
        dish = front((160, 8), (80.0, 4.0), boundary=boundary)
        one, two = (
            np.asarray(pdefit.solve(s, initial(s), np.array([2.0]), solver=pdefit.solvers.RK4(), dt=0.02, t0=0.0).u)[-1]
            for s in (flat, dish)
        )
        np.testing.assert_allclose(two, np.repeat(one[:, None], 8, axis=1), atol=1e-12)


@pytest.mark.parametrize(("D", "r"), [(1.0, 1.0), (0.5, 2.0), (2.0, 0.3)])
def test_the_front_runs_at_its_speed(D, r):
    """Position of u = 1/4, where the argument of the exact front is zero."""
    length = np.sqrt(D / r)
    system = front((800,), (160.0 * length,), D, r)
    ts = np.array([4.0, 8.0]) / r
    u = np.asarray(pdefit.solve(system, initial(system), ts, solver=pdefit.solvers.RK4(), dt=0.01 / r, t0=0.0).u)
    x = system.grid.axis(0)
    positions = [float(np.interp(-0.25, -profile, x)) for profile in u]
    np.testing.assert_allclose((positions[1] - positions[0]) * r / 4.0, 5 * np.sqrt(r * D / 6), rtol=2e-3)


def test_empty_and_full_stay_what_they_are():
    system = front((20, 20), (10.0, 10.0))
    for level in (0.0, 1.0):
        y = type(initial(system))(jnp.asarray(np.full((20, 20), level)))
        np.testing.assert_array_equal(eqx.filter_jit(system.vector_field)(0.0, y, None).u, 0.0)


def test_a_longer_step_than_stated_is_unstable():
    system = front((100,), (20.0,))
    limit = system.stable_step(initial(system))
    rough = type(initial(system))(0.5 + 0.1 * jax.random.normal(jax.random.key(0), (100,)))
    ts, dt = np.array([200 * limit]), 1.6 * limit
    # within a trace a step is not compared with the limit
    end = jax.jit(lambda y: pdefit.solve(system, y, ts, solver=diffrax.Euler(), dt=dt, t0=0.0))(rough)
    assert not np.max(np.abs(end.u)) < 1e3


def test_coarsening_keeps_the_mass():
    system = front((160,), (80.0,))
    y = initial(system)
    np.testing.assert_allclose(np.mean(eqx.filter_jit(system.coarsen)(y, 4).u), np.mean(y.u), rtol=1e-14)


def test_parameters_are_documented_with_units():
    declared = pdefit.parameters(FisherKPP)
    assert {n: i.unit for n, i in declared.items()} == {"D": "length^2/time", "r": "1/s"}
    assert FisherKPP.example(16).system.grid.length_unit == "mm"
