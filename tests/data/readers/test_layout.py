"""Order of axes in files that name none, and lists of points."""

import re

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from pdefit._util.errors import PdefitError
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import read_observations
from pdefit.data.readers.source import source_of

TIME, X, Y = np.arange(5.0), np.linspace(0.0, 1.0, 7), np.linspace(0.0, 2.0, 4)
XY = {"x": "x", "y": "y"}
rng = np.random.default_rng(0)


def _file(path, **arrays):
    np.savez(path, **{"time": TIME, "x": X, "y": Y, **arrays})
    return path


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 2, 0, 3), (2, 1, 0, 3), (3, 0, 2, 1)])
def test_axes_are_matched_by_their_lengths(order, tmp_path):
    u = rng.standard_normal((5, 7, 4, 2))
    path = _file(tmp_path / "u.npz", u=u.transpose(order), error=np.exp(u).transpose(order))
    with Frames(*source_of(path, {"u": "u"}, sigma={"u": "error"}, dims=("x", "y"), coordinates=XY)) as frames:
        values, sigma = frames.arrays(1, 4)
        assert len(frames.remarks) == (order != (0, 1, 2, 3)) + (order != (0, 1, 2, 3))
        np.testing.assert_array_equal(frames.coordinate("u", 2, ("x", "y", None), {}, None).values, Y)
    np.testing.assert_array_equal(values["u"], u[1:4])
    np.testing.assert_array_equal(sigma["u"], np.exp(u)[1:4])


def test_the_models_order_decides_and_not_that_of_the_coordinates(tmp_path):
    u = rng.standard_normal((4, 7, 5))
    path = _file(tmp_path / "u.npz", u=u)
    with Frames(*source_of(path, {"u": "u"}, dims=("x", "y"), coordinates={"y": "y", "x": "x"})) as frames:
        np.testing.assert_array_equal(frames.arrays(0, 5)[0]["u"], u.transpose(2, 1, 0))
    # an axis of unknown length takes the place that is left
    path = _file(tmp_path / "v.npz", u=u, x=np.zeros(99))
    with Frames(*source_of(path, {"u": "u"}, dims=("x", "y"))) as frames:
        np.testing.assert_array_equal(frames.arrays(0, 5)[0]["u"], u.transpose(2, 1, 0))


def test_axes_of_length_one_are_dropped(tmp_path):
    path = _file(tmp_path / "u.npz", u=rng.standard_normal((1, 7, 1, 5)), v=rng.standard_normal((5, 1)))
    with Frames(*source_of(path, {"u": "u", "v": "v"}, dims=("x",))) as frames:
        assert frames.shapes == {"u": (7,), "v": (1,)}
    assert read_observations(path, {"v": "v"}).values["v"].shape == (5,)


def test_equal_lengths_need_the_names_of_axes(tmp_path):
    u = rng.standard_normal((5, 5))
    path = _file(tmp_path / "u.npz", u=u, x=X[:5])
    with pytest.raises(PdefitError, match=r"is open; .*\+data.axes=\{u: \[time, x\]\} or .*\{u: \[x, time\]\}"):
        read_observations(path, {"u": "u"}, coordinates={"x": "x"})
    for names, wanted in (["x", "time"], u.T), (["time", "x"], u):
        found = read_observations(path, {"u": "u"}, coordinates={"x": "x"}, axes={"u": names})
        np.testing.assert_allclose(found.values["u"], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "orders"),
    [
        ((40, 5, 5), ["[time, x, y]", "[time, y, x]"]),
        ((5, 5, 40), ["[x, y, time]", "[y, x, time]"]),
        ((5, 40, 5), ["[x, time, y]", "[y, time, x]"]),
    ],
)
def test_every_order_that_is_proposed_is_one_of_the_file(shape, orders, tmp_path):
    u = rng.standard_normal(shape)
    path = _file(tmp_path / "u.npz", time=np.arange(40.0), u=u, x=X[:5], y=X[:5])
    with pytest.raises(PdefitError) as refused:
        Frames(*source_of(path, {"u": "u"}, dims=("x", "y")))
    assert re.findall(r"\[.*?\]", str(refused.value)) == orders
    for order in orders:
        names = order.strip("[]").split(", ")
        with Frames(*source_of(path, {"u": "u"}, dims=("x", "y"), axes={"u": names})) as frames:
            wanted = u.transpose([names.index(name) for name in ("time", "x", "y")])
            np.testing.assert_array_equal(frames.arrays(0, 40)[0]["u"], wanted)


