"""A film that is read while it is used: what is checked when, and what stays in memory."""

import re
import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import TargetFile
from pdefit.data.readers.source import source_of
from pdefit.data.readers.variable import Variable


def _film(path: Path, **changes: Any) -> Path:
    content = {"time": np.arange(6.0), "height": np.ones((6, 3)), "error": np.full((6, 3), 0.1)} | changes
    with h5py.File(path, "w") as file:
        for name, value in content.items():
            file[name] = value
        file["height"].attrs["units"] = "mm"
    return path


def _threads() -> int:
    return sum(thread.name.startswith("targets") for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("changes", "arguments", "words"),
    [
        ({"time": np.asarray([0.0, 1.0, 2.0, 3.0, 4.0, 4.0])}, {}, "increase"),
        ({"height": np.ones((5, 3))}, {}, "6 times"),
        ({"height": np.ones((6, 3), complex)}, {}, "complex"),
        ({"height": np.asarray([b"a"] * 6)}, {}, "text"),
        ({}, {"units": {"u": "s"}}, "expects s"),
        ({}, {"variables": {"u": "heigth"}}, "did you mean height"),
        ({}, {"sigma": {"u": "eror"}}, "eror"),
        ({"error": np.ones((6, 2))}, {"sigma": {"u": "error"}}, "does not fit"),
        ({"error": np.ones((5, 3))}, {"sigma": {"u": "error"}}, "does not fit"),
        ({"error": np.ones((2, 6, 3))}, {"sigma": {"u": "error"}}, "does not fit"),
        ({"error": np.asarray([b"a"] * 6)}, {"sigma": {"u": "error"}}, "text"),
        ({}, {"start": 5.0}, "1 frames"),
    ],
)
def test_what_can_be_told_without_values_is_told_at_opening(tmp_path, changes, arguments, words):
    path = _film(tmp_path / "x.h5", **changes)
    with pytest.raises(PdefitError, match=words):
        Frames(*source_of(path, **({"variables": {"u": "height"}} | arguments)))
    # and the file is closed again
    path.rename(tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5", "a"):
        pass


def test_opening_reads_no_values(tmp_path, monkeypatch):
    path = _film(tmp_path / "x.h5")
    read = []

    def spy(variable, frames=None, count=None):
        read.append((variable.name, frames))
        return array(variable, frames, count)

    array = Variable.array
    monkeypatch.setattr(Variable, "array", spy)
    with TargetFile(Frames(*source_of(path, {"u": "height"}, start=1.0))) as source:
        assert read == [("time", None), ("height", slice(0, 0))]
        source.read(2, 4)
        assert read[2:] == [("height", slice(3, 5))]


def test_a_bad_sigma_is_told_when_its_frame_is_read(tmp_path):
    error = np.full((6, 3), 0.1)
    error[4, 1] = 0.0
    path = _film(tmp_path / "x.h5", error=error)
    with TargetFile(Frames(*source_of(path, {"u": "height"}, sigma={"u": "error"}))) as source:
        assert source.read(0, 4).sigma["u"].shape == (4, 3)
        source.prefetch(3, 6)
        with pytest.raises(PdefitError, match="positive"):
            source.read(3, 6)
        # a failure is no reason to stop: the caller may ask for other frames
        assert source.read(0, 1).ts.tolist() == [0.0]


def test_one_slice_is_read_ahead_and_only_once(tmp_path, monkeypatch):
    path = _film(tmp_path / "x.h5")
    read = []
    arrays = Frames.arrays
    monkeypatch.setattr(Frames, "arrays", lambda self, a, b: (read.append((a, b)), arrays(self, a, b))[1])
    with TargetFile(Frames(*source_of(path, {"u": "height"}))) as source:
        source.prefetch(0, 2)
        source.prefetch(0, 2)
        source.read(0, 2)
        assert read == [(0, 2)] and _threads() == 1
        gate = threading.Event()
        source._worker.submit(gate.wait)
        try:
            for first in range(5):
                source.prefetch(first, first + 1)
        finally:
            gate.set()
        source.read(4, 5)
        assert read == [(0, 2), (4, 5)]
    assert _threads() == 0


def test_frames_larger_than_memory_are_read_in_parts(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["time"] = np.arange(10.0**5)
        # 800 TB on paper, nothing on disk
        file.create_dataset("u", (10**5, 10**5, 10**4), np.float64, chunks=(1, 100, 100), fillvalue=1.0)
        file.create_dataset("v", (10**5, 1000), np.float32, chunks=(1, 1000), fillvalue=2.0)
    with TargetFile(Frames(*source_of(tmp_path / "x.h5", {"v": "v"}))) as source:
        assert float(source.read(500, 510).values["v"].sum()) == 20000.0
    with TargetFile(Frames(*source_of(tmp_path / "x.h5", {"u": "u"}))) as source:
        with pytest.raises(PdefitError, match=r"shape \(100, 100000, 10000\)"):
            source.read(0, 100)


def test_a_damaged_frame_is_told_when_it_is_read(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["time"] = np.arange(6.0)
        height = file.create_dataset("height", data=np.ones((6, 3000)), chunks=(1, 3000), compression="gzip")
        damaged = height.id.get_chunk_info(5)
    with open(path, "rb+") as raw:
        raw.seek(damaged.byte_offset)
        raw.write(b"!" * damaged.size)
    with TargetFile(Frames(*source_of(path, {"u": "height"}))) as source:
        assert source.read(0, 5).ts.size == 5
        source.prefetch(4, 6)
        with pytest.raises(PdefitError, match="'height' in 'x.h5' cannot be read; the file is damaged"):
            source.read(4, 6)


def test_a_table_of_many_recordings_comes_with_the_lines_that_read_it(tmp_path):
    """Three subjects whose times begin anew: their number tells them apart, and neither a dose nor a weight does."""
    rows = [(s, 4.0 + s % 2, 70.5 + s, t, np.exp(-t)) for s in (1, 2, 3) for t in (0.0, 0.5, 1.0)]
    path = tmp_path / "all.csv"
    path.write_text("Subject,Dose,Wt,Time,conc\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    told = "is 0, after 1; if Subject tells recordings apart, set data.long={time: Time, recording: Subject}"
    with pytest.raises(PdefitError, match=re.escape(told)):
        Frames(*source_of(path, {"C": "conc"}, time="Time"))
