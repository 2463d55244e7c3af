from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.readers.formats import read_table
from pdefit.data.readers.locate import locate
from pdefit.data.readers.observations import read_arrays, read_observations

PLANETS = "solar_system/planets_1970_2040_20d.h5"


def _file(path: Path, **changes: Any) -> Path:
    """Five frames of three values in mm; a change to None leaves a dataset out."""
    content = {"time": np.arange(5.0), "height": np.ones((5, 3)), "error": np.asarray([0.1, 0.2, 0.3])} | changes
    with h5py.File(path, "w") as file:
        for name, value in content.items():
            if value is not None:
                file[name] = value
        if "height" in file:
            file["height"].attrs["units"] = "mm"
    return path


def test_a_censored_value_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("t,u\n0,1.0\n1,<0.1\n2,\n")
    with pytest.raises(PdefitError, match="holds '<0.1' in row 2, where a number"):
        read_observations(tmp_path / "a.csv", {"u": "u"}, time="t")


def test_read_the_solar_system():
    seen = read_observations(
        locate(PLANETS),
        {"position": "position", "velocity": "velocity"},
        sigma={"position": "position_sigma"},
        units={"position": "au", "velocity": "au/day"},
        time_unit="day",
        start=0.0,
        stop=14610.0,
    )
    assert seen.ts.shape == (731,) and seen.ts[0] == 0.0 and seen.ts[-1] == 14600.0
    assert seen.values["position"].shape == seen.mask["velocity"].shape == (731, 9, 3)
    assert bool(seen.mask["position"].all())
    with pytest.raises(PdefitError, match="'mass'"):
        read_arrays(locate(PLANETS), {"gm": "mass"})
    arrays = read_arrays(locate(PLANETS), {"gm": "gm", "names": "body"})
    assert arrays["names"].tolist()[:3] == ["Sun", "Mercury", "Venus"]
    assert arrays["gm"].shape == (9,) and arrays["gm"].argmax() == 0


def test_a_time_that_is_none_is_refused():
    with pytest.raises(PdefitError, match="in days, but the model expects mm"):
        read_observations(locate(PLANETS), {"position": "position"}, time_unit="mm")


def test_sigma_of_each_body_stays_with_its_body():
    observations = read_observations(locate(PLANETS), {"position": "position"}, sigma={"position": "position_sigma"})
    with h5py.File(locate(PLANETS), "r", locking=False) as file:
        expected = file["position_sigma"][:]  # pyright: ignore[reportIndexIssue]
    assert observations.sigma["position"].shape == (1, 9, 1)
    np.testing.assert_array_equal(np.ravel(observations.sigma["position"]), expected)


@pytest.mark.parametrize(
    ("sigma", "expected"),
    [
        (0.5, np.full((5, 3), 0.5)),
        ("error", np.tile([0.1, 0.2, 0.3], (5, 1))),
        ("frame", np.tile([[0.4, 0.5, 0.6]], (5, 1))),
    ],
)
def test_sigma_may_be_a_number_or_a_variable(tmp_path, sigma, expected):
    path = _file(tmp_path / "x.h5", frame=np.asarray([[0.4, 0.5, 0.6]]))
    observations = read_observations(path, {"u": "height"}, sigma={"u": sigma})
    assert observations.sigma["u"].ndim == 2
    np.testing.assert_array_equal(np.broadcast_to(np.asarray(observations.sigma["u"]), (5, 3)), expected)


def test_nan_becomes_a_mask(tmp_path):
    height = np.arange(15.0).reshape(5, 3)
    height[1, 2] = height[4, 0] = np.nan
    # a path may be text
    observations = read_observations(str(_file(tmp_path / "x.h5", height=height)), {"u": "height"})
    np.testing.assert_array_equal(np.asarray(observations.mask["u"]), np.isfinite(height))
    np.testing.assert_array_equal(np.asarray(observations.values["u"]), np.nan_to_num(height))


def test_only_the_wanted_times_are_read(tmp_path):
    height = np.arange(15.0).reshape(5, 3)
    path = _file(tmp_path / "x.h5", height=height)
    observations = read_observations(path, {"u": "height"}, start=1.0, stop=3.5)
    assert observations.ts.tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(np.asarray(observations.values["u"]), height[1:4])


def test_a_record_begins_at_its_start(tmp_path):
    path = _file(tmp_path / "film.h5")
    late = read_observations(path, {"u": "height"}, sigma={"u": "error"}, start=1.5, stop=3.0)
    assert np.array_equal(late.ts, [1.5, 2.0, 3.0]) and np.array_equal(late.mask["u"].any(axis=1), [False, True, True])
    assert late.first_frame == 1 and np.array_equal(late.from_first_frame.values["u"], late.values["u"][1:])
    one = read_observations(path, {"u": "height"}, start=1.5, stop=2.0)
    assert np.array_equal(one.ts, [1.5, 2.0]) and one.first_frame == 1


