import films
import numpy as np
import pytest
import tifffile
import xarray

from pdefit._util.errors import PdefitError
from pdefit.data.readers.fields import open_film
from pdefit.output.store.export import export

FIELDS = {"u": films.PLANE, "v": films.PLANE, "position": films.BODIES}


@pytest.fixture
def run(tmp_path):
    films.write_film(tmp_path / "fields.h5", FIELDS, frames=4, total=6, fitted=3)
    return tmp_path


def test_netcdf_is_what_xarray_reads_from_the_film(run):
    (path,) = export(run / "fields.h5", run / "export", "netcdf")
    with xarray.open_dataset(path, engine="h5netcdf") as copy:
        copy = copy.drop_vars("n_done").load()
    with xarray.open_dataset(run / "fields.h5", engine="h5netcdf") as film:
        expected = film.drop_vars("n_done").isel(time=slice(0, 4)).load()
    xarray.testing.assert_identical(copy, expected)


def test_netcdf_keeps_vectors_and_diagnostics(tmp_path):
    path = films.write_film(tmp_path / "fields.h5", films.STAGGERED, diagnostics=films.SCALARS)
    (copied,) = export(path, tmp_path, "netcdf")
    with open_film(path) as film, open_film(copied) as copy:
        assert [*copy.diagnostics] == [*film.diagnostics] == [*films.SCALARS]
        assert copy.fields["w"].vector == "velocity" and copy.fields["w"].component == "z"
        assert copy.frame("reynolds", "true", 3) == film.frame("reynolds", "true", 3)


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
    assert np.array_equal(values[3], films.wave(films.PLANE, 1.5).T.astype(np.float32))


@pytest.mark.parametrize(("name", "axes", "shape"), [("line", "YX", (4, 33)), ("box", "TZYX", (4, 4, 5, 6))])
def test_tiff_of_lines_and_boxes(tmp_path, name, axes, shape):
    films.write_film(tmp_path / "fields.h5", {name: films.ALL[name]}, frames=4, kinds=("predicted",))
    (path,) = export(tmp_path / "fields.h5", tmp_path, "tiff")
    with tifffile.TiffFile(path) as file:
        assert file.series[0].axes == axes and file.asarray().shape == shape


def test_what_cannot_be_exported_is_one_sentence(run):
    with pytest.raises(PdefitError, match="No format is called 'matlab'"):
        export(run / "fields.h5", run / "export", "matlab")
    with pytest.raises(PdefitError, match="No field is called 'w'"):
        export(run / "fields.h5", run / "export", "numpy", ["w"])
    with pytest.raises(PdefitError, match="no image"):
        export(run / "fields.h5", run / "export", "tiff", ["position"])
    assert not list((run / "export").glob(".*")) if (run / "export").exists() else True
