"""Vectors from pairs of images."""

import sys

import numpy as np
import pytest
import scipy.ndimage

from pdefit._util.errors import PdefitError
from pdefit.data.importers.image_pairs import image_pairs

OPTIONS = {"pairs": "true", "windows": "[32,16]", "pixel": "1mm", "frame": "2s"}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Four images of a pattern that moves by 2.25 pixels to the right and 1.5 upward, in part without contrast."""
    pattern = scipy.ndimage.gaussian_filter(np.random.default_rng(1).normal(size=(96, 128)), 1.5, mode="wrap")
    pattern = (pattern - pattern.min()) / np.ptp(pattern)
    moved = [scipy.ndimage.shift(pattern, (-1.5 * k, 2.25 * k), order=5, mode="grid-wrap") for k in range(4)]
    stack = np.stack(moved)
    stack[:, 64:, :32] = 0.5
    path = tmp_path_factory.mktemp("pairs") / "images.npy"
    np.save(path, stack)
    return path


def test_openpiv_is_named_where_it_is_absent(images, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpiv", None)
    with pytest.raises(PdefitError, match=r"pip install \"pdefit\[piv\]\""):
        image_pairs([images], dict(OPTIONS))


@pytest.mark.parametrize("pairs, times", [("true", [1, 3, 5]), ("double", [0.5, 2.5])])
def test_a_shift_is_found(pairs, times, images):
    pytest.importorskip("openpiv")
    delay = 2.0 if pairs == "true" else 1.0
    recording = image_pairs([images], {**OPTIONS, "pairs": pairs, "delay": f"{delay}s"})
    np.testing.assert_allclose(recording.axes["time"][0], times)
    assert recording.units == {"u": "m/s", "v": "m/s"}
    frames = list(recording.frames)
    assert len(frames) == len(times)
    for frame in frames:
        assert np.nanmedian(frame["u"]) == pytest.approx(2.25e-3 / delay, rel=0.05)
        assert np.nanmedian(frame["v"]) == pytest.approx(1.5e-3 / delay, rel=0.05)
        # the lower left corner shows nothing that moves
        flat = frame["u"][np.ix_(recording.axes["x"][0] < 24e-3, recording.axes["y"][0] < 24e-3)]
        assert flat.size and np.isnan(flat).all()
        assert np.isfinite(frame["u"][6:, 5:]).mean() > 0.7


def test_wrong_options_are_refused(images):
    pytest.importorskip("openpiv")
    for options in ({"windows": "[64,32,3]"}, {"windows": "[512]"}, {"pairs": "maybe"}, {"frames": "0"}, {"mask": "a"}):
        with pytest.raises(PdefitError):
            image_pairs([images], OPTIONS | options)
