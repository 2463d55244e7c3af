"""Exponents that are known."""

from typing import ClassVar, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import Decay, Level, Lorenz, State

import pdefit


class Pair(NamedTuple):
    u: jax.Array
    v: jax.Array


class Linear(pdefit.AbstractSystem):
    """u' = growth u + 1e-6 v_0, v' = -2 v, of fields of very different size; `args` adds to the growth."""

    time_unit: ClassVar[str] = "s"
    growth: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        more = 0.0 if args is None else args
        return Pair((self.growth + more) * y.u + 1e-6 * y.v[0], -2 * y.v)

    def init(self, key):
        return Pair(jnp.array(1e-6), jnp.ones(2))


def test_lorenz():
    system = Lorenz()
    found = pdefit.lyapunov(system, system.init(jax.random.key(0)), np.arange(0.0, 1500.5, 0.5), dt=0.01)
    assert found.exponent == pytest.approx(0.906, abs=0.03)
    assert 0.0005 < found.standard_error < 0.02
    assert abs(found.exponent - 0.906) < 4 * found.standard_error
    assert found.discarded == 1000 and found.growth.shape == (3000,)
    assert found.time == 1 / found.exponent


@pytest.mark.parametrize(("growth", "args"), [(0.3, None), (-0.4, None), (0.3, 0.2)])
def test_a_linear_system(growth, args):
    system = Linear(growth)
    found = pdefit.lyapunov(
        system, system.init(jax.random.key(0)), np.linspace(0.0, 30.0, 31), dt=0.02, args=args, key=jax.random.key(1)
    )
    assert found.exponent == pytest.approx(growth + (args or 0.0), abs=1e-6)
    # what is left of the transient
    assert found.standard_error < 1e-6


def test_one_that_decays_is_negative_and_has_no_lyapunov_time():
    found = pdefit.lyapunov(Decay(k=1.5), State(jnp.ones(3)), np.linspace(0.0, 3.0, 10), dt=0.01)
    np.testing.assert_allclose(found.growth, -0.5, atol=1e-6)
    assert found.exponent == pytest.approx(-1.5, abs=1e-6) and found.time == np.inf


@pytest.mark.parametrize(
    "numerics", [{"solver": diffrax.Tsit5(), "dt": 0.02}, {"solver": diffrax.Tsit5(), "steps": True}]
)
def test_solvers_that_remember_and_adaptive_steps(numerics):
    if "steps" in numerics:
        numerics["steps"] = pdefit.Adaptive(rtol=1e-8, atol=1e-12)
    system = Linear(0.3)
    # irregular times
    ts = np.concatenate([[0.0], np.sort(np.random.default_rng(0).uniform(0, 30, 20)), [30.0]])
    found = pdefit.lyapunov(system, system.init(jax.random.key(0)), ts, **numerics)
    assert found.exponent == pytest.approx(0.3, abs=1e-6)


def test_float32_states_keep_their_precision():
    found = pdefit.lyapunov(Decay(k=np.float32(1.0)), State(jnp.ones(3, jnp.float32)), np.linspace(0, 3, 7), dt=0.05)
    assert found.exponent == pytest.approx(-1.0, abs=1e-5)


def test_a_tangent_obeys_the_constraints():
    """Around zero the constrained system decays in every direction that the constraint allows."""
    found = pdefit.lyapunov(Level(2.0), State(jnp.zeros(3)), np.linspace(0.0, 4.0, 9), dt=0.02)
    assert found.exponent == pytest.approx(-2.0, abs=1e-6)


def test_a_tangent_that_dies_ends_at_minus_infinity():
    """One step of this size takes the state to zero, and its tangent too."""
    found = pdefit.lyapunov(Decay(k=1.0), State(jnp.ones(3)), np.linspace(0, 4, 5), solver=diffrax.Euler(), dt=1.0)
    assert found.exponent == -np.inf and np.isnan(found.standard_error) and found.time == np.inf


def test_too_few_times_are_refused():
    with pytest.raises(pdefit.PdefitError, match="expects 4 times or more, but got 3"):
        pdefit.lyapunov(Decay(k=1.0), State(jnp.ones(3)), [0.0, 1.0, 2.0], dt=0.1)


def test_a_dose_moves_the_state_and_no_tangent_and_a_reset_ends_it():
    ts, start = np.linspace(0.0, 8.0, 17), Decay(k=0.3).init(None)
    dose, reset = pdefit.Event(2.25, "u", amount=5.0), pdefit.Event(3.0, "u", set=1.0)
    found = pdefit.lyapunov(Decay(k=0.3), start, ts, dt=0.05, events=[dose])
    np.testing.assert_allclose(found.exponent, -0.3, rtol=1e-6)
    assert pdefit.lyapunov(Decay(k=0.3), start, ts, dt=0.05, events=[reset]).exponent == -np.inf
