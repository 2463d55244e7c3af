"""Films of a camera."""

from pathlib import Path

import h5py
import imageio.v3
import numpy as np
import pytest
import tifffile

from pdefit._util.errors import PdefitError
from pdefit.data.importers.film import film
from pdefit.data.importers.images import reading
from pdefit.data.importers.recording import write_recording
from pdefit.data.importers.tracks import tracks

FILM = np.random.default_rng(0).integers(0, 60000, (5, 6, 8)).astype("u2")
SCALED = {"unit": "um", "finterval": 2.0}
OME = {"PhysicalSizeX": 0.65, "PhysicalSizeY": 0.65, "TimeIncrement": 2000.0, "TimeIncrementUnit": "ms"}


def _imported(folder: Path, *files: str, **options: str) -> dict[str, np.ndarray]:
    recording = film([folder / name for name in files], options or {"scale": "unknown"})
    write_recording(folder / "data.h5", recording)
    with h5py.File(folder / "data.h5") as file:
        return {"units": file["x"].attrs["units"], **{name: stored[()] for name, stored in file.items()}}


def _upward(images: np.ndarray) -> np.ndarray:
    return images[:, ::-1].transpose(0, 2, 1)


@pytest.mark.parametrize("kind", ["imagej", "ome"])
def test_a_stack_keeps_its_integers_and_states_its_scale(kind, tmp_path):
    if kind == "imagej":
        resolution = (1 / 0.65, 1 / 0.65)
        tifffile.imwrite(
            tmp_path / "a.tif", FILM, imagej=True, resolution=resolution, metadata={"axes": "TYX", **SCALED}
        )
    else:
        tifffile.imwrite(tmp_path / "a.tif", FILM, ome=True, compression="zlib", metadata={"axes": "TYX", **OME})
    found = _imported(tmp_path, "a.tif", name="u")
    np.testing.assert_array_equal(found["u"], _upward(FILM), strict=True)
    np.testing.assert_allclose(found["time"], 2.0 * np.arange(5))
    np.testing.assert_allclose(found["x"], 0.65e-6 * (np.arange(8) + 0.5))
    assert found["y"].size == 6 and found["units"] == "m"


@pytest.mark.parametrize("kind", ["imagej", "ome"])
def test_channels_and_planes_are_chosen(kind, tmp_path):
    stack = np.arange(3 * 2 * 2 * 4 * 5, dtype="u2").reshape(3, 2, 2, 4, 5)
    tifffile.imwrite(tmp_path / "a.tif", stack, metadata={"axes": "TZCYX"}, **{kind: True})
    found = _imported(tmp_path, "a.tif", scale="unknown", z="0", channel="1")
    np.testing.assert_array_equal(found["intensity"], _upward(stack[:, 0, 1]))
    for options, words in [
        ({}, "2 of channel.*channel=0"),
        ({"channel": "0"}, "2 of z.*z=time"),
        ({"channel": "2"}, "0 to 1"),
    ]:
        with pytest.raises(PdefitError, match=words):
            _imported(tmp_path, "a.tif", scale="unknown", **options)
    tifffile.imwrite(tmp_path / "a.tif", FILM, metadata={"axes": "TYX"}, **{kind: True})
    with pytest.raises(PdefitError, match="channel=2 does not exist; choose one from 0 to 0"):
        _imported(tmp_path, "a.tif", scale="unknown", channel="2")


