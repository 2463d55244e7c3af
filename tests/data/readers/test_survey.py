"""Survey of data files."""

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from pdefit._util.errors import PdefitError
from pdefit.data.noise import estimate_noise
from pdefit.data.observations import Observations
from pdefit.data.readers import _films
from pdefit.data.readers.formats import opened
from pdefit.data.readers.observations import read_observations
from pdefit.data.readers.source import DataSource
from pdefit.data.readers.survey import Survey, is_even, survey
from pdefit.data.readers.vectors import about_vectors, vectors_of

TIME, X = np.arange(12) * 0.5, np.linspace(-4.5, 4.5, 30)


def _film(rng: np.random.Generator) -> np.ndarray:
    return np.sin(0.3 * TIME)[:, None] + 0.1 * X + 0.05 * rng.standard_normal((12, 30))


@pytest.fixture
def values() -> np.ndarray:
    return _film(np.random.default_rng(0))


def _surveyed(folder: Path, /, **variables: object) -> Survey:
    """Survey of a file with these variables; a pair is an array and its unit."""
    with h5py.File(folder / "film.h5", "w") as file:
        for name, given in variables.items():
            data, unit = given if isinstance(given, tuple) else (given, None)
            file[name.replace("__", "/")] = data
            if unit is not None:
                file[name.replace("__", "/")].attrs["units"] = unit
    return survey(DataSource(str(folder / "film.h5"), {}))


def test_a_good_film(values, tmp_path):
    found = _surveyed(tmp_path, u=(values, "K"), time=(TIME, "s"), x=(X, "mm"), label="a")
    assert found.remarks == [] and (found.source.times, found.time_unit) == ("time", "s")
    np.testing.assert_array_equal(found.ts, TIME)
    entries = found.entries
    assert (entries["u"].shape, entries["u"].unit, entries["u"].dtype) == ((12, 30), "K", "float64")
    assert (entries["u"].low, entries["u"].high, entries["u"].missing) == (values.min(), values.max(), 0.0)
    assert entries["label"].dtype == "text" and entries["x"].high == X.max()
    (film,) = found.films
    assert (film.name, film.shape, film.coordinates, film.sigma) == ("u", (30,), {}, None)
    np.testing.assert_array_equal(film.positions["x"].values, X)
    # what `sigma: auto` finds
    assert film.noise == estimate_noise(Observations.build(TIME, {"u": values}), "u")
    with found.frames([film.name]) as frames:
        np.testing.assert_array_equal(frames.arrays(3, 4)[0]["u"][0], values[3])


def test_of_a_large_film_the_first_frames_are_looked_at(values, tmp_path, monkeypatch):
    values[4, 7], values[6] = np.nan, values[5]
    remarks = _surveyed(tmp_path, u=values, time=TIME).remarks
    assert any("equal the one before: 1" in r for r in remarks) and any("0.28%" in r for r in remarks)
    monkeypatch.setattr(_films, "_MOST", 120)
    cut = _surveyed(tmp_path, u=values, time=TIME)
    assert any("Only the first 4 of 12 frames of 'u'" in r for r in cut.remarks)
    assert cut.films[0].high == np.nanmax(values[:4])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "No unit is stated for u, time"),
        ({"time": np.delete(np.arange(13) * 0.5, 7)}, "even but for gaps: 1, the first between 3 and 4;"),
        ({"u": np.zeros((12, 30))}, "Frames of 'u' that equal the one before: 11"),
        ({"u": np.zeros((12, 30))}, "Frames of 'u' with one value everywhere: 12"),
        ({"u": np.zeros((12, 30))}, "more than half of the second differences in time of 'u' are exactly zero"),
        ({"u": np.full((12, 30), np.nan)}, "All values of 'u' in 'film.h5' are missing"),
        ({"u": np.full((12, 30), np.inf)}, "'u' in 'film.h5' is infinite in frame 0"),
        ({"u": np.full((12, 30), 1e308) * (-1.0) ** np.arange(12)[:, None]}, "too large for differences"),
        ({"u": np.zeros((12, 30), complex)}, "is of type complex128; numbers are expected; write the parts of complex"),
        ({"u": np.zeros((30, 12))}, "its first axis must be the 12 times, so name its axes in the order of the file"),
        ({"u": np.zeros((12, 0))}, "has frames of shape"),
        ({"time": TIME[::-1]}, "must be finite and increase; sort the file's frames"),
        ({"time": np.where(TIME == 2, np.nan, TIME)}, r"time 4, counted from 0, is nan, after 1.5\)$"),
        ({"x": X * np.nan}, "positions 'x' in 'film.h5' must be finite"),
    ],
)
def test_what_looks_odd_is_told(change, told, values, tmp_path):
    with np.errstate(all="ignore"):
        found = _surveyed(tmp_path, **{"u": values, "time": TIME, **change})
    assert any(re.search(told, remark) for remark in found.remarks), found.remarks


