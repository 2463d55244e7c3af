"""pdefit check."""

import re

import films
import h5py
import matplotlib.axes
import numpy as np
import pytest
import tifffile
import xarray
import yaml
from PIL import Image

import pdefit
from pdefit.cli.config._reader import read_section
from pdefit.cli.config.sources import DataSettings
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.source import source_of

TIME, X = np.linspace(0.0, 6.0, 13), np.linspace(-39.5, 39.5, 80)


@pytest.fixture
def film(tmp_path) -> np.ndarray:
    """A front with noise in film.h5, as an experiment of it is tested in many places."""
    values = 1 / (1 + np.exp(X - 2 * TIME[:, None])) + 0.02 * np.random.default_rng(0).standard_normal((13, 80))
    with h5py.File(tmp_path / "film.h5", "w") as file:
        file["u"], file["time"], file["x"] = values, TIME, X
        for name, unit in (("u", "1"), ("time", "s"), ("x", "mm")):
            file[name].attrs["units"] = unit
    return values


def _configuration(out: str) -> dict:
    found = yaml.safe_load(out[out.index("\ndata:") :].partition("\nfilm.h5.check.png")[0])
    # what is proposed is a source that says the same
    assert read_section(DataSettings, found["data"], "data").entries == found["data"]
    return found


def _flat(node: dict, path: str = "") -> list[str]:
    """Overrides of the command line that set what a mapping holds."""
    return [
        line
        for key, value in node.items()
        for line in (_flat(value, f"{path}{key}.") if isinstance(value, dict) else [f"++{path}{key}={value}"])
    ]


def test_a_film_and_the_experiment_that_fits_it(film, pdefit_inside, tmp_path):
    code, out, err = pdefit_inside("check", "film.h5")
    assert code == 0 and not err, err
    assert "13 in 'time', from 0 to 6 s, every 0.5 s" in out and "remark" not in out
    assert re.search(rf"u\s+\(13, 80\)\s+1\s+float64\s+{film.min():.5g} to {film.max():.5g}", out)
    assert re.search(r"sigma of u = 0\.0\d+ ±\d+%, estimated from", out)
    found = _configuration(out)
    assert found["data"] == {"path": "film.h5", "variables": {"u": "u"}, "sigma": "auto"}
    grid = {"shape": [80], "extent": [80.0], "origin": [-40.0], "length_unit": "mm"}
    assert found["system"] == {"grid": grid}
    # the lines are those of an experiment that a fit takes
    exp = pdefit.load_experiment("reaction/fisher_front", ["~twin", "noise=0", "times.count=null", *_flat(found)])
    np.testing.assert_array_equal(exp.source.record.values["u"], film)
    assert f"sigma of u = {exp.source.noise['u'].sigma:.3g} " in out
    with Image.open(tmp_path / "film.h5.check.png") as picture:
        assert picture.size[0] == 1120 and np.ptp(np.asarray(picture)) > 200


def test_a_picture_is_replaced_and_that_is_said(film, pdefit_inside, tmp_path):
    assert "is written" not in pdefit_inside("check", "film.h5", "picture=false")[1]
    assert not (tmp_path / "film.h5.check.png").exists()
    (tmp_path / "film.h5.check.png").write_text("mine")
    assert "film.h5.check.png is written (in place of an earlier one)" in pdefit_inside("check", "film.h5")[1]


def test_frames_of_every_shape_are_drawn(pdefit_inside, tmp_path):
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "film.h5", "w") as file:
        file["time"] = TIME
        for name, shape in {"a": (), "b": (5,), "c": (4, 30), "d": (3, 4, 5), "e": (6,)}.items():
            file[name] = rng.standard_normal((13, *shape))
    code, out, _ = pdefit_inside("check", "film.h5")
    with Image.open(tmp_path / "film.h5.check.png") as picture:
        # four variables at most
        assert code == 0 and picture.size[1] == pytest.approx(160 * (0.4 + 2.1 * 4), abs=2)
    assert "No positions are stated for 'b'" in out and "No unit is stated for a, b, c, d, e, time" in out


