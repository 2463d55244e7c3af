"""Recordings and their files."""

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.importers.options import scale_of
from pdefit.data.importers.recording import Recording, write_recording
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.source import source_of

AXES = {"time": (np.arange(2.0), "s"), "x": (np.arange(3.0), "m"), "y": (np.arange(2.0), "m")}


def _recording(frames) -> Recording:
    return Recording(AXES, {"u": "m/s"}, frames, ["A note."], ["a.txt"], "Measured frames")


def test_a_recording_is_read_as_it_was_written(tmp_path):
    values = np.arange(12.0).reshape(2, 3, 2)
    values[1, 2, 0] = np.nan
    assert write_recording(tmp_path / "data.h5", _recording({"u": v} for v in values)) == 1 / 12
    with Frames(*source_of(tmp_path / "data.h5", {"u": "u"}, units={"u": "mm/s"}, dims=["x", "y"])) as frames:
        np.testing.assert_array_equal(frames.arrays(0, 2)[0]["u"], 1000 * values)
    with h5py.File(tmp_path / "data.h5") as file:
        assert file.attrs["import_notes"] == "A note." and file.attrs["source"] == "a.txt"
        assert file["u"].chunks == (1, 3, 2) and file["u"].dtype == "f4"


@pytest.mark.parametrize("shapes", [[(3, 2)], [(3, 2)] * 3, [(3, 2), (2, 3)]])
def test_frames_that_do_not_fit_leave_nothing(shapes, tmp_path):
    with pytest.raises(PdefitError, match="2 frames of shape"):
        write_recording(tmp_path / "data.h5", _recording({"u": np.zeros(s)} for s in shapes))
    assert not list(tmp_path.iterdir())


def test_what_killed_imports_left_is_removed_and_files_in_work_are_not(tmp_path):
    for suffix in ("h5", "nc"):
        (tmp_path / f".old.partial.{suffix}").write_bytes(b"half")
        with h5py.File(tmp_path / f".other.partial.{suffix}", "w"):
            write_recording(tmp_path / f"data.{suffix}", _recording([{"u": np.zeros((3, 2))}] * 2))
            assert sorted(p.name for p in tmp_path.glob(f"*.{suffix}")) == [
                f".other.partial.{suffix}",
                f"data.{suffix}",
            ]


def test_a_scale_converts_pixels_and_frames():
    scale = scale_of({"pixel": "20um", "frame": "2ms", "delay": "100 us"})
    assert scale.length("px") == (pytest.approx(20e-6), "m") and scale.time("frame") == (pytest.approx(2e-3), "s")
    assert scale.velocity("px/frame") == (pytest.approx(0.2), "m/s")
    assert scale.velocity("pixel s-1")[0] == pytest.approx(20e-6) and scale.velocity("mm/s")[0] == pytest.approx(1e-3)
    assert scale_of({"scale": "unknown"}).velocity("pixel/frame") == (1.0, "pixel/frame")


@pytest.mark.parametrize(
    "options",
    [
        {"pixel": "20"},
        {"pixel": "0um"},
        {"frame": "1..2ms"},
        {"frame": "2um"},
        {"scale": "2"},
        {"scale": "unknown", "frame": "1s"},
    ],
)
def test_wrong_scales_are_refused(options):
    with pytest.raises(PdefitError):
        scale_of(options)


def test_pixels_without_a_scale_name_the_keys():
    with pytest.raises(PdefitError, match="pixel=LENGTH.*frame=TIME.*scale=unknown"):
        scale_of({}).length("px")


def test_a_time_in_metres_is_refused_with_what_it_may_mean():
    with pytest.raises(PdefitError, match="frame=2m is a length in metres; write 2min for minutes, or 2ms"):
        scale_of({"pixel": "1um", "frame": "2m"})
    assert scale_of({"pixel": "2m", "frame": "2min"}).frame == 120.0
