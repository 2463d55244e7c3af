"""Files of velocity fields that the real libraries wrote."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from pdefit._util.errors import PdefitError
from pdefit.data.importers.piv import outliers, read_piv
from pdefit.data.importers.recording import Recording, write_recording

SAMPLES = Path(__file__).parent / "samples"
PIVLAB = """PIVlab, ASCII chart output - 28-Jan-2024 15:35:39
FRAME: 1, filenames: A.png & B.png, conversion factor xy (px -> m): 1, conversion factor uv (px/frame -> m/s): 1
x [px],y [px],u [px/frame],v [px/frame],Vector type [-]
"""


def _read(*names: str, **options: str) -> tuple[Recording, dict[str, np.ndarray]]:
    recording = read_piv([SAMPLES / name for name in names], options)
    frames = list(recording.frames)
    return recording, {name: np.stack([frame[name] for frame in frames]) for name in recording.units}


def test_openpiv_in_the_order_of_frames_upward_and_without_masked_vectors():
    names = ("openpiv_frame10.txt", "openpiv_frame8.txt", "openpiv_frame9.txt")
    recording, found = _read(*names, pixel="20um", frame="2ms")
    assert recording.source == [names[1], names[2], names[0]] and (
        recording.axes["x"][1],
        recording.axes["time"][1],
    ) == (
        "m",
        "s",
    )
    np.testing.assert_allclose(recording.axes["time"][0], [0, 2e-3, 4e-3])
    np.testing.assert_allclose(recording.axes["x"][0], 20e-6 * (16 + 16 * np.arange(6)))
    np.testing.assert_allclose(recording.axes["y"][0], 20e-6 * (16 + 16 * np.arange(5)))
    # rows of the image from the top: their y is that of the opposite row
    x, top = 16 + 16 * np.arange(6.0), 80 - 16 * np.arange(5.0)
    expected = 0.01 * (2 + 0.01 * top + np.arange(3.0)[:, None, None] + 0 * x[:, None])
    kept = np.full(expected.shape, True)
    kept[:, 2, 3] = kept[:, 3, 1] = kept[:, 0, 4] = False
    np.testing.assert_allclose(found["u"], np.where(kept, expected, np.nan), rtol=1e-4)
    np.testing.assert_allclose(found["v"], np.where(kept, 0.01 * (1 - 0.01 * x[:, None] + 0 * top), np.nan), rtol=1e-4)
    assert recording.notes == [
        "The files state no units: pixel and pixel/frame are taken; length=mm velocity=mm/s would name others.",
        "Of 90 vectors 6.7 % were rejected by flags, 3.3 % were interpolated.",
    ]
    kept = _read(*names, scale="unknown", interpolated="true", flip="v")[1]
    assert np.isnan(kept["u"]).sum() == 6 and np.nanmax(kept["v"]) < 0
    assert _read(*names, length="mm", velocity="mm/s", frame="2ms")[0].axes["x"][0][0] == pytest.approx(0.016)


def _table(folder: Path, name: str, head: str, good: str = "", bad: str = "") -> Path:
    rows = [f"{i},{j},{1 + i},{2 + j}{bad if i == j == 1 else good}" for i in range(3) for j in range(3)]
    (folder / name).write_text("\n".join([head, *rows]) + "\n")
    return folder / name


def test_times_of_files_follow_their_numbers_where_some_are_missing(tmp_path):
    files = [_table(tmp_path, f"b{k}.csv", "x [mm],y [mm],u [mm/s],v [mm/s]") for k in (1, 2, 3, 5, 7)]
    recording = read_piv(files, {"frame": "2s"})
    np.testing.assert_array_equal(recording.axes["time"][0], [0, 2, 4, 8, 12])
    assert "2 files are missing by the numbers in their names, the first after 'b3.csv'" in recording.notes[0]


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [("valid", ",1", ",0"), ("chc", ",2", ",-1"), ("mask", ",0", ",1"), ("flags", ",0", ",1")],
)
def test_a_table_states_which_vectors_count(column, good, bad, tmp_path):
    file = _table(tmp_path, "a.csv", f"x,y,u,v,{column}", good, bad)
    recording = read_piv([file], {"scale": "unknown", "outliers": "false"})
    (field,) = recording.frames
    assert [*zip(*np.nonzero(np.isnan(field["u"])), strict=True)] == [(1, 1)]
    assert "Of 9 vectors 11.1 % were rejected by flags." in recording.notes


@pytest.mark.parametrize(
    "head",
    [
        "X [mm],Y [mm],Vx [mm/s],Vy [mm/s]",
        "X [mm],Y [mm],Ux [mm/s],Uy [mm/s]",
        "x [mm],y [mm],u_x [mm/s],u_y [mm/s]",
        "x [mm],y [mm],Velocity u [mm/s],Velocity v [mm/s]",
    ],
)
def test_the_names_that_other_programs_give_to_columns(head, tmp_path):
    file = _table(tmp_path, "a.csv", head)
    recording = read_piv([file], {"frame": "1s", "outliers": "false"})
    np.testing.assert_allclose(next(iter(recording.frames))["v"][0], [2e-3, 3e-3, 4e-3])
    file.write_bytes(file.read_text().replace("[mm", "[µm").encode("latin-1"))
    np.testing.assert_allclose(read_piv([file], {"frame": "1s"}).axes["y"][0], [0, 1e-6, 2e-6])
    file.write_text(_table(tmp_path, "a.csv", head).read_text().replace(",", " ").replace("Velocity ", ""))
    np.testing.assert_allclose(read_piv([file], {"frame": "1s"}).axes["x"][0], [0, 1e-3, 2e-3])


def test_a_masked_hole_is_told_and_one_at_the_rim_is_not(tmp_path):
    for corner, told in ((2, True), (0, False)):
        masked = range(corner, corner + 3)
        rows = [f"{i},{j},1,2,{int(i in masked and j in masked)}" for i in range(7) for j in range(7)]
        (tmp_path / "a.csv").write_text("\n".join(["x,y,u,v,mask", *rows]) + "\n")
        recording = read_piv([tmp_path / "a.csv"], {"scale": "unknown"})
        assert len([*recording.frames]) == 1
        hole = "A region of 9 vectors inside is missing at all times; if it is an obstacle, crop a part beside it"
        assert any(note.startswith(hole) for note in recording.notes) == told


def test_text_without_units_is_told_of_all_ways_to_state_them():
    with pytest.raises(PdefitError, match=r"pixel=LENGTH.*scale=unknown; .*length=mm velocity=mm/s"):
        _read("openpiv_frame8.txt")


@pytest.mark.parametrize("name", ["pivpy.nc", "pivpy_classic.nc"])
def test_pivpy_with_its_units_and_choices(name):
    recording, found = _read(name, scale="unknown", outliers="false")
    with xarray.open_dataset(SAMPLES / name, engine="scipy" if "classic" in name else "h5netcdf") as data:
        expected = data["u"].where(data["chc"] > 0).transpose("t", "x", "y").values
        assert data["u"].attrs["units"] == data["x"].attrs["units"] == "pix"
    np.testing.assert_array_equal(found["u"], expected)
    assert recording.units == {"u": "pixel/frame", "v": "pixel/frame"} and list(recording.axes["time"][0]) == [0, 1, 2]
    assert recording.notes[0] == "Of 90 vectors 1.1 % were rejected by flags."


def test_insight_in_physical_units_and_in_pixels():
    recording, found = _read("soap1.vec", "soap2.vec", frame="2ms", outliers="false")
    # the first row of the file is the uppermost
    assert found["u"][0, 0, -1] == 0.047430 and found["v"][1, 1, -1] == -0.021676
    np.testing.assert_allclose(recording.axes["x"][0][:2], [6.562080e-3, 6.874560e-3])
    assert recording.axes["y"][0][-1] == pytest.approx(-6.562080e-3) and recording.units["u"] == "m/s"
    # pixels in the time between two pulses, which the header states: 55 ms
    recording, found = _read("cavity1.vec", "cavity2.vec", pixel="20um", frame="1s", outliers="false")
    assert found["u"][0, 0, -1] == pytest.approx(0.389498 * 20e-6 / 0.055) and recording.axes["time"][0][1] == 1


def _pivlab(path: Path, text: str) -> Path:
    rows = [f"{16 * i},{16 * j},{1 + i},{10 * j},1" for i in (1, 2, 3) for j in (1, 2, 3)]
    rows[4], rows[5], rows[8] = (row[:-1] + kind for row, kind in zip((rows[4], rows[5], rows[8]), "027", strict=True))
    path.write_text(text + "\n".join(rows) + "\n")
    return path


def test_pivlab_is_turned_upward(tmp_path):
    recording = read_piv([_pivlab(tmp_path / "a.txt", PIVLAB)], {"scale": "unknown", "outliers": "false"})
    (field,) = recording.frames
    np.testing.assert_array_equal(recording.axes["y"][0], [-48, -32, -16])
    nan = np.nan
    np.testing.assert_array_equal(field["u"], [[2, 2, 2], [nan, nan, 3], [nan, 4, 4]])
    np.testing.assert_array_equal(field["v"], [[-30, -20, -10], [nan, nan, -10], [nan, -20, -10]])
    assert "both are negated" in recording.notes[0] and "22.2 % were rejected by flags, 11.1 %" in recording.notes[1]
    calibrated = PIVLAB.replace("[px]", "[m]").replace("px/frame]", "m/s]")
    recording = read_piv([_pivlab(tmp_path / "b.txt", calibrated)], {"frame": "1ms"})
    assert recording.axes["x"][1] == "m" and recording.units["v"] == "m/s"


def test_a_table_with_times_deviations_and_points_left_out(tmp_path):
    rows = [f"{t},{x},{y},{t + x},{y},0.{t}" for t in (1, 3) for y in (5, 4, 3) for x in (9, 8, 7)]
    rows.remove("3,8,4,11,4,0.3")
    (tmp_path / "a.csv").write_text("\n".join(["t [ms],x [mm],y [mm],u [mm/s],v [mm/s],v_sigma [mm/s]", *rows]))
    recording = read_piv([tmp_path / "a.csv"], {"outliers": "false"})
    frames = list(recording.frames)
    np.testing.assert_allclose(recording.axes["time"][0], [1e-3, 3e-3])
    np.testing.assert_allclose(recording.axes["x"][0], [7e-3, 8e-3, 9e-3])
    np.testing.assert_allclose(frames[1]["u"][:, 1], [10e-3, np.nan, 12e-3])
    assert recording.units["v_sigma"] == "m/s" and frames[1]["v_sigma"][0, 0] == pytest.approx(0.3e-3)
    assert "5.6 % were missing in the files" in recording.notes[0]


def test_what_was_imported_comes_back_exactly(tmp_path):
    recording = read_piv([SAMPLES / "soap1.vec", SAMPLES / "soap2.vec"], {"frame": "2ms", "outliers": "0.5"})
    write_recording(tmp_path / "a.h5", recording)
    assert "as outliers" in recording.notes[0]
    write_recording(tmp_path / "b.h5", read_piv([tmp_path / "a.h5"], {}))
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert set(a) == set(b) == {"time", "x", "y", "u", "v"} and np.isnan(a["u"]).any()
        for name in a:
            np.testing.assert_array_equal(a[name][()], b[name][()])
            assert a[name].attrs["units"] == b[name].attrs["units"]


def test_one_variable_of_two_components_in_any_order_of_axes(tmp_path):
    u = np.random.default_rng(0).normal(size=(2, 4, 3, 2))
    valid = np.ones((2, 4, 3), "u1")
    valid[1, 2, 0] = 0
    data = xarray.Dataset(
        {"velocity": (("time", "y", "x", "component"), u, {"units": "m s-1"}), "valid": (("time", "y", "x"), valid)},
        {"time": ("time", [0.0, 0.5], {"units": "s"}), "x": ("x", [1.0, 2.0, 3.0], {"units": "m"}),
         "y": ("y", [4.0, 3.0, 2.0, 1.0], {"units": "m"})},
    )  # fmt: skip
    data.to_netcdf(tmp_path / "a.h5", engine="h5netcdf")
    recording = read_piv([tmp_path / "a.h5"], {"outliers": "false"})
    frames = list(recording.frames)
    np.testing.assert_array_equal(recording.axes["y"][0], [1, 2, 3, 4])
    np.testing.assert_array_equal(frames[0]["v"], u[0, ::-1, :, 1].T)
    assert np.isnan(frames[1]["u"][0, 1]) and np.isnan(frames[1]["u"]).sum() == 1


@pytest.mark.parametrize("wrong", ["text", "complex", "text in valid"])
def test_values_that_are_no_real_numbers_are_refused(wrong, tmp_path):
    u: np.ndarray = np.ones((3, 4))
    u = np.full(u.shape, "a") if wrong == "text" else u * 1j if wrong == "complex" else u
    valid = np.full(u.shape, "yes" if "valid" in wrong else 1)
    names = {name: (("y", "x"), values) for name, values in {"u": u, "v": np.ones((3, 4)), "valid": valid}.items()}
    data = xarray.Dataset(names, {"x": np.arange(4.0), "y": np.arange(3.0)})
    data.to_netcdf(tmp_path / "a.h5", engine="h5netcdf", invalid_netcdf=True)
    with pytest.raises(PdefitError, match="no variable u of real numbers|'u' in 'a.h5' cannot be read"):
        list(read_piv([tmp_path / "a.h5"], {"scale": "unknown"}).frames)


def test_numbers_of_any_length_in_names(tmp_path):
    names = [f"a{number}.csv" for number in (1, 2, 10**25)]
    recording = read_piv([_table(tmp_path, name, "x,y,u,v") for name in names], {"scale": "unknown"})
    np.testing.assert_array_equal(recording.axes["time"][0], [0, 1, 1e25])
    assert " files are missing" in recording.notes[1]


def test_outliers_as_a_loop_over_vectors_finds_them():
    rng = np.random.default_rng(1)
    u, v = rng.normal(3, 0.3, (2, 9, 8))
    u[4, 4], v[0, 7], u[6, 2:5] = 7.0, -2.0, np.nan
    expected = np.zeros(u.shape, bool)
    for i, j in np.ndindex(u.shape):
        size = 0.0
        for part in (u, v):
            near = [part[k, m] for k in range(i - 1, i + 2) for m in range(j - 1, j + 2)
                    if (k, m) != (i, j) and 0 <= k < 9 and 0 <= m < 8 and np.isfinite(part[k, m])]  # fmt: skip
            middle = np.median(near)
            size += ((part[i, j] - middle) / (np.median(np.abs(near - middle)) + 0.1)) ** 2
        expected[i, j] = np.sqrt(size) > 2
    found = outliers(u, v, 0.1)
    np.testing.assert_array_equal(found[1:-1, 1:-1], expected[1:-1, 1:-1])
    assert found[4, 4] and found[0, 7] and not found[6, 2:5].any()
    # a gradient is none, neither at the rim
    steep = np.add.outer(3.0 * np.arange(6), np.arange(5.0))
    assert not outliers(steep, -steep, 0.1).any()
    # two neighbours say nothing about a third vector
    alone = np.full((3, 3), np.nan)
    alone[0, :2] = 1.0
    alone[1, 0] = 50.0
    assert not outliers(alone, alone, 0.1).any()


def test_v_of_the_wrong_sign_is_noted(tmp_path):
    x, y = np.meshgrid(np.linspace(0, 6, 20), np.linspace(0, 6, 20))
    for sign, told in ((1, False), (-1, True)):
        table = np.stack([x, y, np.sin(x) * np.cos(y), -sign * np.cos(x) * np.sin(y)]).reshape(4, -1).T
        np.savetxt(tmp_path / "a.csv", table, delimiter=",", header="x,y,u,v", comments="")
        recording = read_piv([tmp_path / "a.csv"], {"scale": "unknown"})
        list(recording.frames)
        assert any("flip=v" in note for note in recording.notes) == told


HEAD = "x,y,u,v\n"


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        (HEAD + "0,0,1,1\n1,0,1,1\n0,1,1,1\n1,1,1,1\n1,1,2,2\n", {}, "two vectors at one position"),
        (HEAD + "0,0,1,1\n1,0.3,1,1\n0.2,1,1,1\n3,1.7,1,1\n", {}, "no regular raster"),
        (HEAD + "0,0,1,1\n1,0,1,1\n0,,1,1\n1,1,1,1\n", {}, "without a position"),
        ("x,y,u,v,t\n0,0,1,1,0\n1,0,1,1,0\n0,1,1,1,nan\n1,1,1,1,0\n", {}, "without a position or time"),
        (HEAD + "0,0,1,1\n1,0,1,1\n0,1,?,1\n1,1,1,1\n", {}, "as a table of numbers"),
        ("x [mm],y [m],u,v\n0,0,1,1\n1,0,1,1\n0,1,1,1\n1,1,1,1\n", {}, "x in mm and y in m;"),
        (HEAD + "0,0,1\n1,0,1\n", {}, "rows of 3 numbers"),
        (HEAD + "0,0,,1\n1,0,,1\n0,1,,1\n1,1,,1\n", {}, "No vector of 4 is left"),
        ("0 0 1 1\n1 0 1 1\n", {}, "no format that is known"),
        ("PIVlab, ASCII chart output\n1,2,3,4\n", {}, "no columns x, y, u, v"),
        (HEAD + "0,0,1,1\n1,0,1,1\n0,1,1,1\n1,1,1,1\n", {"outliers": "-1"}, "outliers expects a number"),
        (HEAD + "0,0,1,1\n1,0,1,1\n0,1,1,1\n1,1,1,1\n", {"flip": "u"}, "flip expects v"),
        (HEAD + "0,0,1,1\n1,0,1,1\n0,1,1,1\n1,1,1,1\n", {"velocity": "mm/s"}, "Velocities are in m/s, but"),
        (HEAD + "0,0,1,1\n1,0,1,1\n0,1,1,1\n1,1,1,1\n", {"pixels": "1um"}, "did you mean pixel"),
    ],
)
def test_wrong_files_and_options_are_one_sentence(text, options, match, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(PdefitError, match=match):
        recording = read_piv([tmp_path / "a.csv"], {"scale": "unknown", **options})
        list(recording.frames)


def test_files_that_do_not_belong_together_are_named(tmp_path):
    for name, shift in (("a1.csv", 0), ("a2.csv", 1)):
        rows = [f"{x + shift},{y},1,1" for x in range(3) for y in range(3)]
        (tmp_path / name).write_text("\n".join(["x [mm],y [mm],u [m/s],v [m/s]", *rows]))
    for files in ([tmp_path / "a1.csv", tmp_path / "a2.csv"], [SAMPLES / "cavity1.vec", SAMPLES / "soap1.vec"]):
        recording = read_piv(files, {"frame": "2ms", "pixel": "20um"})
        with pytest.raises(PdefitError, match=f"'{files[1].name}' has another raster than '{files[0].name}'"):
            list(recording.frames)
    with pytest.raises(PdefitError, match=r"the images of a pair are 0.002 s apart\); add frame=TIME"):
        read_piv([SAMPLES / "soap1.vec", SAMPLES / "soap2.vec"], {})