PHASE = 2 * np.pi * np.arange(31) / 30 - TIME[:, None]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (np.sin(PHASE) + 0.3 * np.cos(2 * PHASE), True),
        # extrema and zeros at the ends, at all times
        (np.cos(PHASE + TIME[:, None]) * np.exp(-TIME)[:, None], True),
        (np.sin(PHASE + TIME[:, None]) * np.exp(-TIME)[:, None], True),
        (np.sin(PHASE)[:, :-1], False),
        # equal by symmetry about the ends of the box, and of an arch
        (np.cos(2 * np.pi * (np.arange(30) + 0.5) / 30) * np.exp(-TIME)[:, None], False),
        (np.sin((PHASE + TIME[:, None]) / 2) * np.exp(-TIME)[:, None], False),
        # decayed towards both ends
        (np.exp(-((PHASE + TIME[:, None] - np.pi) ** 2) * 20), False),
    ],
)
def test_ends_of_a_period_that_are_written_twice(values, told, tmp_path):
    found = _surveyed(tmp_path, u=values, time=TIME, x=np.arange(values.shape[1]))
    crop = (
        r"The last point along x of 'u' repeats the first; if x is periodic, leave it out \(data.crop=\[\[0, 30\]\]\)"
    )
    assert any(re.match(crop, remark) for remark in found.remarks) == told


def test_missing_values_of_the_first_frame(tmp_path, caplog):
    values = np.random.default_rng(0).standard_normal((12, 5, 6))
    values[:, 4, 4:] = values[0, :3, :3] = np.nan
    told = "A region of 30% of the first frame of 'u' is missing (NaN) and has values later"
    assert any(told in remark for remark in _surveyed(tmp_path, u=values, time=TIME).remarks)
    read_observations(tmp_path / "film.h5", {"v": "u"})
    assert told in caplog.text
    # what is never seen, and single points, are missing indeed
    values[1:, :3, :3] = np.nan
    values[0, ::2, 5] = np.nan
    assert not any("region" in remark for remark in _surveyed(tmp_path, u=values, time=TIME).remarks)
    values[0] = np.nan
    # the way out holds for the frames that follow, or the one
    for after, remedy in ((values, "begin with a later one"), (values[:2], "give the state there: one frame follows")):
        told = f"The first frame of 'u' has no value, so that nothing is seen of the start; {remedy}"
        assert any(told in remark for remark in _surveyed(tmp_path, u=after, time=TIME[: len(after)]).remarks)


def test_eight_bits_of_a_camera(tmp_path):
    counts = np.random.default_rng(0).integers(0, 256, (12, 5, 6)).astype("u1")
    found = _surveyed(tmp_path, camera__u=counts, time=TIME)
    part = np.mean(counts == 255)
    assert any(f"{part:.2%} of the values of 'camera/u' are 255, the largest" in r for r in found.remarks)
    assert any("'camera/u' holds whole numbers up to 255 without a scale" in r for r in found.remarks)
    with h5py.File(tmp_path / "film.h5", "r+") as file:
        file["camera/u"].attrs["scale_factor"] = 1 / 255
    assert not any(
        "whole numbers" in r or "clipped" in r for r in survey(DataSource(str(tmp_path / "film.h5"), {})).remarks
    )


