"""The observations that ship with pdefit."""

import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import tifffile

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("file", sorted(DATA.rglob("*.h5")), ids=lambda file: file.stem)
def test_a_file_states_its_licence_units_and_source(file):
    with h5py.File(file) as opened:
        assert all(opened.attrs[name] for name in ("title", "source", "license", "history"))
        fields = [data for data in opened.values() if data.dtype.kind == "f"]
        assert fields and all(data.attrs["units"] for data in fields)
        assert not any(np.isinf(data[...]).any() for data in fields)


def vectors(file):
    with h5py.File(file) as opened:
        ascending = all(np.all(np.diff(opened[axis][...]) > 0) for axis in ("time", "x", "y"))
        assert ascending and all([d[0].name for d in opened[c].dims] == ["/time", "/x", "/y"] for c in "uv")
        return opened["u"][...], opened["v"][...], opened.attrs["import_notes"]


@pytest.mark.parametrize("name", ["active_nematic", "cavity", "soap_film", "wake"])
def test_a_vector_is_measured_or_missing_as_a_whole(name):
    u, v, notes = vectors(DATA / "piv" / f"{name}.h5")
    assert np.array_equal(np.isnan(u), np.isnan(v)) and 0.8 < np.isfinite(u).mean() < 1
    assert f"{np.isnan(u).sum()} of {u.size} vectors are missing" in notes


def test_the_turbulent_window_has_no_divergence_and_a_known_force():
    with h5py.File(DATA / "flow" / "turbulent_window.h5") as file:
        u, v, p = (np.asarray(file[name], float) for name in "uvp")
        h, attributes = np.diff(file["x"])[0], dict(file.attrs)
    assert u.shape == (25, 48, 48) and np.abs(p.mean(axis=(1, 2))).max() < 1e-6
    slope = (8 * (u[:, 3:-1] - u[:, 1:-3]) - (u[:, 4:] - u[:, :-4]))[:, :, 2:-2] / (12 * h)
    other = (8 * (v[:, :, 3:-1] - v[:, :, 1:-3]) - (v[:, :, 4:] - v[:, :, :-4]))[:, 2:-2] / (12 * h)
    assert np.std(slope + other) < 0.01 * np.std(slope)
    assert attributes["force"] == f"({attributes['force_amplitude']} sin({attributes['force_wavenumber']} y), 0)"


def test_the_microscopy_frames_open():
    frames = tifffile.imread(DATA / "piv" / "active_nematic.tif")
    assert frames.shape == (10, 494, 502) and frames.dtype == np.uint8 and frames.std() > 10


def test_files_are_those_of_the_list():
    text = (DATA / "README.md").read_text(encoding="utf-8")
    listed = dict(line.split()[::-1] for line in text.split("## sha256")[1].splitlines() if line)
    assert {name: hashlib.sha256((DATA / name).read_bytes()).hexdigest() for name in listed} == listed
    there = {f.relative_to(DATA).as_posix() for s in ("h5", "mat", "tif", "csv", "json") for f in DATA.rglob(f"*.{s}")}
    assert there == set(listed)
