"""Activation times and phase singularities of films with known ones."""

import numpy as np
import pytest
from pdefit_cardiac import ALIEV_PANFILOV, AlievPanfilov
from pdefit_cardiac.waves import activation_times, singularities, topological_charge

import pdefit

TS = np.arange(0.0, 41.0)
X, Y = np.meshgrid(np.arange(24.0), np.arange(20.0), indexing="ij")


def around(x, y):
    """Angles around a point."""
    return np.arctan2(Y - y, X - x)


def ramps(speed, ts):
    """A wave whose voltage rises along x, by 0.1 per unit of time, and passes 0.5 at x / speed."""
    return np.clip(0.5 + 0.1 * (ts[:, None, None] - X / speed), 0.0, 1.0)


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_a_plane_wave_arrives_at_x_over_c(dtype):
    found = activation_times(TS, ramps(0.8, TS).astype(dtype), 0.5)
    there = X / 0.8 > 2.6
    np.testing.assert_allclose(found[there], (X / 0.8)[there], rtol=1e-12 if dtype is float else 1e-5)
    # those that were on the rise at the beginning were never seen at rest
    assert np.isnan(found[~there]).all()


def test_only_what_rises_from_rest_is_activated():
    falling = np.linspace(1.0, 0.0, 41)[:, None] + np.where(np.arange(41) % 2, 0.02, -0.02)[:, None]
    again = np.where((TS < 5) | (TS > 30), 1.0, 0.0)[:, None]
    never, gap = np.zeros((41, 1)), np.clip(0.5 + 0.02 * (TS - 20.25), 0.1, 1.0)[:, None]
    gap[18:25] = np.nan
    found = activation_times(TS, np.hstack([falling, again, never, gap]), 0.5)
    np.testing.assert_allclose(found, [np.nan, 30.5, np.nan, 20.25])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_phase_that_turns_has_one_singularity(sign):
    charge = topological_charge(np.angle(np.exp(1j * sign * around(10.5, 7.5))))
    assert charge[10, 7] == sign and np.abs(charge).sum() == 1


def test_a_pair_has_opposite_charges_and_a_plane_wave_none():
    charge = topological_charge(np.angle(np.exp(1j * (around(5.5, 9.5) - around(16.5, 9.5) + 0.3))))
    assert charge[5, 9] == 1 and charge[16, 9] == -1 and np.abs(charge).sum() == 2
    assert not topological_charge(np.angle(np.exp(1.2j * X))).any()
    assert not np.nan_to_num(topological_charge(np.where(X > 9, np.nan, 0.0))).any()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_wave_that_turns_counterclockwise_has_charge_one(sign):
    film = [0.5 + np.cos(sign * around(10.5, 7.5) - 0.15 * t) for t in TS]
    frames, squares, charges = singularities(TS, film, 0.5, 10.0)
    # from the first frame that is as late as the delay
    assert frames.tolist() == [*range(10, 41)]
    assert (squares == [10, 7]).all() and (charges == sign).all()


def test_noise_upon_waves_that_do_not_turn_has_no_singularities():
    noise = 0.02 * np.random.default_rng(0).standard_normal((41, *X.shape))
    assert singularities(TS, ramps(0.8, TS) + noise, 0.5, 10.0)[0].size == 0


def test_tissue_reads_its_film():
    grid = pdefit.CartesianGrid(shape=X.shape, extent=(2.4, 2.0), length_unit="cm")
    system = AlievPanfilov(grid, **ALIEV_PANFILOV)
    film = [0.5 + np.cos(around(10.5, 7.5) - 0.15 * t) for t in TS]
    times, where = system.maps(TS, {"u": film})["activation"]
    assert times.shape == X.shape and where.dims == ("x", "y") and where.unit == "ms"
    points = system.points(TS, {"u": film})
    assert [*points] == ["frame", "x", "y", "charge"]
    np.testing.assert_allclose(points["x"], 1.1)
    np.testing.assert_allclose(points["y"], 0.8)
    assert system.maps(TS, {"v": film}) == {} == system.points(TS, {"v": film})
