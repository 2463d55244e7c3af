"""Series of values in time against those of scipy, and series as inputs by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

import pdefit

TIMES = np.array([0.0, 0.1, 0.5, 0.6, 1.4, 1.5, 2.0, 3.0])
VALUES = np.random.default_rng(0).normal(size=(8, 3))
SEEN = np.linspace(-0.5, 3.5, 101)
SAMPLED = jax.jit(lambda series: jax.vmap(series)(SEEN))
AT = jax.jit(lambda series, t: series(t))


def test_straight_and_monotone_series_are_those_of_scipy():
    inside = np.clip(SEEN, TIMES[0], TIMES[-1])
    straight = np.stack([np.interp(SEEN, TIMES, v) for v in VALUES.T], 1)
    np.testing.assert_allclose(SAMPLED(pdefit.TimeSeries(TIMES, VALUES, "linear")), straight, atol=1e-14)
    np.testing.assert_allclose(
        SAMPLED(pdefit.TimeSeries(TIMES, VALUES)), PchipInterpolator(TIMES, VALUES)(inside), atol=1e-13
    )


def test_the_slopes_of_a_smooth_series_are_exact_on_parabolas():
    series = pdefit.TimeSeries(TIMES, np.zeros(8), "smooth", sigma=1.0)
    series = series.with_values(jnp.asarray(1 + 2 * TIMES - TIMES**2))
    inside = np.clip(SEEN, TIMES[0], TIMES[-1])
    np.testing.assert_allclose(SAMPLED(series), 1 + 2 * inside - inside**2, atol=1e-13)


def noisy(sigma=0.1, count=200):
    times, rng = np.linspace(0.0, 1.0, count), np.random.default_rng(1)
    truth = np.stack([np.sin(6 * times), 5 * times], 1)
    return times, truth, truth + sigma * rng.normal(size=truth.shape)


def test_the_residual_of_a_smooth_series_is_its_sigma():
    times, truth, seen = noisy()
    seen[17, 0] = np.nan
    series = pdefit.TimeSeries(times, seen, "smooth", sigma=0.1)
    residual, known = np.asarray(series.misfit()), np.isfinite(seen)
    assert residual[17, 0] == 0 and np.mean(residual[known[:, 0], 0] ** 2) == pytest.approx(1.0, abs=1e-2)
    # a straight line cannot be smoother than straight
    np.testing.assert_allclose(np.diff(series.values[:, 1], 2), 0.0, atol=1e-5)
    # nearer to the truth than what was measured
    assert np.sqrt(np.mean((series.values - truth) ** 2)) < 0.05
    # without sigma by generalised cross validation
    free = pdefit.TimeSeries(times, seen[:, 0], "smooth")
    assert free.measured is None and np.sqrt(np.mean((free.values - truth[:, 0]) ** 2)) < 0.05
    assert np.sqrt(np.nanmean((free.values - seen[:, 0]) ** 2)) == pytest.approx(0.1, rel=0.15)


@pytest.mark.parametrize("method", ["linear", "cubic", "smooth"])
def test_fewer_knots_are_a_regression(method):
    times, truth, seen = noisy()
    series = pdefit.TimeSeries(times, seen, method, sigma=0.1, knots=12)
    assert series.values.shape == (12, 2) and series.misfit().shape == seen.shape
    assert np.sqrt(np.mean((np.asarray(jax.jit(jax.vmap(series))(times)) - truth) ** 2)) < 0.04
    if method != "cubic":
        # nothing near has a smaller misfit
        slope = jax.jit(jax.grad(lambda v: jnp.sum(series.with_values(v).misfit() ** 2)))(series.values)
        np.testing.assert_allclose(slope, 0.0, atol=1e-8)


def test_single_precision_keeps_times_and_derivatives_are_right():
    far = pdefit.TimeSeries(1e6 + TIMES / 100, VALUES.astype(np.float32))
    single = pdefit.TimeSeries(far.times, jnp.asarray(VALUES, jnp.float32))
    assert AT(single, 1e6).dtype == jnp.float32
    np.testing.assert_allclose(AT(single, 1e6 + 0.007), AT(far, 1e6 + 0.007), rtol=1e-5)

    @jax.jit
    def total(values):
        return jnp.sum(jax.vmap(far.with_values(values))(far.times[0] + SEEN / 100) ** 3)

    v, eps = np.random.default_rng(2).normal(size=VALUES.shape), 1e-5
    ahead, behind = (total(jnp.asarray(VALUES + s * eps * v)) for s in (1, -1))
    np.testing.assert_allclose(
        np.sum(np.asarray(jax.grad(total)(far.values)) * v), (ahead - behind) / (2 * eps), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"times": [0.0, 1.0], "values": [1.0, 2.0, 3.0]}, r"a value for each of 2 times, but got \(3,\)"),
        ({"times": [0.0, 0.0], "values": [1.0, 2.0]}, "increasing times"),
        ({"times": [0.0, 1.0], "values": [1.0, np.nan]}, "finite values"),
        ({"times": [0.0, 1.0], "values": [1.0, 2.0], "method": "cubik"}, "did you mean cubic"),
        ({"times": [0.0, 1.0], "values": [1.0, 2.0], "method": "smooth"}, "at least 5 values"),
        ({"times": [0.0, 1.0], "values": [1.0, 2.0], "knots": 3}, "take fewer knots"),
        ({"times": [0.0, 1.0], "values": [1.0, 2.0], "sigma": 0.0}, "above 0"),
    ],
)
def test_series_that_cannot_be(arguments, words):
    with pytest.raises(pdefit.PdefitError, match=words):
        pdefit.TimeSeries(**arguments)


def test_inputs_have_names():
    inputs = pdefit.Inputs(left=pdefit.TimeSeries(TIMES, VALUES), loss=2.0)
    assert list(inputs) == ["left", "loss"] and inputs["loss"] is inputs.loss and AT(inputs.left, 0.3).shape == (3,)
    with pytest.raises(AttributeError):
        _ = inputs.right