def _camera(count: int = 12) -> np.ndarray:
    """Frames (time, x, y) of a wave with noise."""
    x, y = np.meshgrid(np.linspace(0, 3, 14), np.linspace(0, 2, 11), indexing="ij")
    wave = np.sin(x - 0.4 * np.arange(count)[:, None, None]) * np.cos(y)
    return wave + 0.02 * np.random.default_rng(0).standard_normal(wave.shape)


def test_dead_and_hot_pixels(tmp_path):
    frames = _camera()
    assert not any("Points of" in remark for remark in _surveyed(tmp_path, u=frames, time=TIME).remarks)
    frames[:, 4, 5], frames[:, 9, 3] = 0.3, frames[:, 9, 3] + 4.0
    # a wall and an obstacle keep still, too, and missing values are neither
    frames[:, 0], frames[:, 6:9, 6:9], frames[3, 9, 9] = 0.0, 0.0, np.nan
    remarks = _surveyed(tmp_path, u=frames, time=TIME).remarks
    assert any("never change while others do: 1, the first at [4, 5]; if these are dead" in r for r in remarks), remarks
    assert any("from their neighbours at all times: 1, the first at [9, 3]; if these are hot" in r for r in remarks)


def test_values_that_pile_up(tmp_path):
    counts = np.minimum(np.random.default_rng(0).normal(3000, 600, (12, 20, 20)), 4095).astype("u2")
    counts[:, :3, :3] = 0
    remarks = _surveyed(tmp_path, u=counts, time=TIME).remarks
    told = f"{np.mean(counts == 4095):.2%} of the values of 'u' are 4095, the largest of all: they may be clipped"
    assert any(told in remark for remark in remarks), remarks
    assert any(f"{np.mean(counts == 0):.2%} of the values of 'u' are exactly 0" in remark for remark in remarks)
    remarks = _surveyed(tmp_path, u=np.random.default_rng(0).poisson(20, (12, 20, 20)).astype("u2"), time=TIME).remarks
    assert not any("clipped" in remark or "exactly 0" in remark for remark in remarks), remarks


@pytest.mark.parametrize(("lamp", "told"), [(10.0, "rises steadily from 199.8 to 309.9"), (-10.0, "falls"), (0.0, "")])
def test_a_drift_of_the_lamp(lamp, told, tmp_path):
    counts = np.random.default_rng(0).poisson(200 + lamp * np.arange(12)[:, None, None], (12, 20, 20)).astype("u2")
    remarks = [r for r in _surveyed(tmp_path, u=counts, time=TIME).remarks if "steadily" in r]
    assert len(remarks) == bool(told) and all(told in remark for remark in remarks)
    # numbers that are no counts may rise
    assert not any("steadily" in r for r in _surveyed(tmp_path, u=counts * 1.0, time=TIME).remarks)


def test_outermost_points_that_never_have_a_value(tmp_path):
    values = _camera()
    values[:, 0] = values[:, -2:] = values[:, :, -1] = np.nan
    found = _surveyed(tmp_path, u=values, time=TIME, x=np.arange(14.0), y=np.arange(11.0))
    (film,) = found.films
    assert film.crop == ((1, 12), (0, 10)) and film.grid == (11, 10) and film.shape == (14, 11)
    assert film.positions["x"].values.tolist() == [*range(1, 12)]
    assert any("never have a value; leave them out (data.crop=[[1, 12], [0, 10]])" in r for r in found.remarks)
    assert not any("repeats the first" in r for r in found.remarks)


def test_times_of_another_name(values, tmp_path):
    found = _surveyed(tmp_path, u=values, t_s=TIME, other=np.arange(7.0))
    assert found.source.times == "t_s" and [f.name for f in found.films] == ["u"]
    named = _surveyed(tmp_path, u=values, clock=TIME, time=TIME[:5], other=np.arange(7.0))
    assert named.source.times == "time" and not named.films
    assert survey(DataSource(str(tmp_path / "film.h5"), {}, "clock")).films[0].name == "u"
    without = _surveyed(tmp_path, u=values)
    assert not without.films and any("data.time" in r for r in without.remarks)


