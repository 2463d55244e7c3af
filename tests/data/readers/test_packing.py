"""Packed variables: what xarray decodes, and valid ranges, which it leaves to the user."""

import warnings

import h5py
import numpy as np
import pytest
import xarray

from pdefit._util.errors import PdefitError
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import read_observations
from pdefit.data.readers.source import source_of

RAW = np.arange(-6, 9).reshape(5, 3)


def _film(path, raw, attributes, **more):
    """A NetCDF-4 file of five frames with a packed variable `u`."""
    with h5py.File(path, "w") as file:
        file["time"], file["u"] = np.arange(5.0), raw
        file["time"].make_scale("time")
        # xarray wants a dimension scale on every axis
        file["x"] = np.arange(raw.shape[1], dtype=float)
        file["x"].make_scale("x")
        for axis, name in enumerate(("time", "x")):
            file["u"].dims[axis].attach_scale(file[name])  # pyright: ignore[reportAttributeAccessIssue]
        file["u"].attrs.update(attributes)
        for name, value in more.items():
            file[name] = value
    return path


def _values(path):
    with Frames(*source_of(path, {"u": "u"})) as frames:
        return frames.arrays(0, 5)[0]["u"]


@pytest.mark.parametrize(
    ("dtype", "attributes"),
    [
        ("i2", {"scale_factor": 0.25}),
        ("i2", {"add_offset": -3.0}),
        ("i2", {"scale_factor": 1e-4, "add_offset": 0.5, "_FillValue": np.int16(-4)}),
        ("i2", {"scale_factor": np.float32(0.01), "missing_value": np.int16(2)}),
        ("i2", {"scale_factor": [0.5], "_FillValue": np.int16(3), "missing_value": np.int16([1, 2])}),
        ("i4", {"_FillValue": np.int32(5)}),
        ("i4", {"missing_value": 5.0}),
        ("i1", {"_Unsigned": "true", "scale_factor": 0.1}),
        ("i1", {"_Unsigned": b"true", "scale_factor": 0.1, "_FillValue": np.int8(-1)}),
        ("u1", {"_Unsigned": "false", "scale_factor": 2.0}),
        ("u1", {"scale_factor": 1 / 255}),
        ("f4", {"_FillValue": np.float32(7.0)}),
        ("f4", {"_FillValue": np.float32(np.nan)}),
        ("f8", {"missing_value": [1.0, 2.0], "scale_factor": 2.0}),
        ("f8", {"_FillValue": 3.0, "add_offset": 1.0}),
        ("f8", {}),
    ],
)
def test_values_are_those_that_xarray_decodes(tmp_path, dtype, attributes):
    raw = np.abs(RAW).astype(dtype) if dtype == "u1" else RAW.astype(dtype)
    path = _film(tmp_path / "x.nc", raw, attributes)
    with warnings.catch_warnings():
        # two fill values, which it decodes all the same
        warnings.simplefilter("ignore", xarray.SerializationWarning)
        with xarray.open_dataset(path, engine="h5netcdf", decode_times=False) as data:
            expected = data["u"].to_numpy().astype(float)
    found = _values(path)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    # xarray may decode to float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_xarray_writes_packed_is_read_as_it_was(tmp_path):
    u = np.where(RAW == 0, np.nan, RAW / 7)
    data = xarray.Dataset({"u": (("time", "x"), u)}, {"time": np.arange(5.0)})
    packing = {"dtype": "int16", "scale_factor": 1e-4, "add_offset": 0.1, "_FillValue": np.int16(-32768)}
    data.to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding={"u": packing})
    np.testing.assert_allclose(_values(tmp_path / "x.nc"), u, atol=0.5e-4)


def test_integers_of_the_other_byte_order(tmp_path):
    found = _values(_film(tmp_path / "x.nc", RAW.astype(">i2"), {"_Unsigned": "true", "_FillValue": np.int16(-2)}))
    np.testing.assert_array_equal(found, np.where(RAW == -2, np.nan, RAW % 2**16))


@pytest.mark.parametrize(
    ("dtype", "attributes", "valid"),
    [
        ("i2", {"valid_range": np.int16([-2, 4])}, (RAW >= -2) & (RAW <= 4)),
        ("i2", {"valid_range": np.int16([-2, 4]), "scale_factor": 0.01}, (RAW >= -2) & (RAW <= 4)),
        ("i2", {"valid_min": np.int16(1)}, RAW >= 1),
        ("f8", {"valid_max": 3.5, "scale_factor": 0.1}, RAW <= 3.5),
        # in floating point beside packed integers: the range of what they stand for
        ("i2", {"valid_range": [0.0, 0.05], "scale_factor": 0.01}, (RAW >= 0) & (RAW <= 5)),
        ("i1", {"valid_range": np.int8([0, -1]), "_Unsigned": "true"}, np.ones(RAW.shape, bool)),
    ],
)
def test_values_outside_of_the_valid_range_are_missing(tmp_path, dtype, attributes, valid):
    found = _values(_film(tmp_path / "x.nc", RAW.astype(dtype), attributes))
    np.testing.assert_array_equal(np.isfinite(found), valid)


