"""Exponential steps: a linear part that is integrated exactly in its modes."""

from math import factorial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import FisherKPP
from problems import central_difference
from small_systems import Decay
from spectral import State, waves

import pdefit
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import constant_grid
from pdefit.integrate.solvers import etdrk4

ETDRK4 = pdefit.solvers.ETDRK4
TS = np.array([0.0, 0.1, 0.2, 0.3])
coefficients = jax.jit(etdrk4._coefficients)


def phi(k, x):
    """The function phi_k by its series, or by recursion far from zero."""
    if abs(x) < 2:
        return sum(x**n / factorial(n + k) for n in range(40))
    return np.exp(x) if k == 0 else (phi(k - 1, x) - 1 / factorial(k - 1)) / x


@pytest.mark.parametrize(
    "x", [0.0, 1e-9, -0.4, -1.0, -1.2, 1j, 0.9j, 2.5j, -40.0, 300j, np.exp(2j * np.pi * 16.5 / 32)]
)
def test_coefficients_are_exact_everywhere(x):
    """Also on the unit circle, where a circle of radius one passes through zero."""
    h = 0.25
    found = coefficients(jnp.asarray(h), jnp.asarray(x / h))
    expected = (
        np.exp(x / 2),
        h / 2 * phi(1, x / 2),
        h * (phi(1, x) - 3 * phi(2, x) + 4 * phi(3, x)),
        h * (phi(2, x) - 2 * phi(3, x)),
        h * (4 * phi(3, x) - phi(2, x)),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)


def functional(adjoint=None, n=32, dt=0.025):
    truth, model = waves(n), waves(n, a=0.8, b=0.012)
    data = pdefit.simulate(truth, truth.init(None), TS, solver=ETDRK4(), dt=dt)
    log = pdefit.transforms.Log()
    return pdefit.Functional(
        pdefit.Problem(model, model.init(None)),
        data,
        {"a": log, "b": log, "y0": {"u": pdefit.Control()}},
        solver=ETDRK4(),
        dt=dt,
        adjoint=adjoint,
    )


@eqx.filter_jit
def gradient(J):
    return J.value_and_grad(J.theta0)[1]


def test_gradients_are_right_whatever_the_adjoint_and_the_driver():
    J = functional()
    v = np.random.default_rng(0).normal(size=J.theta0.size)
    found = gradient(J)
    assert abs(central_difference(J, J.theta0, v, 1e-5) / float(found @ v) - 1) < 1e-7
    for adjoint in (pdefit.adjoints.StoreAll(), pdefit.adjoints.Checkpointed(2)):
        np.testing.assert_allclose(gradient(functional(adjoint)), found, rtol=1e-11, atol=1e-12)
    hosted = pdefit.drivers.Hosted("1 MB", "20 kB").functional(J)
    np.testing.assert_allclose(hosted.value_and_grad(J.theta0)[1], found, rtol=1e-11, atol=1e-12)


def test_normal_equations_are_those_of_the_jacobian():
    """Tangents of the coefficients are computed before the loop, and those of the state in it."""
    J = functional()
    _, g, matrix = eqx.filter_jit(lambda J: J.normal_equations(J.theta0))(J)
    r, jac = eqx.filter_jit(lambda J: J.residuals_and_jacobian(J.theta0))(J)
    np.testing.assert_allclose(g, jac.T @ r, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(matrix, jac.T @ jac, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(gradient(J), g, rtol=1e-9, atol=1e-10)


def test_continuous_adjoints_follow_a_slow_wave():
    """Their way back takes explicit steps, so the fastest wave must be resolved."""
    found = gradient(functional(n=16, dt=0.005))
    close = gradient(functional(pdefit.adjoints.Interpolating(substeps=4), n=16, dt=0.005))
    np.testing.assert_allclose(close, found, atol=1e-4 * float(jnp.max(jnp.abs(found))))


def test_coefficients_of_irregular_times_are_found_again():
    """Three sizes of steps, against steps that compute their own coefficients."""
    system, ts = waves(), np.array([0.0, 0.1, 0.13, 0.2])
    y0, grid = system.init(None), constant_grid(0.0, ts, 0.025)
    assert grid.sizes is not None and grid.sizes.size == 3
    together = pdefit.solve(system, y0, ts, solver=ETDRK4(), dt=0.025, t0=0.0)
    step, y = eqx.filter_jit(Stepper(system, ETDRK4())), y0
    for start, stop, n in ((0.0, 0.1, 4), (0.1, 0.13, 2), (0.13, 0.2, 3)):
        for i in range(n):
            y, _ = step(jnp.asarray(start + i * (stop - start) / n), jnp.asarray((stop - start) / n), (y, None))
    np.testing.assert_allclose(together.u[-1], y.u, rtol=1e-13)


def test_a_step_of_zero_length_is_none():
    system, zero = waves(), jnp.zeros(())
    y0 = system.init(None)
    np.testing.assert_array_equal(eqx.filter_jit(ETDRK4().one_step)(system, zero, zero, y0, None).u, y0.u)


def test_coefficients_of_single_precision_states_are_as_good_as_it():
    system, short = waves(), State(waves().init(None).u.astype(jnp.float32))
    single = jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, system)
    rough = pdefit.solve(single, short, TS, solver=ETDRK4(), dt=0.025, t0=0.0).u
    exact = pdefit.solve(system, system.init(None), TS, solver=ETDRK4(), dt=0.025, t0=0.0).u
    assert rough.dtype == jnp.float32
    np.testing.assert_allclose(rough, exact, atol=3e-6)


def test_reaction_diffusion_is_diagonal_between_walls():
    """Stiff diffusion in cosines, with Dirichlet values in the explicit part."""
    for boundary in (pdefit.boundaries.NoFlux(), pdefit.boundaries.Dirichlet(0.3)):
        system = FisherKPP(pdefit.CartesianGrid((64,), (4.0,), boundary=boundary), D=1.0, r=2.0, front=1.5)
        y0, ts = system.init(None), np.array([0.2])
        found = pdefit.solve(system, y0, ts, solver=ETDRK4(), dt=0.01, t0=0.0).u
        np.testing.assert_allclose(
            found, pdefit.solve(system, y0, ts, solver=pdefit.solvers.RK4(), dt=2e-4, t0=0.0).u, atol=1e-6
        )


def test_what_is_not_diagonal_is_refused():
    system = Decay(k=1.0)
    with pytest.raises(pdefit.PdefitError, match=r"AbstractDiagonal.*Decay has not; use solver=imex"):
        pdefit.simulate(system, system.init(None), [0.0, 1.0], solver=ETDRK4(), dt=0.1)
    with pytest.raises(pdefit.PdefitError, match="estimates its error, which ETDRK4 does not"):
        pdefit.simulate(waves(), waves().init(None), [0.0, 1.0], solver=ETDRK4(), steps=pdefit.Adaptive())


def test_stiff_waves_are_given_exponential_steps():
    system = waves(512, b=0.0025)
    assert isinstance(pdefit.choose_solver(system, system.init(None), 1.0).solver, ETDRK4)


def test_coefficients_of_another_step_are_no_numbers():
    """A step for which nothing was prepared must not pass as one for which there was."""
    system = waves()

    @eqx.filter_jit
    def step(h):
        stepper = Stepper(system, ETDRK4()).prepared(constant_grid(0.0, TS, 0.025))
        return stepper(jnp.zeros(()), h, (system.init(None), None))[0].u

    assert np.all(np.isfinite(step(0.025 * np.ones(())))) and np.all(np.isnan(step(0.0125 * np.ones(()))))
