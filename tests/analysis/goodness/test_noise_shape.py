"""Noise that is not as stated, told from the sizes of residuals."""

import numpy as np
import pytest

from pdefit.analysis.goodness.noise_shape import noise_shapes
from pdefit.analysis.goodness.structure import ResidualFilm

SIGNAL = np.linspace(0.0, 1.0, 100)[None] * np.ones((30, 1))


def shapes(factor, seed=0):
    residuals = np.random.default_rng(seed).normal(size=SIGNAL.shape) * factor
    return list(noise_shapes(ResidualFilm("u", ("time", "x"), residuals, SIGNAL, np.zeros((0, *SIGNAL.shape)))))


def frame(k, factor):
    return np.where(np.arange(30) == k, factor, 1.0)[:, None]


@pytest.mark.parametrize(
    ("factor", "kind", "words"),
    [
        (frame(17, 3.0), "frame", "in frame 17 (the first is 0) are 3"),
        (frame(0, 3.0), "stiff", "the initial state does not follow it"),
        (frame(0, 0.2), "start", "the initial state follows its noise"),
        (0.3 + 2 * SIGNAL, "signal", "noise grows with the signal"),
    ],
)
def test_each_shape_is_named(factor, kind, words):
    (shape,) = shapes(factor)
    assert shape.kind == kind and words in shape.words and shape.remedy


def test_independent_noise_has_no_shape():
    assert [shape for seed in range(50) for shape in shapes(1.0, seed)] == []
    # nor has one that varies a little
    assert shapes(frame(17, 1.3)) == shapes(0.9 + 0.2 * SIGNAL) == []


def test_frames_without_values_and_records_that_are_too_short():
    empty = np.full((3, 5), np.nan)
    assert list(noise_shapes(ResidualFilm("u", ("time", "x"), empty, empty, np.zeros((0, 3, 5))))) == []
    residuals = np.random.default_rng(0).normal(size=SIGNAL.shape)
    residuals[4] = np.nan
    film = ResidualFilm("u", ("time", "x"), residuals, SIGNAL, np.zeros((0, *SIGNAL.shape)))
    assert list(noise_shapes(film)) == []
