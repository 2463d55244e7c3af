import subprocess
import sys
from typing import Any

import films
import h5py
import numpy as np
import pytest
import xarray

from pdefit._util.errors import PdefitError
from pdefit.data.readers.fields import lazy_fields, open_film
from pdefit.output.store.runs import RunFiles, find_runs


@pytest.mark.parametrize("name", films.ALL)
def test_what_was_written_is_read(tmp_path, name):
    where = films.ALL[name]
    path = films.write_film(tmp_path / "fields.h5", {name: where}, frames=5, fitted=3)
    with open_film(path) as film:
        field = film.fields[name]
        assert (field.dims, field.unit, field.shape) == (where.dims, where.unit, films.shape_of(where))
        assert field.long_name == (where.long_name or name) and field.kinds == ("true", "observed", "predicted")
        assert (film.forecast, film.total, film.time_unit) == (3, 5, "s")
        for dim in where.dims:
            assert np.array_equal(field.coords[dim], where.coords[dim])
        assert np.array_equal(film.frame(name, "true", 2), films.wave(where, 1.0))
        two = list(film.frames(name, "true", [1, 4]))
        assert np.array_equal(two[1], films.wave(where, 2.0)) and len(two) == 2


@pytest.mark.parametrize(("frames", "most", "chosen"), [(5, 3, [0, 2, 4]), (5, 9, [0, 1, 2, 3, 4]), (1, 4, [0])])
def test_frames_are_evenly_chosen(tmp_path, frames, most, chosen):
    with open_film(films.write_film(tmp_path / "f.h5", {"u": films.LINE}, frames=frames)) as film:
        assert film.chosen(most) == chosen


@pytest.mark.parametrize("times", [[0.0, 0.5, 0.5], [0.0, 1.0, 0.5], [0.0, np.nan, 1.0]])
def test_times_that_do_not_increase_are_damage(times, tmp_path):
    path = films.write_film(tmp_path / "f.h5", {"u": films.LINE}, frames=3)
    with h5py.File(path, "r+") as file:
        file["time"][...] = times  # pyright: ignore[reportIndexIssue]
    for read in (lazy_fields, lambda path: open_film(path).__enter__()):
        with pytest.raises(PdefitError, match="f.h5' do not increase, so the film is damaged; put it back"):
            read(path)


def test_only_complete_frames_are_shown(tmp_path):
    with open_film(films.write_film(tmp_path / "f.h5", {"u": films.LINE}, frames=3, total=10, fitted=7)) as film:
        assert film.ts.tolist() == [0.0, 0.5, 1.0] and film.total == 10 and film.forecast == 3