@pytest.mark.parametrize(
    ("columns", "time"),
    [
        # values that rise have a sign, those of a list repeat
        ("t x T-", "t"),
        ("t x T+", "t"),
        ("t+ T+", "t"),
        ("T+ t+ u", "t"),
        ("Time x T", "Time"),
        ("Time+ T+ u", "Time"),
        ("times T+", "times"),
        ("t_s+ time_h+ T+", "time_h"),
        ("year+ Year+ u", "year"),
        ("T+ u", "T"),
        # a heating curve, whose hours have no name that is known, and a list without times
        ("hour+ T+", None),
        ("hour x T", None),
        ("X+ Y+ u", None),
    ],
)
def test_the_times_of_a_table_by_its_header(columns, time, tmp_path):
    values = {"+": np.arange(6), "-": -np.arange(6)}
    names = columns.split()
    table = np.column_stack([values.get(name[-1], np.repeat(np.arange(3), 2) % 3) for name in names])
    header = ",".join(name.rstrip("+-") for name in names)
    np.savetxt(tmp_path / "u.csv", table, delimiter=",", header=header, comments="")
    assert survey(DataSource(str(tmp_path / "u.csv"), {})).source.times == (time or "time")


def test_a_capital_t_is_the_time_of_a_film(tmp_path):
    np.savez(tmp_path / "u.npz", T=TIME, X=X, u=np.random.default_rng(0).standard_normal((12, 30)))
    assert survey(DataSource(str(tmp_path / "u.npz"), {})).source.times == "T"


def test_units_are_missed_where_the_format_has_some(tmp_path):
    (tmp_path / "u.csv").write_text("t,u,v\n0,1,2\n1,2,4\n2,4,1\n")
    assert not any("unit" in remark for remark in survey(DataSource(str(tmp_path / "u.csv"), {})).remarks)
    read_observations(tmp_path / "u.csv", {"u": "u"}, time="t", units={"u": "K"}, time_unit="s")
    (tmp_path / "v.csv").write_text("t [h],u (g/L),v\n0,1,2\n1,2,4\n2,4,1\n")
    found = survey(DataSource(str(tmp_path / "v.csv"), {}))
    assert (found.source.times, found.time_unit, found.entries["u"].unit) == ("t", "h", "g/L")
    told = "No unit is stated for v: the model's are taken; `NAME [UNIT]` in its header tells others"
    assert [remark for remark in found.remarks if "unit" in remark] == [told]


def test_positions_under_other_names(tmp_path):
    values = np.random.default_rng(0).standard_normal((12, 4, 5))
    where = {"time": TIME, "lat": np.arange(4.0), "lon": 2.0 * np.arange(5)}
    xarray.Dataset({"v": (("time", "lat", "lon"), values)}, where).to_netcdf(tmp_path / "v.nc", engine="h5netcdf")
    (film,) = survey(DataSource(str(tmp_path / "v.nc"), {})).films
    assert film.coordinates == {"x": "lat", "y": "lon"}
    np.testing.assert_array_equal(film.positions["y"].values, where["lon"])
    turned = {"y": where["lat"], "x": where["lon"], "time": TIME}
    xarray.Dataset({"v": (("time", "y", "x"), values)}, turned).to_netcdf(tmp_path / "w.nc", engine="h5netcdf")
    assert any(
        "is y, where the model has x; transpose" in r for r in survey(DataSource(str(tmp_path / "w.nc"), {})).remarks
    )


def test_a_variable_that_holds_sigma(values, tmp_path):
    assert _surveyed(tmp_path, u=values, time=TIME, u_std=np.full(30, 0.05)).films[0].sigma == "u_std"
    assert _surveyed(tmp_path, u=values, time=TIME, noise=np.zeros(30)).films[0].sigma is None
    assert _surveyed(tmp_path, u=values, time=TIME, dose=np.ones(30)).films[0].sigma is None


def test_links_are_not_followed(values, tmp_path):
    _surveyed(tmp_path, u=values, time=TIME)
    with h5py.File(tmp_path / "film.h5", "r+") as file:
        file["away"], file["here"] = h5py.ExternalLink("/etc/passwd", "/"), h5py.SoftLink("/u")
    remarks = survey(DataSource(str(tmp_path / "film.h5"), {})).remarks
    assert [r.split(" is a link, and is not followed")[0] for r in remarks if "link" in r] == ["'away'", "'here'"]