def test_what_the_experiment_must_be_told(pdefit_inside, tmp_path):
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "film.h5", "w") as file:
        file["camera/u"], file["camera/t"] = rng.integers(0, 200, (13, 4, 5)).astype("u1"), TIME
        file["camera/u_std"] = np.full((4, 5), 3.0)
    code, out, _ = pdefit_inside("check", "film.h5", "picture=false")
    assert code == 0 and "remark: 'camera/u' holds whole numbers up to 199 without a scale" in out
    assert _configuration(out) == {
        "data": {
            "path": "film.h5",
            "variables": {"u": "camera/u"},
            "time": "camera/t",
            "sigma": {"u": "camera/u_std"},
        },
        "system": {"grid": {"shape": [4, 5]}},
    }
    assert "# extent: [...], the lengths of the box along x, y" in out


def test_positions_that_no_grid_has(film, pdefit_inside, tmp_path):
    for changed in (X[::-1], X**3):
        with h5py.File(tmp_path / "film.h5", "r+") as file:
            file["x"][...] = changed
        out = pdefit_inside("check", "film.h5", "picture=false")[1]
        assert "Positions along x of 'u' do not increase in equal steps" in out


def test_a_table_without_known_times_asks_for_their_name(pdefit_inside, tmp_path):
    (tmp_path / "counts.csv").write_text("hour,A\n0.0,9\n0.5,7\n1.0,4\n")
    code, _, err = pdefit_inside("check", "counts.csv")
    assert code == 1 and "name the times: pdefit check counts.csv time=NAME" in err
    assert pdefit_inside("check", "counts.csv", "time=hour", "picture=false")[0] == 0
    (tmp_path / "words.csv").write_text("name\nA\nB\n")
    assert "; correct what the remarks name" in pdefit_inside("check", "words.csv")[2]


def test_what_a_fit_refuses_is_a_remark(film, pdefit_inside, tmp_path):
    with h5py.File(tmp_path / "film.h5", "r+") as file:
        file["u"][3, 4] = np.inf
    code, out, err = pdefit_inside("check", "film.h5")
    # the sentence that a fit answers
    overrides = [
        "~twin",
        "noise=0",
        "times.count=null",
        "system.grid.shape=[80]",
        "+data.path=film.h5",
        "+data.variables.u=u",
    ]
    with pytest.raises(pdefit.PdefitError) as refused:
        pdefit.load_experiment("reaction/fisher_front", overrides)
    assert code == 1 and f"remark: {refused.value}" in out
    assert "holds no variable that a fit takes" in err and not (tmp_path / "film.h5.check.png").exists()


def test_files_of_other_kinds_come_with_the_command_for_hdf5(pdefit_inside, tmp_path):
    tifffile.imwrite(tmp_path / "stack.tif", np.zeros((6, 4, 5), "u1"))
    np.save(tmp_path / "stack.npy", np.zeros(3))
    (tmp_path / "one.txt").write_text("# x y u v flags mask\n1 1 0 0 0 0\n")
    for name, kind, remedy in (
        ("stack.tif", "a TIFF file", "run `pdefit import film stack.tif out=stack.h5 "),
        ("stack.npy", "a NumPy array", "numpy.savez('stack.npz', u=numpy.load('stack.npy'), time=TIMES)"),
        ("one.txt", "OpenPIV text", "run `pdefit import piv one.txt out=one.h5`"),
    ):
        code, _, err = pdefit_inside("check", name)
        assert code == 1 and f"is {kind}" in err and remedy in err
        assert len(err.strip().splitlines()) == 1


def test_a_file_of_matlab_is_shown_with_its_times_first(pdefit_inside):
    code, out, err = pdefit_inside("check", "classics/burgers_shock.mat", "picture=false")
    assert code == 0, err
    assert "usol      (256, 100)" in out and "put into the order (100, 256), times first" in out
    assert _configuration(out) == {
        "data": {
            "path": "classics/burgers_shock.mat",
            "variables": {"usol": "usol"},
            "time": "t",
            "sigma": "auto",
        },
        "system": {"grid": {"shape": [256], "extent": [2.007843137], "origin": [-1.003921569]}},
    }


