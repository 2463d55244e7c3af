"""Cucker-Smale particles: forces against the slope of the potential, momentum, another method, and starts."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_particles import CuckerSmale, State
from scipy.integrate import solve_ivp

import pdefit

GOOD = {"gamma": 0.8, "ca": 1.0, "cr": 1.5, "la": 2.0, "lr": 0.5}


def flock(n=5, **others):
    system = CuckerSmale(**(GOOD | others), n=n)
    return system, system.init(jax.random.key(0))


def acceleration(system, y):
    return np.asarray(jax.jit(lambda y: system.vector_field(0.0, y, None).velocity)(y))


def test_forces_are_the_slope_of_the_potential_where_velocities_are_equal():
    system, y = flock(4)
    x, e = np.asarray(y.position), 1e-6

    def potential(x):
        r = np.linalg.norm(x[:, None] - x[None], axis=-1)[np.triu_indices(4, 1)]
        return np.sum(-np.exp(-r / 2) + 1.5 * np.exp(-r / 0.5)) / 4

    found = acceleration(system, State(y.position, jnp.ones((4, 2))))
    for i, a in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[i, a] = e
        assert found[i, a] == pytest.approx(-(potential(x + moved) - potential(x - moved)) / (2 * e), abs=1e-9)


def test_particles_without_a_potential_align():
    """Two particles at a distance of 1: their difference in velocity falls at the rate 2^-gamma."""
    system = CuckerSmale(**(GOOD | {"gamma": 0.4, "ca": 0.0, "cr": 0.0}), n=2)
    y = State(jnp.asarray([[0.0, 0.0], [1.0, 0.0]]), jnp.asarray([[0.3, 0.1], [-0.5, 0.4]]))
    found, apart = acceleration(system, y), np.asarray(y.velocity[1] - y.velocity[0])
    np.testing.assert_allclose(found[1] - found[0], -(2**-0.4) * apart, rtol=1e-12)
    assert np.all(acceleration(system, State(y.position, jnp.ones((2, 2)))) == 0)


def test_momentum_is_constant_in_a_crowd():
    system, y = flock(20)
    np.testing.assert_allclose(acceleration(system, y).sum(axis=0), 0.0, atol=1e-13)


def test_coincident_particles_have_finite_forces_and_gradients():
    system, y = flock(3)
    y = State(y.position.at[1].set(y.position[0]), y.velocity)

    def total(system, y):
        return jnp.sum(system.vector_field(0.0, y, None).velocity ** 2)

    value, slopes = jax.value_and_grad(total, argnums=(0, 1))(system, y)
    assert all(np.all(np.isfinite(x)) for x in (value, *jax.tree.leaves(slopes)))
    # the two exert no force on each other
    alone, others = acceleration(CuckerSmale(**GOOD, n=2), State(y.position[1:], y.velocity[1:])), flock(3)[0]
    equal = State(y.position, y.velocity.at[0].set(y.velocity[1]))
    np.testing.assert_allclose(acceleration(others, equal)[1], alone[0] * 2 / 3, rtol=1e-12)


def test_a_flock_of_another_method():
    system, y = flock()

    def rate(_, s):
        x, v = s.reshape(2, 5, 2)
        a = np.zeros((5, 2))
        for i, j in np.ndindex(5, 5):
            if i != j:
                d = x[j] - x[i]
                r = np.hypot(*d)
                slope = np.exp(-r / 2) / 2 - 1.5 / 0.5 * np.exp(-r / 0.5)
                a[i] += ((1 + r**2) ** -0.8 * (v[j] - v[i]) + slope * d / r) / 5
        return np.concatenate([v, a]).ravel()

    ts = np.array([0.5, 2.0])
    expected = solve_ivp(rate, (0.0, 2.0), np.concatenate(y).ravel(), "DOP853", ts, rtol=1e-11, atol=1e-11).y.T
    found = pdefit.solve(system, y, ts, solver=diffrax.Dopri8(), dt=0.02, t0=0.0)
    np.testing.assert_allclose(np.stack(found, axis=1).reshape(2, -1), expected, atol=1e-9)


def test_starts_are_as_dense_in_small_flocks_as_in_large_ones():
    for n, edge in ((5, 1.0), (80, 4.0)):
        system, y = flock(n)
        x = np.abs(np.asarray(y.position))
        assert y.position.shape == y.velocity.shape == (n, 2) and 0.8 * edge < x.max() <= edge
    assert np.std(y.velocity) == pytest.approx(1.0, abs=0.15)
    with pytest.raises(ValueError, match="n = 0"):
        CuckerSmale(**GOOD, n=0)
