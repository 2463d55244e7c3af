"""Recordings along an axis of one file."""

import h5py
import numpy as np
import pytest
import xarray

from pdefit._util.errors import PdefitError
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import read_arrays
from pdefit.data.readers.recordings import split_recordings
from pdefit.data.readers.source import source_of

NAMES = ["early", "late", "short"]
THETA, PHI = np.linspace(0.2, 3.0, 4), np.arange(3) * 2.0
U = np.random.default_rng(0).standard_normal((3, 4, 4, 3, 2))
VARIABLES = {"u_theta": "velocity[theta]", "u_phi": "velocity[1]"}


def _film(**changes) -> xarray.Dataset:
    u = U.copy()
    u[0, :, 0] = np.nan
    u[2, 2:] = np.nan
    where = ("experiment", "frame", "theta", "phi", "component")
    return xarray.Dataset(
        {
            "velocity": (where, u, {"units": "um/min"}),
            "time": (("experiment", "frame"), np.arange(4.0) * [[1.0], [2.0], [3.0]], {"units": "s"}),
            "time_offset": ("experiment", [0.0, 0.5, 0.0], {"units": "min"}),
            "radius": ("experiment", [80.0, np.nan, 90.0], {"units": "um"}),
            "shared": ("theta", THETA),
        }
        | changes,
        {"experiment": NAMES, "component": ["theta", "phi"], "theta": THETA, "phi": PHI},
    )


def _frames(path, which, **more) -> Frames:
    dims = ("theta", "phi")
    units = dict.fromkeys(VARIABLES, "um/s")
    return Frames(
        *source_of(path, VARIABLES, units=units, time_unit="s", dims=dims, select={"experiment": which}, **more)
    )


def test_a_recording_is_read_as_from_a_file_of_its_own(tmp_path):
    _film().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    assert split_recordings(tmp_path / "a.nc") == NAMES
    with _frames(tmp_path / "a.nc", "late") as frames:
        np.testing.assert_allclose(frames.ts, [30, 32, 34, 36])
        found = frames.arrays(1, 3)[0]
        np.testing.assert_allclose(found["u_theta"], U[1, 1:3, ..., 0] / 60)
        np.testing.assert_allclose(found["u_phi"], U[1, 1:3, ..., 1] / 60)
        where = frames.coordinate("u_phi", 1, ("theta", "phi"), {}, "rad")
        assert where is not None
        np.testing.assert_array_equal(where.values, THETA)
    # frames without a value at the end are left out, a mask stays
    with _frames(tmp_path / "a.nc", 2) as frames:
        np.testing.assert_allclose(frames.ts, [0.0, 3.0])
    with _frames(tmp_path / "a.nc", 0) as frames:
        assert np.isnan(frames.arrays(0, 4)[0]["u_theta"][:, 0]).all() and frames.ts.size == 4


def test_times_from_the_time_between_frames(tmp_path):
    more = {"frame_time": ("experiment", [0.5, 0.25, 1.0], {"units": "min"}), "n_frames": ("experiment", [4, 3, 4])}
    for time in {}, {"time": ("frame", np.arange(1, 5))}:
        film = _film(**more).drop_vars("time").assign(time)
        film.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        with _frames(tmp_path / "a.nc", "late") as frames:
            np.testing.assert_allclose(frames.ts, 30 + 15 * (np.arange(3) + len(time)))
    # a file of one recording
    film = film.drop_vars("time").isel(experiment=0, drop=True)
    film.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    with Frames(*source_of(tmp_path / "b.nc", {"u": "velocity[phi]"}, time_unit="min")) as frames:
        np.testing.assert_allclose(frames.ts, 0.5 * np.arange(4))


def test_values_of_a_recording_for_the_system(tmp_path):
    path = tmp_path / "a.nc"
    _film().to_netcdf(path, engine="h5netcdf")
    assert read_arrays(path, {"r": "radius", "x": "shared"}, {"experiment": "short"})["r"] == 90.0
    assert read_arrays(path, {"r": "radius[0]"})["r"] == 80.0
    with pytest.raises(PdefitError, match=r"'radius' in 'a.nc \(experiment = late\)' is missing"):
        read_arrays(path, {"r": "radius"}, {"experiment": "late"})


