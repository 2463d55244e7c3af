"""Positions that a file states against those that the model sees."""

import films
import h5py
import numpy as np
import pytest
import xarray

from pdefit._util.errors import PdefitError
from pdefit.cli.run.positions import check_positions
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.source import source_of
from pdefit.systems.coordinates import FieldCoords

X, Y = np.arange(20) * 0.05 + 0.025, np.asarray([-3.0, 0.0, 3.0])
SEEN = {"u": FieldCoords(("x", "y"), {"x": X, "y": Y}, coord_units={"x": "mm", "y": "mm"})}


def _film(path, scales=("x", "y"), unit="mm", **changes):
    """Frames of `u` with coordinates as dimension scales; `changes` replace or leave out (None) datasets."""
    content = {"time": np.arange(3.0), "u": np.ones((3, 20, 3)), "x": X, "y": Y, **changes}
    with h5py.File(path, "w") as file:
        for name, value in content.items():
            if value is not None:
                file[name] = value
        for axis, name in enumerate(scales, 1):
            if name in file:
                file[name].make_scale(name)
                file[name].attrs["units"] = unit
                file["u"].dims[axis].attach_scale(file[name])  # pyright: ignore[reportAttributeAccessIssue]
    return path


def _checked(path, named=None, seen=SEEN):
    with Frames(*source_of(path, {"u": "u"})) as frames:
        return check_positions(frames, seen, named)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"x": X.astype("f4"), "y": Y.astype("f4")},
        {"x": X * 1000, "y": Y * 1000, "unit": "um"},
        {"x": (X * 1000).astype("f4"), "y": Y * 1000, "unit": "um"},
        # beside the variable, without being attached to it
        {"scales": ()},
    ],
)
def test_positions_that_agree(tmp_path, changes):
    assert _checked(_film(tmp_path / "x.h5", **changes)) is None


def test_single_precision_far_from_the_origin(tmp_path):
    far = X + 1e5
    seen = {"u": FieldCoords(("x", "y"), {"x": far, "y": Y}, coord_units={"x": "mm", "y": "mm"})}
    assert np.max(np.abs(far.astype("f4") - far)) > 1e-3 * 0.05
    assert _checked(_film(tmp_path / "x.h5", x=far.astype("f4")), seen=seen) is None
    with pytest.raises(PdefitError, match="shifted by half"):
        _checked(_film(tmp_path / "y.h5", x=(far + 0.025).astype("f8")), seen=seen)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": X + 0.025}, "x of 'u' in 'x.h5' starts at 0.05 mm where the model's points start at 0.025 mm: shifted by half "
         "the distance between points (0.05 mm); move the model's points (system.grid.origin"),
        ({"x": X - 0.05}, "shifted by 1 times the distance"),
        ({"x": X[::-1]}, "runs from 0.975 to 0.025 mm where the model's points run from 0.025 to 0.975 mm: reversed"),
        ({"y": Y[::-1]}, "y of 'u' in 'x.h5' runs from 3 to -3 mm"),
        ({"x": X * 2}, "has points 0.1 mm apart, from 0.05 to 1.95 mm, where the model's are 0.05 mm apart"),
        ({"x": np.linspace(0, 1, 20)}, "another spacing; correct the model's grid (system.grid.extent, shape), or the file"),
        ({"x": X + 0.01 * np.sin(X * 40)}, "has other positions than the model"),
        ({"x": np.full(20, 3.0)}, "has other positions than the model"),
        ({"x": np.where(X > 0.5, np.nan, X)}, "must be finite numbers"),
        ({"unit": "um"}, "another spacing"),
        ({"unit": "s"}, "'x' in 'x.h5' is in s, but the model expects mm"),
    ],
)  # fmt: skip
def test_positions_that_differ_are_an_error_that_says_how(tmp_path, changes, words):
    with pytest.raises(PdefitError) as error:
        _checked(_film(tmp_path / "x.h5", **changes))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_one_part_in_a_thousand_of_a_cell_is_the_limit(tmp_path):
    assert _checked(_film(tmp_path / "x.h5", x=X + 0.9e-3 * 0.05)) is None
    with pytest.raises(PdefitError, match="shifted by 0.0011 times"):
        _checked(_film(tmp_path / "x.h5", x=X + 1.1e-3 * 0.05))