def test_xarray_leaves_valid_ranges_to_the_user():
    """The reason why values are not unpacked by xarray; when it falls, `decode_cf` can do it."""
    attributes = {"scale_factor": 0.5, "valid_range": np.array([1, 2], np.int16)}
    packed = xarray.Dataset({"u": ("x", np.array([1, 2, 3], np.int16), attributes)})
    assert np.array_equal(xarray.decode_cf(packed).u, [0.5, 1.0, 1.5])


def test_times_and_deviations_are_unpacked_too(tmp_path):
    path = _film(tmp_path / "x.nc", RAW.astype("i2"), {}, error=np.full(3, 5, "u1"))
    with h5py.File(path, "r+") as file:
        file["time"].attrs["scale_factor"], file["error"].attrs["scale_factor"] = 0.5, 0.1
    found = read_observations(path, {"u": "u"}, sigma={"u": "error"})
    assert found.ts.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    np.testing.assert_allclose(found.sigma["u"], 0.5)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"scale_factor": "0.1"}, "scale_factor of 'u' in 'x.nc' is no number"),
        ({"scale_factor": [1.0, 2.0]}, r"\[1.0, 2.0\]; one finite number is expected"),
        ({"scale_factor": 0.0}, "of a scale other than 0"),
        ({"add_offset": np.nan}, "one finite number"),
        ({"_FillValue": h5py.Empty("f8")}, "_FillValue of 'u' in 'x.nc' is no number"),
        ({"missing_value": "none"}, "missing_value of 'u' in 'x.nc' is no number"),
        ({"valid_range": 3}, "two numbers are expected"),
        ({"valid_range": np.int16([20, 30])}, "missing .NaN., or fill values, or outside of the valid range"),
    ],
)
def test_attributes_that_mean_nothing_are_refused(tmp_path, attributes, words):
    with pytest.raises(PdefitError, match=words):
        read_observations(_film(tmp_path / "x.nc", RAW.astype("i2"), attributes), {"u": "u"})


def test_infinity_is_an_error_that_names_the_first_frame(tmp_path):
    raw = RAW.astype(float)
    raw[2, 1], raw[3, 0] = -np.inf, np.inf
    path = _film(tmp_path / "x.nc", raw, {})
    with pytest.raises(PdefitError, match=r"'u' in 'x.nc' is infinite in frame 2 \(the first is 0\), at time 2;"):
        read_observations(path, {"u": "u"}, start=1.0)
    # unless the file calls it missing
    path = _film(tmp_path / "y.nc", raw, {"missing_value": [np.inf, -np.inf]})
    assert int(np.sum(np.asarray(read_observations(path, {"u": "u"}).mask["u"]))) == raw.size - 2


@pytest.mark.parametrize(
    ("dtype", "sigma", "attributes", "warned"),
    [
        ("u1", 0.02, {}, True),
        ("i2", 0.02, {}, True),
        ("u1", 1.5, {}, False),
        ("u1", 0.02, {"scale_factor": 1 / 255}, False),
        ("f8", 0.02, {}, False),
    ],
)
def test_whole_numbers_beside_a_finer_sigma_are_a_warning(tmp_path, caplog, dtype, sigma, attributes, warned):
    path = _film(tmp_path / "x.nc", np.abs(RAW).astype(dtype), attributes)
    read_observations(path, {"u": "u"}, sigma={"u": sigma})
    assert ("whole numbers up to 8" in caplog.text and "sigma of u is 0.02" in caplog.text) == warned


def test_a_missing_unit_is_a_warning_where_the_model_has_one(tmp_path, caplog):
    path = _film(tmp_path / "x.nc", RAW.astype(float), {"units": "um"})
    read_observations(path, {"u": "u"}, units={"u": "mm"}, time_unit="s")
    assert "'x.nc' states no unit for time; the model's are taken: s " in caplog.text
    caplog.clear()
    with h5py.File(path, "r+") as file:
        file["time"].attrs["units"] = "ms"
    read_observations(path, {"u": "u"}, units={"u": "mm"}, time_unit="s")
    assert not caplog.text