def test_a_missing_value_needs_no_standard_deviation(tmp_path):
    errors = xarray.where(np.isnan(_film().velocity), np.nan, 2.0)
    _film(error=errors.assign_attrs(units="um/min")).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    sigma = {"u_phi": "error[phi]"}
    with _frames(tmp_path / "a.nc", 0, sigma=sigma) as frames:
        values, found = frames.arrays(0, 2)
        np.testing.assert_allclose(found["u_phi"][np.isfinite(values["u_phi"])], 2 / 60)
    _film(error=errors.where(errors.theta < 2)).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with _frames(tmp_path / "a.nc", 0, sigma=sigma) as frames, pytest.raises(PdefitError, match="must be positive"):
        frames.arrays(0, 2)


def test_equal_lengths_of_axes_are_no_matter(tmp_path):
    film = _film().isel(frame=slice(0, 3))
    film.isel(theta=slice(0, 3)).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with _frames(tmp_path / "a.nc", 1) as frames:
        np.testing.assert_allclose(frames.arrays(0, 3)[0]["u_phi"] * 60, U[1, :3, :3, :, 1])


def test_refused_files(tmp_path):
    path = tmp_path / "a.nc"
    _film().to_netcdf(path, engine="h5netcdf")
    with pytest.raises(PdefitError, match="experiment is called 'earlier'; did you mean early"):
        _frames(path, "earlier")
    with pytest.raises(PdefitError, match="entry of 'velocity' is called 'north'"):
        Frames(*source_of(path, {"u": "velocity[north]"}, select={"experiment": 0}))
    with pytest.raises(PdefitError, match="is called 'embryo'"):
        split_recordings(path, "embryo")
    _film(velocity=_film().velocity.where(_film().experiment != "late")).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(PdefitError, match=r"'a.nc \(experiment = late\)' has no frame with a time and a value"):
        _frames(path, "late")
    _film(frame_time=("experiment", [1.0, np.nan, 1.0])).drop_vars("time").to_netcdf(path, engine="h5netcdf")
    with pytest.raises(PdefitError, match=r"'frame_time' in 'a.nc \(experiment = late\)' is nan"):
        _frames(path, "late")
    for names in ["a", "a", "b"], ["a", "b/c", "d"]:
        _film().assign_coords(experiment=names).to_netcdf(path, engine="h5netcdf")
        with pytest.raises(PdefitError, match="give each recording a name"):
            split_recordings(path)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["velocity"] = U
    with pytest.raises(PdefitError, match="xarray writes the names"):
        split_recordings(tmp_path / "b.h5")


def test_entries_keep_the_names_of_their_axes(tmp_path):
    where = {"time": np.arange(5.0), "y": np.arange(4.0), "x": np.arange(3.0)}
    values = np.random.default_rng(0).standard_normal((5, 4, 3, 2))
    film = xarray.Dataset({"velocity": (("time", "y", "x", "component"), values)}, where)
    film.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with Frames(*source_of(tmp_path / "a.nc", {"u": "velocity[1]"})) as frames:
        np.testing.assert_array_equal(frames.arrays(0, 5)[0]["u"], values[..., 1])
        with pytest.raises(
            PdefitError, match=r"Axis 1 of 'velocity\[1\]' in 'a.nc' is y, where the model has x; transpose"
        ):
            frames.coordinate("u", 1, ("x", "y"), {}, None)


def test_a_damaged_variable_leaves_the_others_readable(tmp_path):
    _film().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        file.create_dataset("away", (3, 4), "f8", external=[("secret.raw", 0, 96)])
        # more entries than there is memory for their names
        file.create_dataset("long", (4, 10**13), "f8", chunks=(1, 10**6))
    with _frames(tmp_path / "a.nc", "late") as frames:
        assert frames.ts.size == 4
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.nc", {"a": "long[3]"})["a"], np.zeros(4))
    for name, told in (
        ("away[0]", "'away' in 'a.nc' takes its values from other files"),
        ("long[x]", "there are: 0 to 9999"),
    ):
        with pytest.raises(PdefitError, match=told):
            read_arrays(tmp_path / "a.nc", {"a": name})
