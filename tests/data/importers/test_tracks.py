"""Tracks of particles."""

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.importers.recording import write_recording
from pdefit.data.importers.tracks import tracks

# experiment, frame, track, x, y: two tracks at the left, one at the right with a gap
ROWS = [
    ("a", 0, 1, 0.0, 0.0), ("a", 1, 1, 1.0, 2.0), ("a", 2, 1, 2.0, 2.0),
    ("a", 0, 2, 1.0, 1.0), ("a", 1, 2, 4.0, 1.0),
    ("a", 0, 3, 9.0, 1.0), ("a", 2, 3, 10.0, 4.0), ("a", 3, 3, 10.0, 4.0),
]  # fmt: skip


def _csv(rows: list[tuple]) -> str:
    return "Frame, TRACK,x,Y,experiment\n" + "".join(f"{f},{k},{x},{y},{e}\n" for e, f, k, x, y in rows)


def _imported(folder, text: str, **options: str) -> dict[str, np.ndarray]:
    (folder / "tracks.csv").write_text(text)
    recording = tracks([folder / "tracks.csv"], options)
    write_recording(folder / "data.h5", recording)
    with h5py.File(folder / "data.h5") as file:
        units = {name: stored.attrs["units"] for name, stored in file.items()}
        return {name: stored[()] for name, stored in file.items()} | {
            "units": units,
            "notes": file.attrs["import_notes"],
        }


def test_velocities_are_means_over_bins(tmp_path):
    found = _imported(tmp_path, _csv(ROWS), pixel="1m", frame="2s", bins="[2,1]", box="[0,10,0,4]")
    np.testing.assert_array_equal(found["time"], [1.0, 3.0, 5.0])
    np.testing.assert_array_equal(found["x"], [2.5, 7.5])
    # in the first frame (1, 2) and (3, 0) metres in two seconds; single vectors are missing
    np.testing.assert_array_equal(found["u"][:, :, 0], [[1.0, np.nan], [np.nan, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(found["count"][:, :, 0], [[2, 0], [1, 0], [0, 1]])
    # squares 2 * 0.5^2 over one degree of freedom, then over two vectors
    np.testing.assert_allclose(found["u_sigma"][0, 0, 0], np.sqrt(0.5 / 2))
    np.testing.assert_allclose(found["v_sigma"][0, 0, 0], np.sqrt(0.5 / 2))
    assert found["units"]["u_sigma"] == "m/s" and found["units"]["count"] == "1" and "pooled" in found["notes"]


def test_vectors_at_points(tmp_path):
    found = _imported(tmp_path, _csv(ROWS), scale="unknown", **{"as": "positions"})
    np.testing.assert_array_equal(found["x"], [[0.5, 2.5], [1.5, np.nan], [10.0, np.nan]])
    np.testing.assert_array_equal(found["v"], [[2.0, 0.0], [0.0, np.nan], [0.0, np.nan]])
    assert found["units"]["x"] == "pixel" and found["units"]["v"] == "pixel/frame"


def test_a_file_of_trackmate_states_its_units(tmp_path):
    header = (
        "LABEL,ID,TRACK_ID,QUALITY,POSITION_X,POSITION_Y,POSITION_Z,POSITION_T,FRAME\n"
        "Label,Spot ID,Track ID,Quality,X,Y,Z,T,Frame\n"
        "Label,Spot ID,Track ID,Quality,X,Y,Z,T,Frame\n"
        ",,,(quality),(micron),(micron),(micron),(sec),\n"
    )
    rows = "".join(f"ID{f},{f},{k},5,{x},{y},0.0,{f / 4},{f}\n" for _, f, k, x, y in ROWS) + "ID9,9,,5,1,1,0,0.5,2\n"
    found = _imported(tmp_path, header + rows, **{"as": "positions"})
    np.testing.assert_allclose(found["time"], [0.125, 0.375, 0.625])
    np.testing.assert_allclose(found["u"][0], [4e-6, 12e-6], rtol=1e-6)
    # y of an image runs down
    np.testing.assert_allclose(found["v"][0], [-8e-6, 0.0], rtol=1e-6)
    assert found["units"]["u"] == "m/s"


def test_three_dimensions(tmp_path):
    text = "track,frame,x,y,z\n" + "".join(f"{k},{f},{k % 2},{k // 2},{k + f}\n" for k in range(8) for f in range(2))
    found = _imported(tmp_path, text, scale="unknown", bins="[1,1,2]", least="4")
    np.testing.assert_array_equal(found["w"], np.ones((1, 1, 1, 2)))


@pytest.mark.parametrize(
    "text, options, words",
    [
        (_csv(ROWS), {}, r"a frame has about 1 .*bins=\["),
        (_csv(ROWS), {"bins": "[9,9]"}, r"bins=\["),
        (_csv(ROWS), {"bins": "[2]"}, "bins expects"),
        (_csv(ROWS), {"bins": "[1,1,1]"}, "no column z"),
        (_csv([*ROWS, ("b", 0, 1, 0, 0)]), {}, "experiments a, b; choose"),
        (_csv(ROWS), {"experiment": "c"}, "experiments a; choose"),
        (_csv(ROWS), {"as": "points"}, "as expects positions"),
        (_csv(ROWS[-3:-1]), {}, "No track has"),
        (_csv(ROWS).replace("9.0", "far"), {}, "'far' in column x"),
        (_csv(ROWS).replace("9.0", "1e300"), {}, "'1e300' in column x"),
        (_csv(ROWS).replace("\n0,", "\n0.5,"), {}, "a whole number"),
        (_csv(ROWS).replace("TRACK", "name"), {}, "columns frame, track"),
        ("", {}, "cannot be read"),
        (_csv([]), {}, "holds no tracks"),
    ],
)
def test_what_is_no_use_is_refused(text, options, words, tmp_path):
    with pytest.raises(PdefitError, match=words):
        _imported(tmp_path, text, scale="unknown", **options)
    assert not (tmp_path / "data.h5").exists()


def test_tracks_in_pixels_need_a_scale(tmp_path):
    with pytest.raises(PdefitError, match="pixel=LENGTH"):
        _imported(tmp_path, _csv(ROWS))


def test_times_of_one_experiment_in_two_files(tmp_path):
    # rows have equal numbers in both files, and the last frame came late: the mean step is that of the whole record
    for name, rows in (("a.csv", ((0, 0.0), (1, 0.25), (2, 0.5))), ("b.csv", ((3, 0.75), (4, 1.0), (5, 2.0)))):
        text = "".join(f"{frame},1,{frame},{frame},{time},e\n" for frame, time in rows)
        (tmp_path / name).write_text("frame,track,x,y,position_t,experiment\n" + text)
    recording = tracks([tmp_path / "a.csv", tmp_path / "b.csv"], {"as": "positions", "pixel": "1m"})
    np.testing.assert_allclose(recording.axes["time"][0], 0.4 * (np.arange(5) + 0.5))