def test_a_frame_alone_is_followed_by_a_time_at_which_nothing_is_seen(tmp_path):
    path = _file(tmp_path / "film.h5")
    alone = read_observations(path, {"u": "height"}, sigma={"u": "error"}, start=1.5, stop=2.75)
    seen = np.array_equal(alone.mask["u"].any(axis=1), [False, True, False])
    assert seen and np.array_equal(alone.ts, [1.5, 2.0, 2.75])
    assert np.broadcast_to(alone.sigma["u"], (3, 3))[1].tolist() == [0.1, 0.2, 0.3]
    first = read_observations(path, {"u": "height"}, stop=0.5)
    assert np.array_equal(first.ts, [0.0, 0.5]) and first.first_frame == 0
    # one that is at the start by chance: the unit of time may be another
    with pytest.raises(PdefitError, match="1 frames between 2 and 2.5;.*on both sides of a frame that is meant alone"):
        read_observations(path, {"u": "height"}, start=2.0, stop=2.5)


def test_variables_inside_groups_are_found(tmp_path):
    path = _file(tmp_path / "x.h5", **{"run1/depth": np.ones(5)})
    assert read_observations(path, {"d": "run1/depth"}).values["d"].shape == (5,)


@pytest.mark.parametrize(
    ("changes", "arguments", "words"),
    [
        ({}, {"variables": {"u": "heigth"}}, ("'heigth'", "did you mean height")),
        ({}, {"time": "tme"}, ("'tme'", "did you mean time")),
        ({}, {"sigma": {"u": "eror"}}, ("'eror'", "error")),
        ({}, {"sigma": {"v": 0.1}}, ("'v'",)),
        ({"height": np.full((5, 3), np.nan)}, {}, ("height", "missing")),
        ({"height": np.ones((4, 3))}, {}, ("height", "(4, 3)", "5 times")),
        ({"height": np.float64(1.0)}, {}, ("height", "()", "5 times")),
        ({"height": np.ones((5, 3), complex)}, {}, ("height", "complex")),
        ({"height": np.asarray([b"a"] * 5)}, {}, ("height", "number")),
        ({"time": np.asarray([0.0, 1.0, 1.0, 2.0, 3.0])}, {}, ("time", "increase")),
        ({"time": np.asarray([0.0, 1.0, np.nan, 2.0, 3.0])}, {}, ("time", "finite")),
        ({"time": np.ones((5, 1))}, {}, ("time",)),
        ({"time": np.asarray([b"2020-01-0%d" % i for i in range(1, 6)])}, {}, ("time",)),
        ({}, {"start": 10.0}, ("0 frames", "0 to 4")),
        ({}, {"sigma": {"u": 0.0}}, ("sigma", "positive")),
        ({}, {"sigma": {"u": -1.0}}, ("sigma", "positive")),
        ({"error": np.asarray([0.1, 0.0, 0.3])}, {"sigma": {"u": "error"}}, ("sigma", "positive")),
        ({"error": np.asarray([0.1, np.nan, 0.3])}, {"sigma": {"u": "error"}}, ("sigma", "finite")),
        ({"error": np.ones(4)}, {"sigma": {"u": "error"}}, ("sigma", "(4,)", "(5, 3)")),
        ({}, {"units": {"u": "s"}}, ("height", "mm", "expects s")),
        ({}, {"units": {"u": "mn"}}, ("height", "mm", "expects mn")),
        ({"error": np.asarray([b"a"] * 3)}, {"sigma": {"u": "error"}}, ("sigma", "text")),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, changes, arguments, words):
    path = _file(tmp_path / "x.h5", **changes)
    with pytest.raises(PdefitError) as error:
        read_observations(path, **({"variables": {"u": "height"}} | arguments))
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("damage", ["missing", "truncated", "not hdf5", "empty"])
def test_bad_file_is_one_sentence_with_its_name(tmp_path, damage):
    path, whole = tmp_path / "x.h5", locate(PLANETS).read_bytes()
    content = {"truncated": whole[: len(whole) // 2], "not hdf5": b"time,height\n0,1\n", "empty": b""}
    if damage in content:
        path.write_bytes(content[damage])
    with pytest.raises(PdefitError) as error:
        read_observations(path, {"position": "position"})
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_read_table(tmp_path):
    (tmp_path / "x.csv").write_text("name,a,b\nx1,1.5,-2e-3\n\nx2,0,7\n")
    assert read_table(tmp_path / "x.csv") == {"x1": {"a": 1.5, "b": -2e-3}, "x2": {"a": 0.0, "b": 7.0}}


@pytest.mark.parametrize("text", ["", "name,a\nx1,one\n", "name,a\nx1\n"])
def test_bad_table_is_refused_by_name(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(PdefitError, match=r"x\.csv"):
        read_table(tmp_path / "x.csv")


def test_arrays_are_read_in_the_unit_of_the_file(tmp_path):
    found = read_arrays(_file(tmp_path / "film.h5"), {"height": "height"})
    np.testing.assert_array_equal(found["height"], np.ones((5, 3)))


def test_units_that_the_model_has_not_are_a_remark(tmp_path, caplog):
    path = _file(tmp_path / "film.h5")
    with h5py.File(path, "a") as file:
        file["time"].attrs["units"] = "ms"
    read_observations(path, {"u": "height"}, units={"u": "1"}, time_unit="1")
    assert "states units of time (ms), height (mm), but the model has none there" in caplog.text
    caplog.clear()
    read_observations(path, {"u": "height"}, units={"u": "mm"}, time_unit="s")
    assert caplog.text == ""