def test_without_coordinates_the_positions_are_told(tmp_path):
    told = _checked(_film(tmp_path / "x.h5", x=None, y=None, scales=()))
    assert told is not None and "u at x = 0.025 to 0.975 by 0.05 mm, y = -3 to 3 by 3 mm" in told
    assert "'x.h5' does not say" in told
    told = _checked(_film(tmp_path / "x.h5", y=None))
    assert told is not None and "u at y = -3 to 3 by 3 mm" in told and "x =" not in told
    # a scale of another length says nothing about the points of its axis
    told = _checked(_film(tmp_path / "x.h5", x=X[:5]))
    assert told is not None and "u at x = 0.025" in told and "y =" not in told


def test_a_dimension_of_netcdf_without_values_is_no_coordinate(tmp_path):
    xarray.Dataset({"u": (("time", "x", "y"), np.ones((3, 20, 3)))}, {"time": np.arange(3.0)}).to_netcdf(
        tmp_path / "x.nc", engine="h5netcdf"
    )
    told = _checked(tmp_path / "x.nc")
    assert told is not None and "x = 0.025" in told


def test_axes_in_another_order_are_named(tmp_path):
    path = _film(tmp_path / "x.h5", scales=("y", "x"), u=np.ones((3, 3, 20)))
    with pytest.raises(
        PdefitError, match=r"Axis 1 of 'u' in 'x.h5' is y, where the model has x; transpose .*\(time, x, y\)"
    ):
        _checked(path)


def test_the_user_names_coordinates_or_leaves_them_out(tmp_path):
    path = _film(tmp_path / "x.h5", x=X + 0.025, lon=X)
    assert _checked(path, {"x": "lon"}) is None
    told = _checked(path, {"x": None})
    assert told is not None and "u at x = 0.025" in told
    for named, words in (({"z": "lon"}, "data.coordinates"), ({"x": "lat"}, "'lat'"), ({"x": "y"}, "are 20 numbers")):
        with pytest.raises(PdefitError, match=words):
            _checked(path, named)


def test_the_cf_attribute_axis_names_a_coordinate(tmp_path):
    path = _film(tmp_path / "x.h5", scales=("lon", "y"), x=None, lon=X + 0.025)
    assert "x = 0.025" in str(_checked(path))
    with h5py.File(path, "r+") as file:
        file["lon"].attrs["axis"] = "X"
    with pytest.raises(PdefitError, match="lon of 'u' in 'x.h5' starts at 0.05 mm"):
        _checked(path)


def test_a_variable_copied_without_its_scales_has_none(tmp_path):
    _film(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as old, h5py.File(tmp_path / "y.h5", "w") as new:
        old.copy("u", new)
        old.copy("time", new)
    assert "x = 0.025" in str(_checked(tmp_path / "y.h5"))


def test_coordinates_are_not_read_from_other_files(tmp_path):
    _film(tmp_path / "x.h5", scales=())
    path = _film(tmp_path / "y.h5", x=None, scales=("y",))
    with h5py.File(path, "r+") as file:
        file["x"] = h5py.ExternalLink("x.h5", "/x")
    told = _checked(path, seen={"u": FieldCoords(("x",), {"x": X})})
    assert told is not None and "x = 0.025" in told
    with pytest.raises(PdefitError, match="'x' in 'y.h5' is a link"):
        _checked(path, {"x": "x"})


def test_films_of_runs_pass(tmp_path):
    path = films.write_film(tmp_path / "fields.h5", {"plane": films.PLANE, "uneven": films.UNEVEN})
    with Frames(*source_of(path, {"plane": "plane_true", "uneven": "uneven_observed"})) as frames:
        assert check_positions(frames, {"plane": films.PLANE, "uneven": films.UNEVEN}) is None
