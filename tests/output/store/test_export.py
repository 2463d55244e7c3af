import films
import numpy as np
import pytest
import tifffile
import xarray

from pdefit._util.errors import PdefitError
from pdefit.data.importers.film import film
from pdefit.data.readers.fields import open_film
from pdefit.data.readers.observations import read_observations
from pdefit.output.store.export import export
from pdefit.systems.coordinates import FieldCoords

FIELDS = {"u": films.PLANE, "v": films.PLANE, "position": films.BODIES}


@pytest.fixture
def run(tmp_path):
    films.write_film(tmp_path / "fields.h5", FIELDS, frames=4, total=6, fitted=3)
    return tmp_path


def test_netcdf_is_what_xarray_reads_from_the_film(run):
    (path,) = export(run / "fields.h5", run / "export", "netcdf")
    with xarray.open_dataset(path, engine="h5netcdf") as copy:
        copy = copy.drop_vars("n_done").load()
    with xarray.open_dataset(run / "fields.h5", engine="h5netcdf") as whole:
        expected = whole.drop_vars("n_done").isel(time=slice(0, 4)).load()
    xarray.testing.assert_identical(copy, expected)


def test_netcdf_keeps_vectors_and_diagnostics(tmp_path):
    path = films.write_film(tmp_path / "fields.h5", films.STAGGERED, diagnostics=films.SCALARS)
    (copied,) = export(path, tmp_path, "netcdf")
    with open_film(path) as whole, open_film(copied) as copy:
        assert [*copy.diagnostics] == [*whole.diagnostics] == [*films.SCALARS]
        assert copy.fields["w"].vector == "velocity" and copy.fields["w"].component == "z"
        assert copy.frame("reynolds", "true", 3) == whole.frame("reynolds", "true", 3)


def test_numpy_needs_no_pickle(run):
    (path,) = export(run / "fields.h5", run / "export", "numpy", ["u", "position"])
    with np.load(path, allow_pickle=False) as found:
        assert set(found.files) == {
            "time", "phase", "x", "y", "body", "axis", *(f"{n}_{k}" for n in ("u", "position") for k in films.KINDS)
        }  # fmt: skip
        assert found["u_true"].shape == (4, 24, 17) and found["body"].tolist() == ["Sun", "Venus", "Ceres <1>"]
        assert np.array_equal(found["u_true"][2], films.wave(films.PLANE, 1.0))
        assert found["phase"].tolist() == [0, 0, 0, 1]


def test_tiff_is_a_stack_that_imagej_reads(run):
    paths = export(run / "fields.h5", run / "export", "tiff", ["u"])
    assert sorted(p.name for p in paths) == ["u_observed.tif", "u_predicted.tif", "u_true.tif"]
    with tifffile.TiffFile(run / "export" / "u_true.tif") as file:
        assert file.is_imagej and file.series[0].axes == "TYX"
        told = file.imagej_metadata
        assert told is not None and (told["unit"], told["finterval"], told["frames"]) == ("mm", 0.5, 4)
        values = file.asarray()
    assert values.dtype == np.float32 and values.shape == (4, 17, 24)
    # row 0 is the top, where y is largest
    assert np.array_equal(values[3], films.wave(films.PLANE, 1.5).T[::-1].astype(np.float32))


def test_a_film_that_was_imported_goes_out_as_it_came(tmp_path):
    images = np.random.default_rng(0).random((3, 4, 5)).astype("f4")
    scaled = {"axes": "TYX", "unit": "um", "finterval": 2.0}
    tifffile.imwrite(tmp_path / "a.tif", images, imagej=True, resolution=(2.0, 2.0), metadata=scaled)
    recording = film([tmp_path / "a.tif"], {})
    values = np.stack([frame["intensity"] for frame in recording.frames])
    axes = {name: recording.axes[name][0] for name in "xy"}
    where = FieldCoords(("x", "y"), axes, "1", "intensity", dict.fromkeys("xy", "m"))
    path = films.write_film(
        tmp_path / "fields.h5", {"u": where}, 3, kinds=("observed",), values=lambda name, kind, i: values[i]
    )
    (out,) = export(path, tmp_path, "tiff")
    np.testing.assert_array_equal(tifffile.imread(out), images)


@pytest.mark.parametrize(("name", "axes", "shape"), [("line", "YX", (4, 33)), ("box", "TZYX", (4, 4, 5, 6))])
def test_tiff_of_lines_and_boxes(tmp_path, name, axes, shape):
    films.write_film(tmp_path / "fields.h5", {name: films.ALL[name]}, frames=4, kinds=("predicted",))
    (path,) = export(tmp_path / "fields.h5", tmp_path, "tiff")
    with tifffile.TiffFile(path) as file:
        assert file.series[0].axes == axes and file.asarray().shape == shape


def test_csv_is_what_pdefit_and_a_spreadsheet_read(tmp_path):
    bodies = np.asarray(["=1+1", "Venus"])
    named = FieldCoords(("body",), {"body": bodies}, "kg")
    path = films.write_film(tmp_path / "fields.h5", {"u": films.PLANE, "m": named, "n": films.NUMBER}, frames=3)
    assert [p.name for p in export(path, tmp_path, "csv")] == ["u.csv", "m.csv", "n.csv"]
    found = read_observations(tmp_path / "u.csv", {"u": "u_true"}, coordinates={"x": "x", "y": "y"})
    points = films.wave(films.PLANE, 0.5).ravel()
    np.testing.assert_allclose(np.asarray(found.values["u"])[1], points)
    rows = (tmp_path / "m.csv").read_text().splitlines()
    assert rows[0] == "time,body,m_true,m_observed,m_predicted" and rows[1].startswith("0.0,'=1+1,")
    assert len((tmp_path / "n.csv").read_text().splitlines()) == 4


def test_what_cannot_be_exported_is_one_sentence(run):
    with pytest.raises(PdefitError, match="No format is called 'matlab'"):
        export(run / "fields.h5", run / "export", "matlab")
    with pytest.raises(PdefitError, match="No field is called 'w'"):
        export(run / "fields.h5", run / "export", "numpy", ["w"])
    with pytest.raises(PdefitError, match="no image"):
        export(run / "fields.h5", run / "export", "tiff", ["position"])
    assert not list((run / "export").glob(".*")) if (run / "export").exists() else True