_WRITER = """
import sys, time
import films
from pathlib import Path
from pdefit.output.store.fields import FieldsFile
import numpy as np
with FieldsFile(Path(sys.argv[1]), np.arange(100.0), "s", {"u": films.LINE}, {"u": ("predicted",)}, "float64",
                np.zeros(100), "x") as film:
    for i in range(3):
        film.append({"u_predicted": np.full(33, float(i))})
    film._write()
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_file_is_read_while_it_is_written(tmp_path):
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        f"import sys; sys.path.insert(0, {str(films.__file__)[:-9]!r})\n{_WRITER}",
    ]
    with subprocess.Popen([*command, tmp_path / "f.h5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None and p.stdout.readline() == "ready\n"
        with open_film(tmp_path / "f.h5") as film:
            assert film.ts.size == 3 and film.frame("u", "predicted", 2)[0] == 2.0
        p.kill()


def test_xarray_opens_it_without_a_warning(tmp_path):
    path = films.write_film(tmp_path / "fields.h5", films.ALL, fitted=4)
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert data["plane_true"].dims == ("time", "x", "y") or "plane_true" in data
        assert data["position_predicted"].sel(body="Venus", axis="y").shape == (6,)


def test_damaged_files_are_one_sentence(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"no HDF5")
    with pytest.raises(PdefitError, match="not an HDF5 file"), open_film(tmp_path / "a.h5"):
        pass
    with pytest.raises(PdefitError, match="does not exist"), open_film(tmp_path / "b.h5"):
        pass
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["x"] = 1.0
    with pytest.raises(PdefitError, match="not a film"), open_film(tmp_path / "c.h5"):
        pass


def _external_link(file, name, _):
    file[name] = h5py.ExternalLink("secret.h5", "/u")


def _soft_link_to_an_external_one(file, name, _):
    file["group"] = h5py.ExternalLink("secret.h5", "/")
    file[name] = h5py.SoftLink("/group/u")


def _external_storage(file, name, folder):
    file.create_dataset(name, (6, 33), "f8", external=[(str(folder / "secret.raw"), 0, 6 * 33 * 8)])


def _virtual(file, name, _):
    layout = h5py.VirtualLayout((6, 33), "f8")
    layout[:] = h5py.VirtualSource("secret.h5", "u", (6, 33))
    file.create_virtual_dataset(name, layout)


def _compound(file, name, _):
    file[name] = np.zeros((6, 33), [("a", "f8"), ("b", "i4")])


def _references(file, name, _):
    file.create_dataset(name, (6, 33), h5py.ref_dtype)


def _objects(file, name, _):
    file.create_dataset(name, (6, 33), h5py.vlen_dtype("f8"))


def _text(file, name, _):
    file.create_dataset(name, (6, 33), h5py.string_dtype())


_FOREIGN = [_external_link, _soft_link_to_an_external_one, _external_storage, _virtual]
_OTHER_TYPES = [_compound, _references, _objects, _text]


@pytest.mark.parametrize("name", ["u_observed", "time", "n_done"])
@pytest.mark.parametrize("plant", _FOREIGN)
def test_nothing_is_read_from_other_files(tmp_path, plant, name):
    secret = np.full((6, 33), 42.0)
    (tmp_path / "secret.raw").write_bytes(secret.tobytes())
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["u"] = secret
    path = films.write_film(tmp_path / "f.h5", {"u": films.LINE})
    with h5py.File(path, "r+") as file:
        del file[name]
        plant(file, name, tmp_path)
    with pytest.raises(PdefitError, match=f"'{name}' in 'f.h5' (is a link|takes its values from other files)"):
        with open_film(path):
            pass


@pytest.mark.parametrize("plant", _OTHER_TYPES)
def test_fields_that_are_no_numbers_are_refused(tmp_path, plant):
    path = films.write_film(tmp_path / "f.h5", {"u": films.LINE})
    with h5py.File(path, "r+") as file:
        del file["u_observed"]
        plant(file, "u_observed", tmp_path)
    with pytest.raises(PdefitError, match="numbers are expected|not a film"), open_film(path):
        pass


def test_coordinates_in_another_file_are_not_read(tmp_path):
    (tmp_path / "secret.raw").write_bytes(np.full(33, 42.0).tobytes())
    path = films.write_film(tmp_path / "f.h5", {"u": films.LINE})
    with h5py.File(path, "r+") as file:
        axis: Any = file["u_true"].dims[1]  # pyright: ignore[reportAttributeAccessIssue]
        axis.detach_scale(file["s"])
        scale = file.create_dataset("t", (33,), "f8", external=[(str(tmp_path / "secret.raw"), 0, 33 * 8)])
        scale.make_scale("t")
        axis.attach_scale(scale)
    with pytest.raises(PdefitError, match="'t' in 'f.h5' takes its values from other files"), open_film(path):
        pass


def test_runs_are_found_in_the_order_of_a_sweep(tmp_path):
    for job in (0, 2, 10):
        films.write_run(tmp_path / "sweep" / str(job), {"u": films.LINE})
    assert [p.name for p in find_runs(tmp_path)] == ["0", "2", "10"]
    assert find_runs(tmp_path / "sweep" / "2") == [tmp_path / "sweep" / "2"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(PdefitError, match="holds no run"):
        find_runs(tmp_path / "empty")
    with pytest.raises(PdefitError, match="no directory"):
        find_runs(tmp_path / "nowhere")


def test_a_run_says_what_it_lacks(tmp_path):
    run = films.write_run(tmp_path, {"u": films.LINE})
    assert RunFiles(run).lacking() == [] and RunFiles(run).state == "done"
    (run / "summary.json").write_text("{half")
    (run / "FAILED").write_text("too hot\n")
    assert RunFiles(run).as_written("summary.json") == {} and RunFiles(run).state == "failed: too hot"


def test_components_of_vectors_and_diagnostics(tmp_path):
    path = films.write_film(tmp_path / "f.h5", films.STAGGERED, frames=3, diagnostics=films.SCALARS)
    with open_film(path) as film:
        assert [*film.fields] == ["T", "u", "w"] and [*film.diagnostics] == [*films.SCALARS]
        assert {name: (field.vector, field.component) for name, field in film.fields.items()} == {
            "T": ("", ""), "u": ("velocity", "x"), "w": ("velocity", "z")
        }  # fmt: skip
        assert film.fields["w"].dims == ("x", "z_face") and film.fields["w"].shape == (12, 7)
        scalar = film.diagnostics["nusselt_top"]
        assert scalar.dims == () and scalar.kinds == ("true", "predicted")
        assert [float(x) for x in film.frames("nusselt_top", "true", range(3))] == [0.0, *np.sin([-0.5, -1.0])]


_READER = """
import sys
from pathlib import Path
from pdefit._util.errors import PdefitError
from pdefit.data.readers.fields import open_film
for _ in range(20):
    try:
        with open_film(Path(sys.argv[1])):
            sys.exit("it was read")
    except PdefitError as error:
        print(error)
"""


@pytest.mark.parametrize("attribute", [3, np.zeros(2), "x"])
def test_a_wrong_list_of_axes_does_not_crash_hdf5(tmp_path, attribute):
    path = films.write_film(tmp_path / "f.h5", {"u": films.LINE})
    with h5py.File(path, "r+") as file:
        for name in ("u_true", "u_observed", "u_predicted"):
            file[name].attrs["DIMENSION_LIST"] = attribute
    # in a process of its own, which a crash would end
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _READER, path], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("is not a film") == 20, (done.returncode, done.stderr)


def test_positions_on_two_axes_are_refused(tmp_path):
    path, (dim,) = films.write_film(tmp_path / "f.h5", {"u": films.LINE}), films.LINE.dims
    with h5py.File(path, "r+") as file:
        del file[dim]
        file[dim] = np.zeros((33, 2))
        file[dim].make_scale(dim)
        for name in ("u_true", "u_observed", "u_predicted"):
            del file[name].attrs["DIMENSION_LIST"]
            file[name].dims[0].attach_scale(file["time"])
            file[name].dims[1].attach_scale(file[dim])
    with pytest.raises(PdefitError, match="not a film"), open_film(path):
        pass


def test_positions_that_fill_the_memory_are_refused(tmp_path):
    path, (dim,) = films.write_film(tmp_path / "f.h5", {"u": films.LINE}), films.LINE.dims
    with h5py.File(path, "r+") as file:
        del file[dim]
        file.create_dataset(dim, (10**13,), "f8", chunks=(10**6,)).make_scale(dim)
        for name in ("u_true", "u_observed", "u_predicted"):
            del file[name].attrs["DIMENSION_LIST"]
            file[name].dims[0].attach_scale(file["time"])
            file[name].dims[1].attach_scale(file[dim])
    with pytest.raises(PdefitError, match=f"'{dim}' in '.*' takes .* of memory"), open_film(path):
        pass
