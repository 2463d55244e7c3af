import numpy as np

from pdefit.analysis.forecast.skill import skill


def test_errors_valid_time_and_labels():
    ts = np.array([11.0, 12.0, 13.0])
    truth = {"x": np.ones((3, 2, 1))}
    forecast = {"x": np.ones((3, 2, 1)) + np.array([0.0, 0.05, 0.2])[:, None, None] * np.array([1.0, 0.0])[:, None]}
    found = skill(ts, 10.0, forecast, {"zero": {"x": np.zeros((3, 2, 1))}}, truth, labels=("a", "b"))
    np.testing.assert_allclose(found.relative_l2, np.array([0.0, 0.05, 0.2]) / np.sqrt(2))
    np.testing.assert_allclose(found.baseline_l2, 1.0)
    np.testing.assert_allclose(found.per_label["a"], [0.0, 0.05, 0.2])
    np.testing.assert_allclose(found.per_label["b"], 0.0)
    assert found.valid_time == 2.0


def test_missing_truth_is_not_scored_and_a_blow_up_is_not_valid():
    ts = np.array([1.0, 2.0])
    truth = {"x": np.array([[1.0, np.nan], [1.0, 1.0]])}
    found = skill(ts, 0.0, {"x": np.array([[1.0, 7.0], [np.nan, 1e300]])}, {"zero": {"x": np.zeros((2, 2))}}, truth)
    assert found.relative_l2[0] == 0
    assert found.valid_time == 1.0
    assert found.per_label == {}


def test_labels_that_do_not_fit_what_was_observed_are_left_out():
    truth = {"x": np.ones((2, 2, 1))}
    assert skill(np.array([1.0, 2.0]), 0.0, truth, {"truth": truth}, truth, labels=("a", "b", "c")).per_label == {}


def test_the_peaks_of_a_field_on_a_grid_and_validity_to_the_end():
    ts = np.linspace(0.5, 20, 40)
    truth, late = ({"u": np.maximum(0.0, 1 - ((ts[:, None] - np.arange(4.0) - c) / 3) ** 2)} for c in (6.1, 6.2))
    found = skill(ts, 0.0, late, {"truth": truth}, truth, spread="u")
    assert found.peaks is not None and found.peaks.field == "u" and found.peaks.peaks == 4
    np.testing.assert_allclose([found.peaks.forecast.error, found.peaks.baseline.error], [0.1, 0.0], atol=1e-12)
    assert not found.valid_to_end
    perfect = skill(ts, 0.0, truth, {"truth": truth}, truth)
    assert perfect.valid_to_end and perfect.valid_time == 20.0 and perfect.peaks is None


def test_a_forecast_that_a_baseline_beats_is_not_valid():
    """A wave on a large mean: what misses the whole wave is still within a tenth of the truth."""
    ts = np.linspace(0.1, 1.0, 10)
    truth = {"x": 100 + np.sin(6 * ts)[:, None]}
    found = skill(ts, 0.0, {"x": 100 - np.sin(6 * ts)[:, None]}, {"mean": {"x": np.full((10, 1), 100.0)}}, truth)
    assert not found.valid_to_end and found.better == "mean"
