import dataclasses

import diffrax
import jax
import numpy as np
import pytest
from problems import GRID, fisher
from small_systems import Decay

import pdefit


def refined(factor):
    grid = pdefit.CartesianGrid(shape=(64 * factor,), extent=GRID.extent, origin=GRID.origin)
    return dataclasses.replace(fisher(), grid=grid)


def test_noise_has_the_stated_size_and_is_told_as_sigma():
    ts = np.linspace(0, 2, 41)
    clean = pdefit.simulate(fisher(), fisher().init(None), ts, dt=0.05)
    noisy = pdefit.add_noise(clean, 0.02, jax.random.key(0))
    span = np.ptp(np.asarray(clean.values["u"]))
    np.testing.assert_allclose(noisy.sigma["u"], 0.02 * span)
    difference = np.asarray(noisy.values["u"] - clean.values["u"])
    # 2624 draws: their standard deviation is known to 1.4 %
    np.testing.assert_allclose(difference.std(), 0.02 * span, rtol=0.06)
    np.testing.assert_allclose(pdefit.add_noise(clean, 0.0, jax.random.key(0)).sigma["u"], span)
    with pytest.raises(pdefit.PdefitError, match="cannot be"):
        pdefit.add_noise(clean, -0.1, jax.random.key(0))


def test_missing_values_stay_missing_and_do_not_widen_the_range():
    values = np.full((3, 4), 280.0) + np.arange(4)
    values[1, 2:] = np.nan
    noisy = pdefit.add_noise(pdefit.Observations.build([0.0, 1.0, 2.0], {"T": values}), 0.1, jax.random.key(0))
    # 3 from 280 to 283, not 283 from the zeros that stand for missing values
    np.testing.assert_allclose(noisy.sigma["T"], 0.3)
    np.testing.assert_array_equal(noisy.mask["T"], np.isfinite(values))


def test_an_independent_twin_is_averaged_to_the_instrument():
    fine = refined(4)
    twin = pdefit.Twin(system=fine, solver=diffrax.Dopri5(), dt=None, refine=4)
    ts = np.linspace(0, 1, 3)
    record, states = twin.record(fine.init(None), ts, pdefit.instruments.ObserveAll())
    assert record.values["u"].shape == (3, 64) == states.u.shape
    model = pdefit.simulate(fisher(), fisher().init(None), ts, dt=0.05)
    difference = np.max(np.abs(np.asarray(record.values["u"] - model.values["u"])))
    # not the model's own numbers, but close to them
    assert 1e-6 < difference < 1e-2


def test_the_same_seed_makes_the_same_twin():
    def values(seed):
        twin = pdefit.Twin(system=fisher(), solver=pdefit.solvers.RK4(), dt=0.05, noise=0.02, seed=seed)
        return np.asarray(
            twin.record(fisher().init(None), np.linspace(0, 1, 3), pdefit.instruments.ObserveAll())[0].values["u"]
        )

    np.testing.assert_array_equal(values(3), values(3))
    assert np.any(values(3) != values(4))


def test_a_truth_that_blows_up_is_an_error():
    # negative densities run to minus infinity within a second
    twin = pdefit.Twin(system=fisher(), solver=pdefit.solvers.RK4(), dt=None)
    with pytest.raises(pdefit.PdefitError, match=r"set twin\.dt smaller"):
        twin.record(type(fisher().init(None))(-np.ones(64)), np.linspace(0, 20, 3), pdefit.instruments.ObserveAll())


def test_a_truth_may_take_adaptive_steps():
    system, ts = Decay(k=1.5), np.linspace(0.0, 2.0, 3)
    twin = pdefit.Twin(system, diffrax.Tsit5(), None, steps=pdefit.Adaptive(1e-10, 1e-10))
    record, _ = twin.record(system.init(None), ts, pdefit.instruments.ObserveAll())
    np.testing.assert_allclose(record.values["u"][-1], system.exact(2.0).u, rtol=1e-9)
