import jax
import numpy as np
import pytest
from problems import fisher, planets

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.data.noise import estimate_noise, rounding_step

LEVELS = (0.01, 0.02, 0.05)


@pytest.fixture(scope="module")
def records():
    """Clean records: a front and two planets, at regular and at irregular times."""
    front, (gravity, _) = fisher(), planets()
    random = np.random.default_rng(0)
    regular, years = np.linspace(0.0, 6.0, 25), np.linspace(0.0, 20.0, 101)
    # gaps between a third of the mean and twice the mean
    irregular = np.cumsum(np.concatenate([[0.0], random.uniform(0.08, 0.42, 24)]))
    return {
        "front": (pdefit.simulate(front, front.init(None), regular, dt=0.05), "u"),
        "front, irregular times": (pdefit.simulate(front, front.init(None), irregular, dt=0.05), "u"),
        "planets": (pdefit.simulate(gravity, gravity.init(None), years, dt=0.02), "position"),
    }


def _without(observations, fraction):
    """The same with a fraction of its values missing."""
    random = np.random.default_rng(1)
    values = {
        n: np.where(random.uniform(size=v.shape) < fraction, np.nan, np.asarray(v))
        for n, v in observations.values.items()
    }
    return pdefit.Observations.build(observations.ts, values, observations.sigma)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("record", ["front", "front, irregular times", "planets"])
def test_known_noise_is_recovered(records, record, level, missing):
    clean, name = records[record]
    ratios, errors = [], []
    for seed in range(10):
        noisy = _without(pdefit.add_noise(clean, level, jax.random.key(seed)), missing)
        found = estimate_noise(noisy, name)
        ratios.append(found.sigma / float(np.ravel(noisy.sigma[name])[0]) - 1)
        errors.append(found.error)
        assert found.settled
    assert abs(np.mean(ratios)) < 0.05
    assert np.max(np.abs(ratios)) < 4 * np.max(errors)
    # the stated error is neither a boast nor an excuse
    assert 0.3 < np.std(ratios) / np.mean(errors) < 1.6


@pytest.mark.parametrize("sigma", [1.0, 3.8])
def test_noise_of_whole_counts_is_recovered(sigma):
    """Differences of counts have few values, so their plain median is off by up to a step of these."""
    slow = 100 + 80 * np.sin(np.arange(60) / 20)[:, None]
    counts = np.round(slow + sigma * np.random.default_rng(0).normal(size=(60, 4000)))
    found = estimate_noise(pdefit.Observations.build(np.arange(60.0), {"u": counts}), "u")
    # rounding adds the variance of one count
    assert abs(found.sigma / np.sqrt(sigma**2 + 1 / 12) - 1) < 4 * found.error


def _one(values, ts=None):
    ts = np.arange(len(values), dtype=float) if ts is None else ts
    return pdefit.Observations.build(ts, {"u": values})


def test_a_signal_that_curves_between_frames_asks_for_a_higher_order():
    ts = np.linspace(0.0, 60.0, 400)
    values = np.sin(2 * ts)[:, None] + 0.01 * np.random.default_rng(0).normal(size=(400, 20))
    found = estimate_noise(_one(values, ts), "u")
    second = np.median(np.abs(np.diff(values, 2, axis=0))) / 0.6745 / np.sqrt(6)
    assert second > 2 * 0.01
    assert found.order > 3 and found.settled and found.sigma == pytest.approx(0.01, rel=0.05)


def test_a_signal_that_no_order_can_follow_is_admitted():
    ts = np.linspace(0.0, 60.0, 60)
    found = estimate_noise(
        _one(np.sin(2 * ts)[:, None] + 1e-3 * np.random.default_rng(0).normal(size=(60, 20)), ts), "u"
    )
    assert not found.settled


@pytest.mark.parametrize(("frames", "left"), [(8, 1.1e-3), (3, 0.75)])
def test_what_is_left_of_a_fast_signal(frames, left):
    phases = np.linspace(0.0, 6.0, 20)
    found = estimate_noise(_one(np.sin(2 * np.pi * np.arange(400.0)[:, None] / frames + phases)), "u")
    assert found.sigma == pytest.approx(left, rel=0.05) and not found.settled


def test_outliers_do_not_count():
    random = np.random.default_rng(0)
    values = 0.1 * random.normal(size=(60, 50))
    values[random.uniform(size=values.shape) < 0.01] += 100.0
    assert estimate_noise(_one(values), "u").sigma == pytest.approx(0.1, rel=0.08)


def test_frames_that_are_always_missing_at_a_point_are_no_obstacle():
    values = 0.1 * np.random.default_rng(0).normal(size=(60, 50))
    values[::2, :25] = values[1::2, 25:] = np.nan
    assert estimate_noise(_one(values), "u").sigma == pytest.approx(0.1, rel=0.08)


def test_a_large_film_is_thinned():
    values = np.float32(0.1) * np.random.default_rng(0).normal(size=(3, 1_000_000)).astype(np.float32)
    found = estimate_noise(_one(values), "u")
    assert found.count == 500_000 and found.sigma == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            np.random.default_rng(0).normal(size=(2, 100)),
            ("'u'", "2 frames", "leave sigma out, so that residuals decide it, or give a number"),
        ),
        (np.random.default_rng(0).normal(size=21), ("'u'", "fewer than 20")),
        (np.ones((50, 3)), ("'u'", "exactly zero", "leave sigma out")),
        (1e308 * (-1.0) ** np.arange(50)[:, None] * np.ones((50, 3)), ("'u'", "too large")),
        (np.round(0.3 * np.random.default_rng(0).normal(size=(50, 30))), ("'u'", "rounded")),
    ],
)
def test_what_cannot_be_estimated_is_one_sentence(values, words):
    with pytest.raises(PdefitError) as error:
        estimate_noise(_one(values), "u")
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("values", "step", "words"),
    [
        (lambda x: x, 0.0, ""),
        (lambda x: x.astype(np.float32).astype(float), 1.2e-7, "float32"),
        (lambda x: np.round(x, 4), 1e-4, "digits"),
        # significant digits, as a text file has them
        (lambda x: np.asarray([float(f"{a:.6g}") for a in x]), None, "6 digits"),
        (lambda x: np.round(1000 * x), 1.0, "digits"),
        (lambda x: np.where(x > 0.5, 1.0, 2.0), 0.0, ""),
    ],
)
def test_the_step_between_rounded_numbers(values, step, words):
    found, said = rounding_step(values(np.random.default_rng(0).uniform(0.01, 1.7, 500)))
    assert words in said and (step is None or found == pytest.approx(step, rel=0.3))