def test_frames_without_times(tmp_path):
    u = rng.standard_normal((7, 4, 5))
    savemat(tmp_path / "u.mat", {"u": u, "line": u[0, 0]})
    with pytest.raises(PdefitError, match="If there are no times, state the time between frames: data.time=0.1"):
        read_observations(tmp_path / "u.mat", {"u": "u"})
    with pytest.raises(PdefitError, match=r"data.axes.u expects a name for each axis of shape \(7, 4, 5\), with time"):
        read_observations(tmp_path / "u.mat", {"u": "u"}, time=0.1)
    found = read_observations(
        tmp_path / "u.mat", {"u": "u"}, time=0.1, time_unit="s", axes={"u": ["y", "x", "time"]}, coordinates=XY
    )
    np.testing.assert_array_equal(found.ts, 0.1 * np.arange(5))
    np.testing.assert_array_equal(found.values["u"], u.transpose(2, 1, 0))
    assert read_observations(tmp_path / "u.mat", {"u": "line"}, time=2.0, start=4.0).ts.tolist() == [4, 6, 8]
    with h5py.File(tmp_path / "u.h5", "w") as file:
        file["u"] = u
    found = read_observations(tmp_path / "u.h5", {"u": "u"}, time=0.5)
    assert found.ts.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3] and found.values["u"].shape == u.shape


def test_a_long_table_comes_with_the_lines_that_read_it(tmp_path):
    rows = [f"{t}\t{name}\t{t + shift}" for t in range(3) for name, shift in (("A", 0), ("B", 5))]
    (tmp_path / "m.tsv").write_text("\n".join(["time\tobservableId\tmeasurement", *rows]))
    with pytest.raises(PdefitError) as refused:
        read_observations(tmp_path / "m.tsv", {"A": "measurement"})
    told = "data.long={value: NAME, time: time, observable: observableId}, or recording: observableId"
    assert "if 'observableId' says what a row measured" in str(refused.value) and told in str(refused.value)
    long = {"value": "measurement", "observable": "observableId"}
    assert read_observations(tmp_path / "m.tsv", {"B": "B"}, long=long).values["B"].tolist() == [5, 6, 7]


def test_names_of_axes_hold_for_hdf5_too(tmp_path):
    u = rng.standard_normal((2, 7, 5))
    with h5py.File(tmp_path / "u.h5", "w") as file:
        file["time"], file["u"], file["x"], file["extra"] = TIME, u, X, np.zeros((9, 9))
        file["u"].attrs["units"], file["x"].attrs["units"] = "mm", "um"
    axes = {"u": ["component", "x", "time"]}
    with Frames(*source_of(tmp_path / "u.h5", {"u": "u"}, units={"u": "m"}, dims=("x",), axes=axes)) as frames:
        np.testing.assert_allclose(frames.arrays(0, 5)[0]["u"], u.transpose(2, 1, 0) / 1000)
        assert frames.coordinate("u", 1, ("x", None), {}, "um").unit == "um"
    # without them a file of HDF5 is taken as it is
    with pytest.raises(PdefitError, match="its first axis must be the 5 times"):
        Frames(*source_of(tmp_path / "u.h5", {"u": "u"}, dims=("x",)))


@pytest.mark.parametrize("names", [["x"], ["x", "y"], ["time", "time"], ["x", "time", "y"]])
def test_names_that_fit_no_axes_are_refused(names, tmp_path):
    path = _file(tmp_path / "u.npz", u=np.zeros((7, 5)))
    with pytest.raises(PdefitError, match="data.axes.u expects a name for each axis"):
        Frames(*source_of(path, {"u": "u"}, axes={"u": names}))
    with pytest.raises(PdefitError, match=r"No variable \(data.axes\) is called 'w'"):
        Frames(*source_of(path, {"u": "u"}, axes={"w": names}))


