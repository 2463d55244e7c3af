"""An excitable medium against its known properties: its resting state, its front, and its spiral."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import FitzHughNagumo

import pdefit


def medium(shape, extent, recovery=0.072):
    grid = pdefit.CartesianGrid(shape, extent, length_unit="mm")
    return FitzHughNagumo(grid, *map(jnp.asarray, (0.0015, 0.8, recovery, 0.7, 0.5)))


def run(system, y0, ts, dt):
    return np.asarray(pdefit.solve(system, y0, ts, solver=pdefit.solvers.RKC(), dt=dt, t0=0.0).u)


@pytest.mark.parametrize(("push", "is_pulse"), [(0.2, False), (0.8, True)])
def test_a_small_push_dies_out_and_a_large_one_is_a_pulse(push, is_pulse):
    system = medium((2,), (0.04,))
    # at rest v = 2 (u + 0.7), so u^3 / 3 + u + 1.4 = 0
    roots = np.roots([1 / 3, 0, 1, 1.4])
    (rest,) = roots[np.abs(roots.imag) < 1e-12].real
    y0 = type(system.init(None))(jnp.full(2, rest + push), jnp.full(2, 2 * (rest + 0.7)))
    found = run(system, y0, np.linspace(1.0, 300.0, 300), 0.25)
    assert (found.max() > 1.5) == is_pulse
    np.testing.assert_allclose(found[-1], rest, atol=1e-3)


def test_a_front_into_a_medium_that_does_not_recover_has_its_exact_profile_and_speed():
    system = medium((400,), (2.0,), recovery=0.0)
    # the three states where u - u^3 / 3 = v = -0.4
    low, middle, high = np.sort(np.roots([-1 / 3, 0, 1, 0.4]).real)
    speed = np.sqrt(0.0015 * 0.8 / 6) * (low + high - 2 * middle)

    def front(place):
        steepness = (high - low) / 2 * np.sqrt(0.8 / (6 * 0.0015))
        return (high + low) / 2 - (high - low) / 2 * np.tanh(steepness * (system.grid.axis(0) - place))

    y0 = type(system.init(None))(jnp.asarray(front(1.2)), jnp.full(400, -0.4))
    found = run(system, y0, np.array([10.0]), 0.02)[-1]
    np.testing.assert_allclose(found, front(1.2 + 10 * speed), atol=5e-3)


def test_the_start_turns_into_a_spiral():
    system = medium((24, 24), (1.6, 1.6))
    excited = run(system, eqx.filter_jit(system.init)(None), np.linspace(100.0, 200.0, 101), 0.25) > 0
    # a wave comes by every 46 s, and never fills the dish
    beats = np.diff(excited[:, 4, 4].astype(int)) == 1
    assert beats.sum() == 2 and 0 < excited.mean(axis=(1, 2)).min() and excited.mean(axis=(1, 2)).max() < 0.8