def test_planes_of_a_stack_may_be_times(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", FILM, imagej=True, metadata={"axes": "ZYX"})
    np.testing.assert_array_equal(_imported(tmp_path, "a.tif", scale="unknown", z="time")["intensity"], _upward(FILM))


def test_files_of_a_sequence_are_read_in_natural_order(tmp_path):
    for k in range(5):
        tifffile.imwrite(tmp_path / f"f{k + 8}.tif", FILM[k], byteorder=">")
    names = sorted(f"f{k + 8}.tif" for k in range(5))
    assert names[0] == "f10.tif"
    found = _imported(tmp_path, *names, scale="unknown", every="2", frames="1:5")
    np.testing.assert_array_equal(found["intensity"], _upward(FILM[1::2]))
    np.testing.assert_array_equal(found["time"], [1, 3])


def test_times_follow_the_numbers_of_files_of_which_some_are_missing(tmp_path):
    for k, number in enumerate((10, 20, 40, 60)):
        tifffile.imwrite(tmp_path / f"run2_{number}.tif", FILM[k])
    recording = film(sorted(tmp_path.iterdir()), {"scale": "unknown", "frames": "1:4"})
    np.testing.assert_array_equal(recording.axes["time"][0], [1, 3, 5])
    assert "2 files are missing by the numbers in their names, the first after 'run2_20.tif'" in recording.notes[0]
    recording = film([tmp_path / f"run2_{number}.tif" for number in (40, 20)], {"scale": "unknown"})
    np.testing.assert_array_equal(recording.axes["time"][0], [0, 1])
    assert recording.notes[0] == "The numbers of the files grow by 20; frame= is the time between files."
    for number in (20, 60):
        tifffile.imwrite(tmp_path / f"run2_{number}.tif", FILM)
    with pytest.raises(PdefitError, match="several images must follow each other"):
        film(sorted(tmp_path.iterdir()), {"scale": "unknown"})


def _ome_set(folder: Path, beside: str = "") -> None:
    # a file of a set names all files in its metadata
    names = ["t0.ome.tif", f"{beside}t1.ome.tif"]
    uuid = [f"urn:uuid:0000000{k}-0000-0000-0000-000000000000" for k in range(2)]
    data = "".join(
        f'<TiffData IFD="0" FirstT="{k}" PlaneCount="1"><UUID FileName="{names[k]}">{uuid[k]}</UUID></TiffData>'
        for k in range(2)
    )
    for k in range(2):
        text = (
            f'<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{uuid[k]}">'
            f'<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" SizeX="8" SizeY="6" SizeZ="1" '
            f'SizeC="1" SizeT="2"><Channel ID="Channel:0"/>{data}</Pixels></Image></OME>'
        )
        tifffile.imwrite(folder / names[k], FILM[k], description=text, metadata=None)


def test_ome_files_of_a_set_are_read_once(tmp_path):
    _ome_set(tmp_path)
    found = _imported(tmp_path, "t0.ome.tif", "t1.ome.tif")
    np.testing.assert_array_equal(found["intensity"], _upward(FILM[:2]))
    # the others are sources, too
    assert film([tmp_path / "t0.ome.tif"], {"scale": "unknown"}).source == ["t0.ome.tif", "t1.ome.tif"]


def test_ome_files_outside_of_the_folder_are_refused(tmp_path):
    (tmp_path / "inside").mkdir()
    _ome_set(tmp_path / "inside", "../")
    with pytest.raises(PdefitError, match="outside of its folder; copy them beside it"):
        film([tmp_path / "inside" / "t0.ome.tif"], {"scale": "unknown"})


def test_a_film_that_declares_more_frames_than_memory_holds(tmp_path):
    text = (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0"><Pixels '
        'ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" SizeX="8" SizeY="6" SizeZ="1" SizeC="1" SizeT="2000000000">'
        "</Pixels></Image></OME>"
    )
    tifffile.imwrite(tmp_path / "a.tif", FILM[0], description=text, metadata=None)
    with open(tmp_path / "b.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (2 * 10**9, 1, 1)})
        file.truncate(file.tell() + 2 * 10**9)
    for name in ("a.tif", "b.npy"):
        with pytest.raises(PdefitError, match=f"'{name}': it declares 2000000000 frames"):
            film([tmp_path / name], {"scale": "unknown"})


def test_nan_that_means_zero(tmp_path):
    values = FILM[:2].astype("f4")
    values[0, 1:3, 2:5] = np.nan
    np.save(tmp_path / "a.npy", values)
    assert np.isnan(_imported(tmp_path, "a.npy")["intensity"]).sum() == 6
    for options, noted in (({}, True), ({"nan": "0"}, False)):
        recording = film([tmp_path / "a.npy"], {"scale": "unknown", **options})
        assert len([*recording.frames]) == 2
        assert ("NaN in the images counts as not measured; nan=0 takes it as zero." in recording.notes) == noted
    found = _imported(tmp_path, "a.npy", scale="unknown", nan="0")["intensity"]
    np.testing.assert_array_equal(found, _upward(np.nan_to_num(values)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_values_that_no_file_holds_are_missing(dtype, tmp_path):
    values = np.ones((1, 2, 3), dtype)
    values[0, 0, :2] = np.inf, np.finfo(dtype).max
    np.save(tmp_path / "a.npy", values)
    expected = np.array([[[np.nan, np.nan if dtype == "f8" else values[0, 0, 1], 1], [1, 1, 1]]], "f4")
    np.testing.assert_array_equal(_imported(tmp_path, "a.npy")["intensity"], _upward(expected))


def test_a_film_without_frames_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", FILM[:0])
    with pytest.raises(PdefitError, match=r"it holds uint16 of shape \(0, 6, 8\)"):
        film([tmp_path / "a.npy"], {"scale": "unknown"})


def test_crop_mask_and_bins(tmp_path):
    np.save(tmp_path / "a.npy", FILM)
    mask = np.full((6, 8), 255, "u1")
    mask[0, 2] = 0
    imageio.v3.imwrite(tmp_path / "mask.png", mask)
    mask_file = str(tmp_path / "mask.png")
    found = _imported(tmp_path, "a.npy", pixel="2mm", frame="1s", crop="[2,7,0,4]", bin="2", mask=mask_file)
    blocks = FILM[:, 0:4, 2:6].reshape(5, 2, 2, 2, 2).mean((2, 4))
    blocks[:, 0, 0] = np.nan
    np.testing.assert_array_equal(found["intensity"], _upward(blocks).astype("f4"), strict=True)
    np.testing.assert_allclose(found["x"], [2e-3, 6e-3])
    for options, words in [
        ({"crop": "[0,9,0,6]"}, "leaves the image"),
        ({"crop": "[0,1]"}, "crop expects"),
        ({"bin": "7"}, "larger than the image"),
        ({"frames": "5:"}, "none of 5"),
        ({"name": "x"}, "name expects"),
        ({"mask": str(tmp_path / "no.png")}, "does not exist"),
        ({"bins": "2"}, "bin"),
    ]:
        with pytest.raises(PdefitError, match=words):
            _imported(tmp_path, "a.npy", scale="unknown", **options)


@pytest.mark.parametrize("planes", ["contig", "separate"])
def test_colours_become_grey(planes, tmp_path):
    colours = np.random.default_rng(1).integers(0, 255, (2, 4, 5, 3)).astype("u1")
    stored = colours if planes == "contig" else np.moveaxis(colours, 3, 1)
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", planarconfig=planes)
    np.testing.assert_array_equal(_imported(tmp_path, "a.tif")["intensity"], _upward(colours.mean(3)).astype("f4"))
    one = _imported(tmp_path, "a.tif", scale="unknown", channel="1")["intensity"]
    np.testing.assert_array_equal(one, _upward(colours[..., 1]), strict=True)
    with pytest.raises(PdefitError, match="channel=3 does not exist; choose a colour from 0 to 2"):
        _imported(tmp_path, "a.tif", scale="unknown", channel="3")


def test_videos_are_read_exactly_where_they_are_stored_so(tmp_path):
    grey = np.random.default_rng(2).integers(0, 255, (4, 32, 48)).astype("u1")
    form = {"in_pixel_format": "gray", "out_pixel_format": "gray"}
    imageio.v3.imwrite(tmp_path / "a.avi", grey, plugin="pyav", codec="rawvideo", fps=25, **form)
    np.testing.assert_array_equal(_imported(tmp_path, "a.avi")["intensity"], _upward(grey), strict=True)
    smooth = np.broadcast_to(np.linspace(0, 250, 4).astype("u1")[:, None, None, None], (4, 32, 48, 3))
    imageio.v3.imwrite(tmp_path / "a.mp4", smooth, plugin="pyav", codec="libx264", fps=25)
    assert np.abs(_imported(tmp_path, "a.mp4")["intensity"] - _upward(smooth[..., 0])).max() < 3
    with pytest.raises(PdefitError, match="25.* images a second.*frame=TIME"):
        _imported(tmp_path, "a.avi", pixel="1um")


@pytest.mark.parametrize("left, told", [(1.0, False), (0.6, True)])
def test_a_video_that_lost_its_end_is_told(left, told, tmp_path):
    noise = np.random.default_rng(3).integers(0, 255, (20, 32, 48, 3)).astype("u1")
    imageio.v3.imwrite(tmp_path / "a.avi", noise, plugin="pyav", codec="mpeg4", fps=25)
    whole = (tmp_path / "a.avi").read_bytes()
    (tmp_path / "a.avi").write_bytes(whole[: int(left * len(whole))])
    recording = film([tmp_path / "a.avi"], {"scale": "unknown"})
    assert any("can be read; copy it again" in note for note in recording.notes) == told


def test_a_stack_that_lost_its_end_is_refused(tmp_path):
    with tifffile.TiffWriter(tmp_path / "whole.tif") as file:
        for image in FILM:
            file.write(image, metadata=None)
        end = file.filehandle.tell()
    with tifffile.TiffFile(tmp_path / "whole.tif") as file:
        last = file.pages[4].offset
    (tmp_path / "a.tif").write_bytes((tmp_path / "whole.tif").read_bytes()[:last])
    assert last < end
    with pytest.raises(PdefitError, match="'a.tif': images at its end are missing"):
        _imported(tmp_path, "a.tif")


def test_damaged_files_are_told_in_one_sentence_and_nothing_is_written(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", FILM[:3], imagej=True, metadata={"axes": "TYX", **SCALED})
    tifffile.imwrite(tmp_path / "b.tif", FILM[:3], ome=True, compression="zlib", metadata={"axes": "TYX", **OME})
    np.save(tmp_path / "c.npy", FILM[:3])
    lines = "".join(f"{f},{k},{k + f},{2 * k}\n" for k in range(3) for f in range(3))
    (tmp_path / "d.csv").write_text("frame,track,x,y\n" + lines)
    rng, refused = np.random.default_rng(3), 0
    good = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for k in range(200):
        name = list(good)[k % 4]
        bytes_ = bytearray(good[name])
        if k % 3 == 0:
            bytes_ = bytes_[: rng.integers(len(bytes_))]
        else:
            for at in rng.integers(0, min(len(bytes_), 400), 1 + k % 20):
                bytes_[at] = rng.integers(256)
        target = tmp_path / "out"
        target.mkdir()
        (target / name).write_bytes(bytes_)
        try:
            kind, extra = (tracks, {"as": "positions"}) if name == "d.csv" else (film, {})
            write_recording(target / "data.h5", kind([target / name], {"scale": "unknown", **extra}))
        except PdefitError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 1000
            assert [path.name for path in target.iterdir()] == [name]
        for path in target.iterdir():
            path.unlink()
        target.rmdir()
    assert refused > 50


def test_counts_less_a_dark_number_stay_whole(tmp_path):
    np.save(tmp_path / "a.npy", FILM)
    made = film([tmp_path / "a.npy"], {"scale": "unknown", "dark": "400", "per_count": "0.001"})
    write_recording(tmp_path / "data.h5", made)
    with h5py.File(tmp_path / "data.h5") as file:
        stored = file["intensity"]
        np.testing.assert_array_equal(stored[()], _upward(FILM), strict=True)
        seen = stored[()] * stored.attrs["scale_factor"] + stored.attrs["add_offset"]
        assert "less the dark (400 counts), times 0.001" in file.attrs["import_notes"]
    np.testing.assert_allclose(seen, (_upward(FILM) - 400.0) * 0.001)
    binned = _imported(tmp_path, "a.npy", scale="unknown", dark="400", per_count="0.001", bin="2")["intensity"]
    means = _upward(FILM).reshape(5, 4, 2, 3, 2).mean((2, 4))
    np.testing.assert_allclose(binned, (means - 400.0) * 0.001, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["dark.tif", "dark.npy"])
def test_a_dark_image_is_subtracted_before_cuts_and_bins(name, tmp_path):
    dark = np.arange(48, dtype="u2").reshape(6, 8)
    (np.save if name.endswith("npy") else tifffile.imwrite)(tmp_path / name, dark)
    np.save(tmp_path / "a.npy", FILM)
    options = {"scale": "unknown", "dark": str(tmp_path / name), "per_count": "0.5"}
    found = _imported(tmp_path, "a.npy", **options)["intensity"]
    np.testing.assert_allclose(found, 0.5 * _upward(FILM - dark.astype(float)), rtol=1e-6)
    assert found.dtype == np.float32
    cut = _imported(tmp_path, "a.npy", **options, crop="[2,6,0,4]")["intensity"]
    np.testing.assert_array_equal(cut, found[:, 2:6, 2:])


def test_what_is_no_dark_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", FILM)
    np.save(tmp_path / "small.npy", np.zeros((3, 8)))
    (tmp_path / "bad.tif").write_bytes(b"no image")
    for options, words in [
        ({"dark": "none.tif"}, "dark expects dark=400 or an image that exists, but got 'none.tif'"),
        ({"dark": "nan"}, "dark expects"),
        ({"dark": str(tmp_path / "small.npy")}, "the dark image has shape .3, 8., but the images have .6, 8."),
        ({"dark": str(tmp_path / "bad.tif")}, "bad.tif' cannot be read as images"),
        ({"per_count": "0"}, "per_count expects"),
        ({"per_count": "one"}, "per_count expects"),
    ]:
        with pytest.raises(PdefitError, match=words):
            _imported(tmp_path, "a.npy", scale="unknown", **options)


def test_long_errors_of_libraries_are_shortened(tmp_path):
    with pytest.raises(PdefitError) as told, reading(tmp_path / "a.tif"):
        raise ValueError("7, " * 500)
    assert "copy it again" in str(told.value) and len(str(told.value)) < 300


def test_images_whose_parts_are_missing_are_refused(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", FILM[0], tile=(16, 16), compression="zlib")
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+") as file:
        file.pages.first.tags["ImageWidth"].overwrite(40)
    with pytest.raises(PdefitError, match="'a.tif': parts of its images are missing"):
        _imported(tmp_path, "a.tif")
