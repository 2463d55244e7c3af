"""Every solver on problems with exact solutions: stated order, time dependence, irregular times, precision."""

from typing import ClassVar, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.integrate.step_size import real_stability


class Clock(pdefit.AbstractSystem):
    """y' = y cos t with the solution exp(sin t): time dependent, nonlinear in t."""

    time_unit: ClassVar[str] = "s"
    rate: jax.Array = pdefit.parameter(default=1.0)

    def vector_field(self, t, y, args):
        return self.rate * y * jnp.cos(t)

    def init(self, key):
        return jnp.ones(())


class Phase(NamedTuple):
    x: jax.Array
    v: jax.Array


class Oscillator(pdefit.AbstractSystem, pdefit.AbstractMechanical):
    """x'' = -x + t^2 + 2 with x = cos t + t^2: the force depends on time."""

    time_unit: ClassVar[str] = "s"

    def vector_field(self, t, y, args):
        return Phase(y.v, self.acceleration(t, y.x, args))

    def init(self, key):
        return Phase(jnp.ones(1), jnp.zeros(1))

    def positions(self, y):
        return y.x

    def velocities(self, y):
        return y.v

    def acceleration(self, t, x, args):
        return -x + t**2 + 2

    def assemble(self, x, v):
        return Phase(x, v)


ORDERS = [
    (diffrax.Euler(), 1),
    (diffrax.Heun(), 2),
    (diffrax.Bosh3(), 3),
    (pdefit.RK4(), 4),
    (diffrax.Tsit5(), 5),
    (diffrax.Dopri8(), 8),
]


def name(value):
    return type(value).__name__ if isinstance(value, diffrax.AbstractSolver) else str(value)


def errors_at(system, solver, steps, exact, t1=2.0):
    y0 = system.init(None)
    return [
        float(
            jnp.max(
                jnp.abs(
                    jax.tree.leaves(
                        pdefit.solve(system, y0, np.array([t1]), solver=solver, dt=t1 / n, t0=0.0),
                    )[0][-1]
                    - exact(t1)
                )
            )
        )
        for n in steps
    ]


@pytest.mark.parametrize(("solver", "order"), ORDERS, ids=name)
def test_runge_kutta_orders(solver, order):
    # Dopri8 reaches round-off soon, and is not yet asymptotic before
    steps = (4, 8, 16) if order == 8 else (16, 32, 64, 128)
    errors = errors_at(Clock(), solver, steps, lambda t: np.exp(np.sin(t)))
    rates = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(rates > order - 0.2), (errors, rates)
    if order < 8:
        np.testing.assert_allclose(rates[-1], order, atol=0.3)


@pytest.mark.parametrize(("solver", "order"), [(pdefit.VelocityVerlet(), 2), (pdefit.Yoshida4(), 4)], ids=name)
def test_symplectic_orders_with_a_force_that_depends_on_time(solver, order):
    errors = errors_at(Oscillator(), solver, (16, 32, 64, 128), lambda t: np.cos(t) + t**2)
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), order, atol=0.2)


@pytest.mark.parametrize("solver", [s for s, _ in ORDERS], ids=name)
def test_our_steps_are_diffrax_steps(solver):
    """The same formula as diffrax's own loop, to round-off."""
    theirs = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: y * jnp.cos(t)),
        solver,
        0.0,
        1.0,
        0.1,
        jnp.ones(()),
    ).ys
    ours = pdefit.solve(Clock(), jnp.ones(()), np.array([1.0]), solver=solver, dt=0.1, t0=0.0)
    np.testing.assert_allclose(ours[-1], theirs[-1], rtol=1e-13)


@pytest.mark.parametrize("solver", [pdefit.RK4(), diffrax.Euler(), pdefit.Yoshida4()], ids=name)
def test_padding_does_not_change_a_trajectory(solver):
    """Intervals of different length in one scan, against each alone."""
    system = Oscillator()
    y0, ts = system.init(None), np.array([0.3, 0.35, 1.0])
    together = pdefit.solve(system, y0, ts, solver=solver, dt=0.1, t0=0.0)
    y, t = y0, 0.0
    for i, stop in enumerate(ts):
        y = jax.tree.map(lambda x: x[-1], pdefit.solve(system, y, np.array([stop]), solver=solver, dt=0.1, t0=t))
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-14), together, y)
        t = float(stop)


def test_late_times_do_not_spoil_the_step_in_float32():
    """A step of 1e-3 at t = 1e4 differs by 2 % when formed as a difference of float32 times."""

    class Constant(pdefit.AbstractSystem):
        time_unit: ClassVar[str] = "s"

        def vector_field(self, t, y, args):
            return jnp.ones_like(y)

        def init(self, key):
            return jnp.zeros((), jnp.float32)

    for solver in (pdefit.RK4(), diffrax.Heun()):
        y = pdefit.solve(Constant(), jnp.zeros((), jnp.float32), np.array([1e4 + 0.1]), solver=solver, dt=1e-3, t0=1e4)
        assert y.dtype == jnp.float32
        np.testing.assert_allclose(y[-1], 0.1, rtol=1e-5)


def test_symplectic_solvers_want_a_mechanical_system():
    with pytest.raises(ValueError, match="choose a Runge-Kutta solver"):
        pdefit.solve(Clock(), jnp.ones(()), np.array([1.0]), solver=pdefit.VelocityVerlet(), dt=0.1, t0=0.0)


@pytest.mark.parametrize(
    ("solver", "reach"),
    [(diffrax.Euler(), 2.0), (diffrax.Heun(), 2.0), (diffrax.Bosh3(), 2.513), (pdefit.RK4(), 2.785)],
)
def test_the_stability_limit_is_that_of_the_method(solver, reach):
    np.testing.assert_allclose(real_stability(solver), reach, atol=0.01)