def test_tables_of_series_and_of_points(pdefit_inside, tmp_path):
    (tmp_path / "pelts.csv").write_text("year,lynx,hare\n1900,4,30\n1901,6,47\n1902,10,70\n")
    code, out, _ = pdefit_inside("check", "pelts.csv", "picture=false")
    assert code == 0
    data = {"path": "pelts.csv", "variables": {"hare": "hare", "lynx": "lynx"}, "time": "year"}
    # remark and lines agree: three years show no noise
    assert _configuration(out) == {"data": data} and out.count("leave sigma out, so that residuals decide it") == 2
    assert "# differences in time show no sigma of hare, lynx: leave it out, or state sigma: {hare: NUMBER, lynx" in out
    (tmp_path / "probes.csv").write_text("t,x,y,u\n0,1,2,3\n0,2,2,4\n1,1,3,5\n2,0,0,6\n")
    code, out, _ = pdefit_inside("check", "probes.csv", "picture=false")
    assert code == 0 and "is a list of 4 points; they were grouped into 3 times of 2 at most" in out
    data = {
        "path": "probes.csv",
        "variables": {"u": "u"},
        "time": "t",
        "coordinates": {"x": "x", "y": "y"},
    }
    observe = {"name": "at", "fields": ["u"]}
    # its points are elsewhere at each time
    assert (
        _configuration(out) == {"data": data, "observe": observe} and "leave it out, or state sigma: {u: NUMBER}" in out
    )
    (tmp_path / "places.csv").write_text("t,lon,lat,u\n0,1,2,3\n0,2,2,4\n1,1,3,5\n2,0,0,6\n")
    code, out, _ = pdefit_inside("check", "places.csv", "picture=false")
    assert code == 1 and "(time 1, counted from 0, is 0, after 0); if it lists points, name their coordinates" in out
    code, out, _ = pdefit_inside("check", "places.csv", "x=lon", "y=lat", "picture=false")
    places = {"path": "places.csv", "coordinates": {"x": "lon", "y": "lat"}}
    assert code == 0 and _configuration(out) == {"data": data | places, "observe": observe}


def test_sigma_of_each_variable_is_proposed_where_it_can_be_had(pdefit_inside, tmp_path):
    u = 0.1 * np.random.default_rng(0).standard_normal(40)
    _written(tmp_path / "film.h5", time=np.arange(40.0), u=u, v=np.arange(40.0) // 20, w=u, w_sigma=np.full(40, 0.1))
    found = _configuration(out := pdefit_inside("check", "film.h5", "picture=false")[1])
    assert found["data"]["sigma"] == {"u": "auto", "w": "w_sigma"}
    assert "second differences in time of 'v' are exactly zero" in out and "no sigma of v: leave it out" in out


def test_a_list_of_points_whose_temperature_is_called_T(pdefit_inside, tmp_path):
    rows = [f"{t},{x},{20 - t / 9 - x / 50 + 0.01 * ((7 * t + x) % 3)}" for t in range(3) for x in (10, 20, 30)]
    (tmp_path / "points.csv").write_text("\n".join(["t,x,T", *rows]))
    code, out, err = pdefit_inside("check", "points.csv", "picture=false")
    assert code == 0, err
    assert _configuration(out)["data"] == {"path": "points.csv", "variables": {"T": "T"}, "time": "t"}


def test_an_axis_of_components_is_no_axis_of_the_grid(pdefit_inside, tmp_path):
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "film.h5", "w") as file:
        file["time"], file["velocity"] = TIME, rng.standard_normal((13, 4, 5, 2))
        file["x"], file["y"], file["component"] = np.arange(4.0), np.arange(5.0), np.array([b"u", b"v"])
        for axis, name in enumerate(("x", "y", "component"), 1):
            file[name].make_scale(name)
            file["velocity"].dims[axis].attach_scale(file[name])
    code, out, err = pdefit_inside("check", "film.h5", "picture=false")
    assert code == 0 and "component" not in out.partition("For an experiment")[2], out + err
    assert _configuration(out)["system"] == {"grid": {"shape": [4, 5], "extent": [4.0, 5.0], "origin": [-0.5, -0.5]}}


