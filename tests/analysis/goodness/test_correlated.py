"""Standard errors of correlated residuals against those of many records."""

import numpy as np
import pytest

from pdefit.analysis.goodness.correlated import correlated
from pdefit.analysis.goodness.structure import ResidualFilm

T, X = 60, 40
TIMES, PLACES = np.linspace(0, 1, T)[:, None], np.linspace(0, 1, X)[None]
INFLUENCES = np.stack([np.exp(-(((PLACES - TIMES) / 0.2) ** 2)), np.sin(6 * TIMES) * np.cos(5 * PLACES)])


def record(random, memory):
    noise = random.normal(size=(T, X))
    for k in range(1, T):
        noise[k] = memory * noise[k - 1] + np.sqrt(1 - memory**2) * noise[k]
    return noise


@pytest.mark.parametrize(("memory", "factor"), [(0.0, 1.0), (0.6, 2.0)])
def test_errors_of_noise_with_a_memory(memory, factor):
    """Of an AR(1) process with 0.6 a slow mean has an error sqrt(1.6 / 0.4) = 2 times as large."""
    random = np.random.default_rng(0)
    found, errors = [], []
    for _ in range(60):
        noise = record(random, memory)
        found.append(correlated([ResidualFilm("u", ("time", "x"), noise, noise, INFLUENCES)]))
        errors.append(np.sum(INFLUENCES * noise, axis=(1, 2)) / np.sqrt(np.sum(INFLUENCES**2, axis=(1, 2))))
    estimated = np.sqrt(np.mean([f.factors**2 for f in found], axis=0))
    np.testing.assert_allclose(estimated, np.sqrt(np.mean(np.square(errors), axis=0)), rtol=0.25)
    np.testing.assert_allclose(estimated, factor, rtol=0.12)
    effective = np.mean([f.effective_values for f in found])
    assert effective == pytest.approx(T * X / factor**2, rel=0.25)


def test_gaps_do_not_count():
    random = np.random.default_rng(0)
    noise = record(random, 0.6)
    gaps = np.where(random.uniform(size=noise.shape) > 0.3, noise, np.nan)
    whole, part = (correlated([ResidualFilm("u", ("time", "x"), r, noise, INFLUENCES)]) for r in (noise, gaps))
    # fewer neighbours are left, and their correlation is the same
    np.testing.assert_allclose(part.factors, np.sqrt(1 + 0.7 * (whole.factors**2 - 1)), rtol=0.12)


def test_without_influences_there_is_nothing_to_tell():
    assert correlated([]) is None
    noise = np.ones((3, 4))
    assert correlated([ResidualFilm("u", ("time", "x"), noise, noise, np.zeros((0, 3, 4)))]) is None
