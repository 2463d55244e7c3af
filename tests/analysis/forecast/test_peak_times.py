"""Peak times of films whose peaks are known."""

import numpy as np
import pytest

from pdefit.analysis.forecast.peak_times import peak_times

TS = np.arange(0.0, 40.0, 0.5)
X = np.arange(12.0)


def pulses(*centers, ts=TS, width=3.0):
    """(T, 12) parabolic pulses, which travel by one point in a time unit: three samples give their peak exactly."""
    return sum(np.maximum(0.0, 1 - ((ts[:, None] - X - c) / width) ** 2) for c in centers)


def test_a_delay_is_found_exactly():
    found = peak_times("u", TS, pulses(5.37, 20.37), pulses(6.1), pulses(5.1, 20.1))
    assert found is not None and found.field == "u" and found.peaks == 24
    assert found.reach == pytest.approx(7.5, abs=1e-12)
    assert found.forecast.error == pytest.approx(0.27, abs=1e-12) and found.forecast.missed == 0
    # the baseline has one peak of two, 1 late for the first and 14 early for the second
    assert found.baseline.error == pytest.approx((1.0 + 14.0) / 2, abs=1e-12) and found.baseline.missed == 0.5


def test_points_are_not_mixed_up():
    """A pulse that travels the other way: each point has its own delay."""
    truth, forecast = pulses(5.1), pulses(5.1)[:, ::-1]
    found = peak_times("u", TS, forecast, truth, truth)
    assert found is not None and found.baseline.error == pytest.approx(0.0, abs=1e-12)
    assert found.forecast.error == pytest.approx(np.mean(np.abs(X - X[::-1])), abs=1e-12)


def test_one_missed_peak():
    truth, forecast = pulses(5.1), pulses(5.1)
    forecast[:, 3] = 0.0
    found = peak_times("u", TS, forecast, np.zeros_like(truth), truth)
    assert found is not None and found.peaks == 12
    # no point has two peaks: any peak of the film is within reach
    assert found.reach == TS[-1] - TS[0]
    assert found.forecast.missed == pytest.approx(1 / 12) and found.forecast.error == pytest.approx(0, abs=1e-12)
    assert found.baseline.missed == 1 and np.isnan(found.baseline.error)


def test_irregular_times_and_more_axes():
    ts = np.sort(np.random.default_rng(0).uniform(0, 30, 150))
    truth, forecast = (pulses(c, ts=ts).reshape(-1, 3, 4) for c in (5.0, 5.5))
    found = peak_times("u", ts, forecast, truth, truth)
    assert found is not None and found.peaks == 12 and found.forecast.error == pytest.approx(0.5, abs=1e-9)


def test_two_equal_samples_are_a_peak_between_them():
    found = peak_times("u", TS, pulses(5.5), pulses(5.5), pulses(5.25))
    assert found is not None and found.peaks == 12 and found.forecast.error == pytest.approx(0.25, abs=1e-12)


@pytest.mark.parametrize(
    "film",
    [
        np.ones((80, 4)),
        np.zeros((80, 2, 2)),
        # a plateau, and a front that stays
        np.minimum(pulses(5.1, width=6.0), 0.5),
        np.tanh(TS[:, None] - X),
        # the same with noise
        np.tanh(TS[:, None] - X) + 0.05 * np.random.default_rng(0).normal(size=(80, 12)),
        np.full((80, 4), np.nan),
        # decays from the start
        np.exp(-TS)[:, None] * np.ones(3),
    ],
)
def test_what_has_no_peak(film):
    assert peak_times("u", TS, film, film, film) is None


def test_small_peaks_and_too_few_frames_are_none():
    # ripples below half the range, of a series that rises
    film = np.tanh(TS - 20)[:, None] + 0.2 * np.sin(4 * TS)[:, None] * (TS[:, None] < 12)
    assert peak_times("u", TS, film, film, film) is None
    assert peak_times("u", TS[:2], film[:2], film[:2], film[:2]) is None


def test_a_forecast_that_blows_up_has_no_peaks():
    truth = pulses(5.1)
    with np.errstate(all="raise"):
        broken = np.where(TS[:, None] > 3, np.inf, truth)
        found = peak_times("u", TS, broken, np.where(TS[:, None] > 3, np.nan, truth), truth)
    assert found is not None and found.forecast.missed == found.baseline.missed == 1


def test_float32_films():
    found = peak_times("u", TS, *(pulses(c).astype(np.float32) for c in (5.3, 5.2, 5.1)))
    assert found is not None and found.forecast.error == pytest.approx(0.2, abs=1e-4)


def test_a_wave_has_one_peak_and_no_ripple_counts():
    series = np.interp(TS, [0, 2, 3, 5, 8, 20, 22, 23, 25, 28, 39.5], [0, 1, 0.7, 0.9, 0, 0, 1, 0.7, 0.9, 0, 0])
    rough = series - 0.01 * (series < 1) * (np.arange(TS.size) % 2)
    found = peak_times("u", TS, rough[:, None], series[:, None], series[:, None])
    assert found is not None and found.peaks == 2 and found.reach == pytest.approx(10, abs=0.1)
    assert found.forecast.missed == 0 and found.forecast.error < 0.05


def test_a_wave_whose_top_is_not_seen_has_no_peak():
    # starts at its highest, then a dome; rises to the end
    dome = np.interp(TS, [0, 3, 5, 10, 30, 39.5], [1, 0.7, 0.9, 0, 0, 1])
    assert peak_times("u", TS, dome[:, None], dome[:, None], dome[:, None]) is None
    # neighboring points that both end and begin above the level are two waves
    both = np.stack([dome, pulses(5.1)[:, 0]], axis=1)
    found = peak_times("u", TS, both, both, both)
    assert found is not None and found.peaks == 1