def _written(path, **variables):
    with h5py.File(path, "w") as file:
        for name, values in variables.items():
            file[name] = values


def test_a_bare_axis_of_components_is_no_z(pdefit_inside, tmp_path):
    values = np.random.default_rng(0).standard_normal((13, 4, 5, 2))
    _written(tmp_path / "film.h5", time=TIME, velocity=values, x=np.arange(4.0), y=np.arange(5.0))
    code, out, err = pdefit_inside("check", "film.h5", "picture=false")
    assert code == 0 and "has 2 entries and no positions, so it is taken for components" in out, err
    found = _configuration(out)
    assert found["data"]["variables"] == {"velocity_0": "velocity[0]", "velocity_1": "velocity[1]"}
    assert found["system"]["grid"]["shape"] == [4, 5]
    window = "a window of a flow has its vectors at the corners of cells: shape: [3, 4], extent: [3.0, 4.0]\n"
    assert window in out and "attributes `units` of positions, time and velocities" in out
    with Frames(*source_of(tmp_path / "film.h5", found["data"]["variables"])) as frames:
        np.testing.assert_array_equal(frames.arrays(0, 13)[0]["velocity_1"], values[..., 1])


def test_velocities_are_a_window_of_a_flow(pdefit_inside, tmp_path):
    """By an axis of components with names, its outermost vectors missing; the lines are those of an experiment."""
    values = np.random.default_rng(0).standard_normal((13, 7, 6, 2))
    values[:, 0] = np.nan
    where = {"time": ("time", TIME, {"units": "s"}), "component": ["u", "v"]}
    where |= {dim: (dim, 0.5 * np.arange(n), {"units": "mm"}) for dim, n in (("x", 7), ("y", 6))}
    vectors = {"velocity": (("time", "x", "y", "component"), values, {"units": "mm/s"})}
    xarray.Dataset(vectors, where).to_netcdf(tmp_path / "film.h5", engine="h5netcdf")
    code, out, err = pdefit_inside("check", "film.h5", "picture=false")
    assert code == 0 and "vectors: velocity[u], velocity[v]: " in out, err
    grid = {"shape": [5, 5], "extent": [2.5, 2.5], "origin": [0.5, 0.0], "length_unit": "mm"}
    assert yaml.safe_load(lines := out[out.index("\ndefaults:") :]) == {
        "defaults": [{"/system": "flow/window"}],
        "data": {
            "path": "film.h5",
            "variables": {"u": "velocity[u]", "v": "velocity[v]"},
            "sigma": "auto",
            "crop": [[1, 7], [0, 6]],
        },
        "system": {"grid": grid, "unit_of_time": "s"},
        "observe": {"name": "corners"},
    }
    (tmp_path / "own.yaml").write_text(f"# @package _global_{lines}controls: {{viscosity: {{transform: log}}}}\n")
    assert "not yet a whole experiment: docs/how-to/import-piv.md" in out and "amplitude, are in mm and mm/s\n" in out
    source = pdefit.load_experiment("own.yaml").source
    np.testing.assert_array_equal(source.record.values["v"], values[:, 1:, :, 1])


def test_without_a_plugin_that_knows_them_velocities_are_fields(pdefit_inside, tmp_path, monkeypatch):
    monkeypatch.setattr("pdefit.cli.commands.check.proposal", lambda data: {})
    where = {"time": ("time", TIME, {"units": "s"})}
    where |= {dim: (dim, 0.5 * np.arange(n), {"units": "mm"}) for dim, n in (("x", 7), ("y", 6))}
    values = np.random.default_rng(0).standard_normal((2, 13, 7, 6))
    vectors = {name: (("time", "x", "y"), v, {"units": "mm/s"}) for name, v in zip("uv", values, strict=True)}
    xarray.Dataset(vectors, where).to_netcdf(tmp_path / "film.h5", engine="h5netcdf")
    code, out, err = pdefit_inside("check", "film.h5", "picture=false")
    assert code == 0 and "vectors: u, v: " in out and "a window" not in out, err
    found = _configuration(out)
    assert "defaults" not in found and found["data"]["variables"] == {"u": "u", "v": "v"}