def test_what_is_no_hdf5_is_refused(tmp_path):
    (tmp_path / "film.h5").write_text("time,u\n0,1\n")
    with pytest.raises(PdefitError, match="is not an HDF5 file"):
        survey(DataSource(str(tmp_path / "film.h5"), {}))


@pytest.mark.parametrize("listed", ["x", 3, np.zeros(2), b"x"])
def test_a_damaged_list_of_scales(listed, values, tmp_path):
    """HDF5 crashed where it was one text."""
    _surveyed(tmp_path, u=values, time=TIME)
    path = tmp_path / "film.h5"
    with h5py.File(path, "r+") as file:
        file["u"].attrs["DIMENSION_LIST"] = listed
    with opened(path) as file:
        assert file["u"].scales == ([], [])


@pytest.mark.parametrize(
    ("points", "even"), [([1.0], True), ([0, 1, 2], True), ([0, 1, 2.1], False), ([2, 1, 0], True)]
)
def test_even_spacing(points, even):
    assert is_even(np.asarray(points)) is even


def _vortices(folder: Path, order: str, sign: float = 1.0, unit: str = "cm/s") -> Survey:
    """Survey of a film of u = 2 sin x cos 2y and v = -cos x sin 2y, whose divergence is zero."""
    x, y = np.linspace(0.0, 3.0, 31), np.linspace(0.0, 2.0, 21)
    along, across = np.meshgrid(x, y, indexing="ij")
    parts = 2 * np.sin(along) * np.cos(2 * across), -sign * np.cos(along) * np.sin(2 * across)
    noise = 0.001 * np.random.default_rng(0).standard_normal((12, 1, 1))
    fields = {name: (part + noise, unit) for name, part in zip(order, parts, strict=True)}
    return _surveyed(folder, **fields, time=(TIME, "s"), x=(x * 10, "mm"), y=(y * 10, "mm"))


@pytest.mark.parametrize(
    ("order", "sign", "told"),
    [("uv", 1.0, "turned round"), ("vu", 1.0, "; exchange them?"), ("uv", -1.0, "; negate one of them?")],
)
def test_one_line_of_physics_for_vectors(order, sign, told, tmp_path):
    found = _vortices(tmp_path, order, sign)
    vectors = vectors_of(found)
    assert vectors is not None and vectors.names == ("u", "v") and vectors.factor == pytest.approx(10)
    line = about_vectors(found, vectors)
    assert line.endswith(told), line
    # 2 cm/s for half a second, over cells of 1 mm
    assert line.startswith("u, v: 4.9 cells a frame, 10 at most; divergence, relative"), line


def test_a_divergence_that_is_small_either_way_tells_nothing(tmp_path):
    x = np.linspace(0.0, 3.0, 20)
    # of a Taylor-Green flow, which has none with exchanged components either
    u, v = np.outer(np.sin(x), np.cos(x)), -np.outer(np.cos(x), np.sin(x))
    noise = 0.05 * np.random.default_rng(0).standard_normal((2, 12, 1, 1))
    found = _surveyed(
        tmp_path, u=(u + noise[0], "m/s"), v=(v + noise[1], "m/s"), time=(TIME, "s"), x=(x, "m"), y=(x, "m")
    )
    vectors = vectors_of(found)
    assert vectors is not None
    assert about_vectors(found, vectors).endswith("; this does not tell whether components are exchanged")
    remark = "'u' names no axes, of which some are equally long, so their order is open: time, x, y is taken; "
    assert any(line.startswith(remark) for line in found.remarks)


def test_vectors_that_are_no_velocities(tmp_path):
    found = _vortices(tmp_path, "uv", unit="T")
    vectors = vectors_of(found)
    assert vectors is not None and vectors.factor is None
    assert about_vectors(found, vectors).startswith("u, v: divergence")
    assert vectors_of(_surveyed(tmp_path, u=_camera(), w=_camera(), time=TIME)) is None
