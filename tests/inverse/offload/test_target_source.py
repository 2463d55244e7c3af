"""Observations a few frames at a time: from memory and from a file they are the same, bit for bit."""

from pathlib import Path

import h5py
import jax
import numpy as np
import pytest

from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import TargetFile, read_observations
from pdefit.data.readers.source import source_of
from pdefit.inverse.offload.stores import InMemory

_COUNT = 12


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """Heights in mm with holes, one frame that is missing, and sigmas of every kind."""
    generator = np.random.default_rng(0)
    height = generator.normal(size=(_COUNT, 4, 3)).astype(np.float32)
    height[generator.random(height.shape) < 0.2] = np.nan
    height[5] = np.nan
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["time"] = np.arange(_COUNT) + 0.1 * generator.random(_COUNT)
        file["height"], file["depth"] = height, generator.normal(size=_COUNT)
        file["row"] = np.linspace(0.1, 0.4, 4)
        file["frame"] = 0.1 + generator.random((4, 3))
        file["each"] = 0.1 + generator.random((_COUNT, 4, 3))
        file["by_time"] = 0.1 + generator.random((_COUNT, 1, 1))
        file["depth_error"] = 0.1 + generator.random(_COUNT)
        for name in ("height", "depth"):
            file[name].attrs["units"] = "mm"
    return tmp_path / "x.h5"


_HOW = {"units": {"h": "um", "d": "m"}, "start": 1.5, "stop": 10.5}
_SIGMAS = [
    {},
    {"h": 0.5, "d": 0.1},
    {"h": "row"},
    {"h": "frame", "d": "depth_error"},
    {"h": "each"},
    {"h": "by_time"},
]


@pytest.mark.parametrize("sigma", _SIGMAS)
def test_slices_are_those_of_the_whole_film(film, sigma):
    variables = {"h": "height", "d": "depth"}
    whole = read_observations(film, variables, sigma=sigma, **_HOW)
    # a film is read from its first frame on, also where the record begins earlier
    memory = InMemory(whole.from_first_frame)
    generator = np.random.default_rng(1)
    with TargetFile(Frames(*source_of(film, variables, sigma=sigma, **_HOW))) as source:
        np.testing.assert_array_equal(source.ts, memory.ts)
        assert source.ts.size == 9
        for _ in range(60):
            first = int(generator.integers(0, 9))
            last = int(generator.integers(first + 1, 10))
            if generator.random() < 0.7:
                hint = (first, last) if generator.random() < 0.5 else (0, 3)
                source.prefetch(*hint)
                memory.prefetch(*hint)
            a, b = source.read(first, last), memory.read(first, last)
            assert jax.tree.structure(a) == jax.tree.structure(b)
            for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
                assert x.shape == y.shape and x.dtype == y.dtype
                np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("first", "last"), [(-1, 2), (3, 3), (4, 3), (0, 13)])
def test_frames_that_do_not_exist_are_refused(film, first, last):
    with TargetFile(Frames(*source_of(film, {"h": "height"}))) as source:
        for each in (source, InMemory(read_observations(film, {"h": "height"}))):
            with pytest.raises(IndexError, match="below 12"):
                each.read(first, last)
        assert source.read(0, 2).ts.size == 2


def test_a_slice_without_any_value_is_masked(film):
    with TargetFile(Frames(*source_of(film, {"h": "height"}))) as source:
        seen = source.read(5, 6)
    assert not np.any(seen.mask["h"]) and not np.any(seen.values["h"])