def test_deviations_counts_and_phases_are_no_fields(pdefit_inside, tmp_path):
    rng = np.random.default_rng(0)
    fields = {n: 1 + rng.random((13, 4, 5)) for n in ("u", "u_sigma", "count")}
    fields["u"][3, 1] = fields["u_sigma"][3, 1] = np.nan
    _written(tmp_path / "film.h5", time=TIME, **fields)
    data = {"path": "film.h5", "variables": {"u": "u"}, "sigma": {"u": "u_sigma"}}
    out = pdefit_inside("check", "film.h5", "picture=false")[1]
    assert _configuration(out)["data"] == data
    # nor is their noise of interest, or what they lack
    assert out.count("sigma of ") == 1 and out.count("values of 'u' are missing") == out.count("are missing") == 1
    films.write_film(tmp_path / "film.h5", {"heat": films.PLANE}, kinds=("true", "predicted"))
    found = _configuration(pdefit_inside("check", "film.h5", "picture=false")[1])
    assert found["data"]["variables"] == {"heat_true": "heat_true"}


def test_points_that_move_are_no_grid(pdefit_inside, tmp_path):
    rng = np.random.default_rng(0)
    _written(tmp_path / "film.h5", time=TIME, point=np.arange(7.0), **{n: rng.random((13, 7)) for n in "uvxy"})
    with h5py.File(tmp_path / "film.h5", "r+") as file:
        file["point"].make_scale("point")
        for name in "uvxy":
            file[name].dims[1].attach_scale(file["point"])
    code, out, err = pdefit_inside("check", "film.h5", "picture=false")
    assert code == 0, err
    found = _configuration(out)
    assert found["observe"] == {"name": "at", "fields": ["u", "v"]} and "system" not in found
    assert found["data"]["coordinates"] == {"x": "x", "y": "y"}
    # each time has another point at the same place of the list
    assert "sigma" not in found["data"] and "or state sigma: {u: NUMBER, v: NUMBER}" in out
    with h5py.File(tmp_path / "film.h5", "r+") as file:
        for name in "xy":
            file[name][...] = file[name][0]
    assert _configuration(pdefit_inside("check", "film.h5", "picture=false")[1])["data"]["sigma"] == "auto"


def test_the_picture_shows_the_first_axis_to_the_right_at_its_positions(monkeypatch, pdefit_inside, tmp_path):
    with h5py.File(tmp_path / "film.h5", "w") as file:
        file["time"], file["u"] = TIME, np.random.default_rng(0).standard_normal((13, 4, 6))
        file["x"], file["y"] = 10 + np.arange(4.0), 0.5 * np.arange(6)
        file["x"].attrs["units"] = "mm"
    drawn = []
    real = matplotlib.axes.Axes.imshow
    monkeypatch.setattr(
        matplotlib.axes.Axes, "imshow", lambda axes, *a, **k: drawn.append((axes, a[0], k)) or real(axes, *a, **k)
    )
    assert pdefit_inside("check", "film.h5")[0] == 0
    axes, image, options = drawn[0]
    with h5py.File(tmp_path / "film.h5") as file:
        np.testing.assert_array_equal(image, file["u"][0].T)
    assert options["extent"] == (9.5, 13.5, -0.25, 2.75) and options["origin"] == "lower"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x (mm)", "y")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "check expects one data file"),
        (["a.h5", "b.h5"], "check expects one data file"),
        (["-h"], "check expects one data file"),
        (["nothing.h5"], "The data file 'nothing.h5' does not exist"),
        (["."], "is a folder, where a data file is expected; name a file in it"),
        (["film.h5", "picture=maybe"], "picture expects true or false"),
        (["film.h5", "tme=t"], "No key of check is called 'tme'; did you mean time"),
        (["film.h5", "time=clock"], "holds no variable that a fit takes"),
    ],
)
def test_mistakes_are_one_sentence(words, told, film, pdefit_inside):
    code, _, err = pdefit_inside("check", *words)
    assert code == 1 and told in err and len(err.strip().splitlines()) == 1


