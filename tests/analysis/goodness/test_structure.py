"""Tests for smooth structure: silent on noise of any size, and sure of a misfit far below the noise of one value."""

import numpy as np
import pytest

from pdefit.analysis.goodness.noise_shape import offsets
from pdefit.analysis.goodness.structure import ResidualFilm, structures, told_from

T, X = 20, 48
TIMES, PLACES = np.linspace(0.0, 2.0, T)[:, None], np.linspace(-3.0, 3.0, X)[None]
FRONT = 1 / (1 + np.exp(4 * (PLACES - TIMES)))


def film(residuals, dims=("time", "x"), predicted=FRONT, directions=()):
    stacked = np.reshape(np.asarray(directions), (len(directions), *residuals.shape))
    return ResidualFilm("u", dims, residuals, predicted, stacked)


def largest(*args, **options):
    return max(structures(film(*args, **options)), key=lambda s: s.excess)


@pytest.mark.parametrize(
    ("dims", "noise"),
    [
        (("time", "x"), lambda random: random.normal(size=(T, X))),
        # unequal sizes, rare large values, a fifth missing
        (("time", "x"), lambda random: random.normal(size=(T, X)) * np.linspace(0.1, 3.0, X)),
        (("time", "x"), lambda random: random.standard_t(3, size=(T, X))),
        (("time", "x"), lambda random: np.where(random.uniform(size=(T, X)) > 0.2, random.normal(size=(T, X)), np.nan)),
        (("time",), lambda random: random.normal(size=(T, X))),
    ],
)
def test_noise_has_no_structure(dims, noise):
    random = np.random.default_rng(0)
    excess = np.asarray([[s.excess for s in structures(film(noise(random), dims))] for _ in range(60)])
    assert np.max(excess) < 4
    # each test is a standard normal variable, on the side of noise where values are far from normal
    assert np.all(np.abs(excess.mean(axis=0)) < 0.6) and np.all(excess.std(axis=0) < 1.4)


@pytest.mark.parametrize(
    ("misfit", "where"),
    [
        # a front that is late by a quarter of a cell, and a growth that is too fast
        (6.0 * np.gradient(FRONT, axis=1), "its slope"),
        (0.4 * FRONT, "along u"),
        (np.where((TIMES > 1) & (PLACES > 1.0), 0.8, 0.0), "points along x"),
        # every frame, and every place, has an offset of its own
        (0.5 * np.random.default_rng(1).normal(size=(T, 1)) + 0 * FRONT, "every frame"),
        (0.6 * np.random.default_rng(1).normal(size=(1, X)) + 0 * FRONT, "at every place"),
    ],
)
def test_a_misfit_below_the_noise_is_seen_where_it_is(misfit, where):
    found = largest(np.random.default_rng(0).normal(size=(T, X)) + misfit)
    assert found.excess > 5 and where in found.where
    assert found.size == pytest.approx(np.sqrt(np.mean(misfit**2)), rel=0.5)


@pytest.mark.parametrize("frames", [T, 3, 1])
def test_a_pattern_that_stands_still_shows_in_several_frames(frames):
    """In one frame an offset for each place is any misfit there is."""
    places = np.linspace(0.0, 12.0, 300)
    residuals = np.random.default_rng(0).normal(size=(frames, 300)) + 3.0 * np.sin(places)
    one = film(residuals, predicted=np.ones((frames, 1)) * np.exp(-places))
    assert any(s.excess > 5 for s in structures(one))
    told = [shape.remedy for shape in offsets(one, structures(one))]
    assert told == (["subtract a dark frame, or fit a field of sources, and compare"] if frames == T else [])


def test_a_first_frame_that_a_free_state_follows_is_no_misfit():
    """Its residuals are small and smooth: what noise left of them where later frames decide."""
    random, seen = np.random.default_rng(0), []
    for _ in range(20):
        residuals = random.normal(size=(T, X))
        residuals[0] = 0.1 * np.sin(np.linspace(0.0, 12.0, X))
        seen += [s for s in structures(film(residuals)) if s.where.startswith("averaged")]
    # patches along x stand out by their own size, and are nothing beside sigma
    assert all(s.excess <= 0 for s in seen if s.size == 0)
    assert any(s.excess == 0 for s in seen)


def test_what_fitted_numbers_explain_is_no_structure():
    """The change of a fitted number is in every footprint, and hides what is beside it."""
    random = np.random.default_rng(0)
    slope = np.gradient(FRONT, axis=1)
    change = slope / np.linalg.norm(slope)
    noise = random.normal(size=(T, X))
    noise -= np.sum(noise * change) * change
    later = TIMES * change - np.sum(TIMES * change**2) * change
    later *= 6 / np.linalg.norm(later)
    beside = {s.where: s.excess for s in structures(film(noise + later, directions=[change]))}
    without = {s.where: s.excess for s in structures(film(noise + later))}
    assert beside["along its slope in x"] > without["along its slope in x"] > 0
    alone = {s.where: s.excess for s in structures(film(noise + 20 * change, directions=[change]))}
    assert (
        alone["along its slope in x"]
        < 4
        < {s.where: s.excess for s in structures(film(noise + 20 * change))}["along its slope in x"]
    )


def test_columns_without_neighbours_are_looked_at_one_by_one():
    random = np.random.default_rng(0)
    residuals, predicted = random.normal(size=(200, 3)), np.cos(np.linspace(0, 9, 200))[:, None] * np.ones(3)
    residuals[:, 2] += 0.5 * predicted[:, 2]
    found = largest(residuals, ("time",), predicted)
    assert found.variable == "u[2]" and found.where == "along u" and found.excess > 4


@pytest.mark.parametrize("shape", [(2, 3), (1, 40), (40, 1)])
def test_a_few_values_are_no_error(shape):
    residuals = np.random.default_rng(0).normal(size=shape)
    assert all(np.isfinite(s.excess) for s in structures(film(residuals, predicted=residuals)))
    assert list(structures(film(np.zeros(shape), predicted=residuals))) == []


@pytest.mark.parametrize("values", [40, 90])
def test_few_values_tell_a_constant_misfit_as_stated(values):
    random, size = np.random.default_rng(0), told_from(values)
    flat = np.ones(values)

    def told(misfit):
        noise = random.normal(size=(40, values)) + misfit
        return np.mean([largest(r, ("time",), flat).excess > 4 for r in noise])

    assert told(size) > 0.6 and told(size / 2) < 0.1
    assert told_from(10_000) < 0.06 and told_from(16) == np.inf
