"""Initial states by kicks, against the exact solution of a decay."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import Decay, State

import pdefit


class Kicks(pdefit.AbstractPreparation):
    """From rest: u gains the first number of each pair, and decays for the second."""

    pairs: tuple = ((1.0, 0.5), (3.0, 0.0), (-2.0, 0.25))

    def start(self, system, key):
        return State(jnp.zeros(3))

    def kicks(self, system, key):
        return [(lambda y, a=a: State(y.u + a), t) for a, t in self.pairs]


def test_kicks_come_in_order_each_followed_by_its_time(key):
    told = []
    made = pdefit.prepare(Kicks(), Decay(k=1.0), key, dt=1e-3, report=lambda *x: told.append(x))
    expected = (np.exp(-0.5) + 3 - 2) * np.exp(-0.25)
    np.testing.assert_allclose(made.u, expected, rtol=1e-3)
    # backwards they end elsewhere
    other = ((-2 * np.exp(-0.25) + 3) + 1) * np.exp(-0.5)
    assert abs(other - expected) > 0.1
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert made.u.dtype == np.float64


def test_without_kicks_it_is_the_start(key):
    made = pdefit.prepare(Kicks(()), Decay(k=1.0), key, dt=0.1)
    np.testing.assert_array_equal(made.u, np.zeros(3))


def test_a_blow_up_names_the_kick(key):
    protocol = Kicks(((1.0, 0.5), (float("inf"), 0.5), (1.0, 0.5)))
    with pytest.raises(pdefit.PdefitError) as error:
        pdefit.prepare(protocol, Decay(k=1.0), key, dt=0.1)
    told = str(error.value)
    assert "The preparation of Decay blows up after kick 2 of 3, by t = 1 s with steps of 0.1" in told
    assert "\n" not in told


def test_a_system_without_a_stable_step_takes_one_that_follows_it(key):
    chosen, given = (pdefit.prepare(Kicks(), Decay(k=4.0), key, dt=dt) for dt in (None, 0.5 / 4))
    np.testing.assert_allclose(chosen.u, given.u, rtol=1e-6)
    # the steps of an implicit solver are a matter of accuracy alone
    with pytest.raises(pdefit.PdefitError, match="Decay states no stable step, so .* set dt"):
        pdefit.simulate(Decay(k=1.0), State(jnp.ones(3)), np.array([0.0, 1.0]), solver=diffrax.Kvaerno5())
