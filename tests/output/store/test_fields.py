import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from pdefit.output.store import fields
from pdefit.output.store.fields import FieldsFile
from pdefit.systems.coordinates import FieldCoords

GRID = FieldCoords(("x",), {"x": np.linspace(0.0, 1.0, 4)}, "mm", "height", {"x": "m"})


def _film(path: Path, frames: int, coords=None, kinds=("predicted", "observed"), dtype="float64") -> FieldsFile:
    coords = coords or {"u": GRID}
    phase = (np.arange(frames) >= frames - 1).astype(np.int8)
    have = {field: tuple(kinds) for field in coords}
    return FieldsFile(path, np.arange(frames) / 2, "s", coords, have, dtype, phase, "a test")


def _read(path: Path) -> xr.Dataset:
    """The whole file as xarray sees it; the strict settings turn any warning into an error."""
    with xr.open_dataset(path, engine="h5netcdf") as file:
        return file.load()


def test_a_film_has_named_axes_units_and_phase(tmp_path):
    with _film(tmp_path / "f.h5", 3) as film:
        for i in range(3):
            film.append({"u_predicted": np.full(4, i), "u_observed": np.full(4, -i)})
    read = _read(tmp_path / "f.h5")
    assert read["u_predicted"].dims == ("time", "x") and read["phase"].dims == ("time",)
    assert read["time"].values.tolist() == [0.0, 0.5, 1.0] and read["time"].attrs["unit"] == "s"
    np.testing.assert_array_equal(read["x"].values, GRID.coords["x"])
    assert (read["x"].attrs["units"], read["u_observed"].attrs["units"]) == ("m", "mm")
    assert read["u_observed"].attrs["long_name"] == "height, observed"
    assert read["phase"].values.tolist() == [0, 0, 1] and int(read["n_done"]) == 3
    np.testing.assert_array_equal(read["u_predicted"].values, np.tile(np.arange(3.0)[:, None], (1, 4)))
    np.testing.assert_array_equal(read["u_observed"].values, -read["u_predicted"].values)


def test_what_was_not_written_is_nan(tmp_path):
    with _film(tmp_path / "f.h5", 4) as film:
        film.append({"u_predicted": np.zeros(4), "u_observed": np.ones(4)})
        film.append({"u_predicted": np.zeros(4)})
    read = _read(tmp_path / "f.h5")
    assert int(read["n_done"]) == 2
    assert np.isfinite(read["u_predicted"].values).all(axis=1).tolist() == [True, True, False, False]
    assert np.isfinite(read["u_observed"].values).all(axis=1).tolist() == [True, False, False, False]


@pytest.mark.parametrize("names", [("Sun", "Jupiter"), ("Éris", "地球")])
def test_labels_are_text(tmp_path, names):
    labels = {"body": np.asarray(names), "axis": np.asarray(["x", "y"])}
    coords = {f: FieldCoords(("body", "axis"), labels, "au", f) for f in ("position", "velocity")}
    with _film(tmp_path / "f.h5", 2, coords, ("predicted",), "float32") as film:
        film.append({"position_predicted": np.ones((2, 2)), "velocity_predicted": np.zeros((2, 2))})
    read = _read(tmp_path / "f.h5")
    assert read["velocity_predicted"].dims == ("time", "body", "axis")
    assert read["position_predicted"].dtype == np.float32
    found = [x.decode("utf-8") if isinstance(x, bytes) else str(x) for x in read["body"].values]
    assert found == list(names)


def test_the_state_on_disk_opens_while_the_film_grows(tmp_path):
    """A copy of the file is what another program finds on disk."""
    # 1 MB a frame: every frame is written at once
    wide = FieldCoords(("x",), {"x": np.arange(1 << 17)})
    with _film(tmp_path / "f.h5", 4, {"u": wide}, ("predicted",)) as film:
        for i in range(3):
            shutil.copy(tmp_path / "f.h5", tmp_path / "copy.h5")
            read = _read(tmp_path / "copy.h5")
            assert int(read["n_done"]) == i
            assert np.isfinite(read["u_predicted"].values).all(axis=1).sum() == i
            film.append({"u_predicted": np.full(1 << 17, i)})


def test_another_process_can_open_a_film_that_grows(tmp_path):
    look = "import sys, xarray; print(int(xarray.open_dataset(sys.argv[1], engine='h5netcdf')['n_done']))"
    with _film(tmp_path / "f.h5", 4):
        found = subprocess.run(
            [sys.executable, "-c", look, tmp_path / "f.h5"], capture_output=True, text=True, timeout=600
        )
    assert found.stdout.strip() == "0", found.stderr


def test_more_frames_than_times_are_refused(tmp_path):
    film = _film(tmp_path / "f.h5", 1)
    for _ in range(2):
        film.append({"u_predicted": np.zeros(4)})
    with pytest.raises(ValueError, match="holds 1 times"), film:
        pass


@pytest.mark.quick
def test_a_killed_film_opens_and_its_counted_frames_are_complete(killed, monkeypatch):
    # every frame is written at once
    monkeypatch.setattr(fields, "_BLOCK", 1)
    frames, n = 60, 64

    def write(path: Path) -> None:
        with _film(path, frames, {"u": FieldCoords(("x",), {"x": np.arange(n)})}, ("predicted", "true")) as film:
            for i in range(frames):
                film.append({"u_predicted": np.full(n, i + 1.0), "u_true": np.full(n, -i - 1.0)})

    counts = set()
    for path in killed(write):
        with h5py.File(path) as file:
            done = int(file["n_done"][()])
            expected = np.broadcast_to(np.arange(1.0, done + 1)[:, None], (done, n))
            np.testing.assert_array_equal(file["u_predicted"][:done], expected)
            np.testing.assert_array_equal(file["u_true"][:done], -expected)
        counts.add(done)
    assert max(counts) == frames