def test_names_in_a_file_are_text(pdefit_inside, tmp_path):
    with h5py.File(tmp_path / "film.h5", "w") as file:
        file["time"], file["[red]$\\frac{\x1b[31m"] = TIME, np.random.default_rng(0).standard_normal((13, 4))
    code, out, _ = pdefit_inside("check", "film.h5")
    assert code == 0 and "[red]$" in out and "\x1b" not in out
    assert (tmp_path / "film.h5.check.png").exists()


def test_recordings_on_a_sphere_and_the_lines_that_fit_them(pdefit_inside, tmp_path):
    """The documented layout: (experiment, time, theta, phi, component), with a radius and a frame time of each."""
    values = np.random.default_rng(0).standard_normal((3, 12, 5, 8, 2)).astype(np.float32)
    values[:, :, :, :3] = values[2] = np.nan
    axes = ("experiment", "time", "theta", "phi", "component")
    xarray.Dataset(
        {
            "velocity": (axes, values, {"units": "um/min"}),
            "radius": ("experiment", [300.0, 310.0, 320.0], {"units": "um"}),
            "frame_time": ("experiment", [2.0, 3.0, 4.0], {"units": "min"}),
        },
        {
            "experiment": ["a", "b", "c"],
            "theta": ("theta", np.linspace(0.3, 2.8, 5), {"units": "rad"}),
            "phi": ("phi", np.arange(8) * np.pi / 4, {"units": "rad"}),
            "component": ["theta", "phi"],
        },
    ).to_netcdf(tmp_path / "embryos.h5", engine="h5netcdf")
    code, out, err = pdefit_inside("check", "embryos.h5", "picture=false")
    assert code == 0 and not err, err
    assert "recordings: 3 along 'experiment', a to c; a is looked at" in out
    assert "12 in 'time', from 0 to 22 min, every 2 min" in out
    assert "(experiment = c)' has no frame with a time and a value" in out and out.count("remark") == 3
    found = yaml.safe_load(out[out.index("\ndata:") :])
    assert found == {
        "data": {
            "path": "embryos.h5",
            "variables": {"u_theta": "velocity[theta]", "u_phi": "velocity[phi]"},
            "sigma": "auto",
            "system": {"sphere.radius": "radius"},
        },
        "recordings": "experiment",
        "observe": {"name": "sphere/raster"},
    }
    # without the recording that the remark names, the lines are those of an experiment that a fit takes
    chosen = "{a: {data: {select: {experiment: a}}}, b: {data: {select: {experiment: b}}}}"
    small = [
        "system.sphere.degree=2",
        "system.force.knots=[4,4,5]",
        "gauge={orientation: 0}",
        "observe={name: sphere/raster}",
    ]
    ours = [
        "data.path=embryos.h5",
        "data.sigma=auto",
        "~data.truth",
        "~data.system",
        "+data.system={sphere.radius: radius}",
    ]
    exp = pdefit.load_experiment("sphere/embryo_twin", [*small, *ours, "~recordings", f"+recordings={chosen}"])
    assert [one.source.record.ts[-1] for one in exp.each.values()] == [22.0, 33.0]


def test_a_small_film_in_metres_has_lengths_that_can_be_read(film, pdefit_inside, tmp_path):
    with h5py.File(tmp_path / "film.h5", "r+") as file:
        file["x"][...], file["x"].attrs["units"] = X * 1e-6, "m"
    grid = _configuration(pdefit_inside("check", "film.h5")[1])["system"]["grid"]
    assert grid == {"shape": [80], "extent": [80.0], "origin": [-40.0], "length_unit": "um"}


def test_a_first_row_that_is_not_at_zero_is_told_with_the_time_of_the_initial_state(pdefit_inside, tmp_path):
    (tmp_path / "growth.csv").write_text("t,od\n" + "".join(f"{t},{0.05 * t}\n" for t in range(1, 30)))
    code, out, err = pdefit_inside("check", "growth.csv")
    assert code == 0 and "# times: {start: 0.0}, the time of your initial state" in out and "frame, at 1\n" in out, err
