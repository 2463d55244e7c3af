"""Noise that is not as stated, told from the sizes of residuals."""

import numpy as np
import pytest

from pdefit.analysis.goodness.noise_shape import Setting, noise_shapes
from pdefit.analysis.goodness.structure import ResidualFilm

SIGNAL = np.linspace(0.0, 1.0, 100)[None] * np.ones((30, 1))
SETTING = Setting(4.0 * np.arange(30), "s")


def shapes(factor, seed=0, setting=SETTING, signal=SIGNAL):
    residuals = np.random.default_rng(seed).normal(size=signal.shape) * factor
    film = ResidualFilm("u", ("time", "x"), residuals, signal, np.zeros((0, *signal.shape)))
    return list(noise_shapes(film, setting))


def frame(k, factor):
    return np.where(np.isin(np.arange(30), k), factor, 1.0)[:, None]


@pytest.mark.parametrize(
    ("factor", "kind", "words"),
    [
        (frame(17, 3.0), "frame", "in frame 17 (the first is 0) are 3"),
        (frame([5, 17], 3.0), "frame", "in frame 5, 17 (the first is 0) are 3"),
        (frame(0, 3.0), "stiff", "the initial state does not follow it"),
        (frame(0, 0.2), "start", "the initial state follows its noise"),
        (0.3 + 2 * SIGNAL, "signal", "noise grows with the signal"),
        (frame([16, 17], 3.0), "event", "near t = 66 s are 3"),
        (frame([16, 17], 3.0) * (0.3 + 2 * SIGNAL), "signal", "noise grows with the signal"),
    ],
)
def test_each_shape_is_named(factor, kind, words):
    (shape,) = shapes(factor)
    assert shape.kind == kind and words in shape.words and shape.remedy
    assert ("holdout" in shape.remedy) == (kind == "frame")


def test_loud_frames_beside_each_other_are_no_outliers():
    """Those of a jump of an input, between knots 5 frames apart: 71, 74, 75 and 79 stand out, others by less."""
    frames = np.arange(151)
    signal = np.repeat(1 - np.abs(frames - 75.0) / 75, 5).reshape(-1, 5)
    factor = np.where((frames > 70) & (frames < 80), 2.0, 1.0) + 4.0 * np.isin(frames, [71, 74, 75, 79])
    setting = Setting(4.0 * frames, "s", ("args.q.values",))
    (shape,) = shapes(factor[:, None], setting=setting, signal=signal)
    assert shape.kind == "event" and shape.remedy == "give args.q.values more knots near t = 300 s, and compare"
    (shape,) = shapes(factor[:, None], setting=setting._replace(courses=()), signal=signal)
    assert shape.remedy.startswith("look for an event in the system near t = 300 s")


def test_a_loud_frame_under_an_unknown_function_of_time_asks_for_knots():
    (shape,) = shapes(frame(17, 3.0), setting=SETTING._replace(courses=("q",)))
    assert shape.kind == "event" and "give q more knots near t = 68 s" in shape.remedy


def test_loud_frames_beside_each_other_are_no_event_where_no_frame_is_fitted():
    # a wrong minimum misses some frames more than others
    far = 3.0 * frame([16, 17], 3.0)
    assert shapes(far) == []
    (shape,) = shapes(far, setting=SETTING._replace(sigma_known=False))
    assert shape.kind == "event"


def test_a_free_initial_state_is_not_freed_again():
    (held,), (free,) = (shapes(frame(0, 3.0), setting=SETTING._replace(start_is_free=x)) for x in (False, True))
    assert held.remedy.startswith("free the initial state, or") and free.remedy.startswith(
        "loosen the prior of the initial state"
    )


def test_independent_noise_has_no_shape():
    assert [shape for seed in range(50) for shape in shapes(1.0, seed)] == []
    # nor has one that varies a little
    assert shapes(frame(17, 1.3)) == shapes(0.9 + 0.2 * SIGNAL) == []


def test_frames_without_values_and_records_that_are_too_short():
    empty = np.full((3, 5), np.nan)
    assert list(noise_shapes(ResidualFilm("u", ("time", "x"), empty, empty, np.zeros((0, 3, 5))), SETTING)) == []
    residuals = np.random.default_rng(0).normal(size=SIGNAL.shape)
    residuals[4] = np.nan
    film = ResidualFilm("u", ("time", "x"), residuals, SIGNAL, np.zeros((0, *SIGNAL.shape)))
    assert list(noise_shapes(film, SETTING)) == []