ROWS = np.array([  # time, x, y, u, error
    [1.0, 0.5, 0.1, 11.0, 0.1], [0.0, 0.2, 0.3, 1.0, 0.2], [2.0, 0.1, 0.9, 21.0, 0.3], [0.0, 0.1, 0.4, 2.0, 0.4],
    [2.0, 0.3, 0.2, np.nan, 0.5], [0.0, 0.2, 0.1, 3.0, 0.6],
])  # fmt: skip


@pytest.mark.parametrize("format", ["csv", "npz", "h5"])
def test_a_list_is_grouped_by_times(format, tmp_path):
    path, columns = tmp_path / f"u.{format}", dict(zip(("t", "x", "y", "u", "error"), ROWS.T, strict=True))
    if format == "csv":
        np.savetxt(path, ROWS, delimiter=",", header=",".join(columns), comments="")
    elif format == "npz":
        np.savez(path, **columns)
    else:
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[name] = values
            file["x"].attrs["units"] = "m"
    found = read_observations(
        path, {"u": "u"}, sigma={"u": "error"}, time="t", coordinates=XY, points=True, length_unit="mm"
    )
    np.testing.assert_array_equal(found.ts, [0, 1, 2])
    np.testing.assert_array_equal(found.values["u"], [[2, 3, 1], [11, 0, 0], [21, 0, 0]])
    np.testing.assert_array_equal(found.mask["u"], [[1, 1, 1], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(found.sigma["u"][0], [0.4, 0.6, 0.2])
    scale = 1000 if format == "h5" else 1
    np.testing.assert_allclose(found.positions["u"][0, :, 0], np.array([0.1, 0.2, 0.2]) * scale)
    np.testing.assert_allclose(found.positions["u"][1:, 0], [[0.5 * scale, 0.1], [0.1 * scale, 0.9]])
    later = read_observations(path, {"u": "u"}, time="t", coordinates=XY, points=True, start=1.0)
    np.testing.assert_allclose(later.positions["u"][1, 0], [0.1, 0.9])


def test_a_list_on_one_grid_is_a_film(tmp_path):
    u = rng.standard_normal((5, 7))
    t, x = (a.ravel() for a in np.meshgrid(TIME, X, indexing="ij"))
    mixed = rng.permutation(t.size)
    np.savez(tmp_path / "u.npz", time=t[mixed], x=x[mixed], u=u.ravel()[mixed])
    with Frames(*source_of(tmp_path / "u.npz", {"u": "u"}, dims=("x",))) as frames:
        np.testing.assert_array_equal(frames.arrays(0, 5)[0]["u"], u)
        np.testing.assert_array_equal(frames.coordinate("u", 1, ("x",), {}, None).values, X)


def test_points_of_a_film(tmp_path):
    """Values (time, point) with coordinates that stay, or that change with time."""
    moving = rng.standard_normal((5, 3))
    with h5py.File(tmp_path / "u.h5", "w") as file:
        file["time"], file["u"], file["x"], file["y"] = TIME, np.ones((5, 3)), np.arange(3.0), moving
        file["z"], file["w"] = np.arange(4.0), np.ones((5, 3, 2))
    moving[2, 1] = np.nan
    with h5py.File(tmp_path / "u.h5", "r+") as file:
        file["y"][...] = moving
    found = read_observations(tmp_path / "u.h5", {"u": "u"}, coordinates=XY, points=True)
    assert found.positions["u"].shape == (5, 3, 2) and not found.mask["u"][2, 1]
    np.testing.assert_allclose(found.positions["u"][0, :, 1], moving[0], rtol=1e-6)
    only = read_observations(tmp_path / "u.h5", {"u": "u"}, coordinates={"x": "x"}, points=True)
    assert only.positions["u"].shape == (1, 3, 1)
    for variable, where, told in (
        ("u", {"x": "z"}, "'z' in 'u.h5' has shape"),
        ("w", XY, "values at points are expected"),
    ):
        with pytest.raises(PdefitError, match=told):
            read_observations(tmp_path / "u.h5", {"u": variable}, coordinates=where, points=True)
    with pytest.raises(PdefitError, match="points expects coordinates"):
        read_observations(tmp_path / "u.h5", {"u": "u"}, points=True)
