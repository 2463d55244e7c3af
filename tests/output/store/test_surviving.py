"""HDF5 files on a disk that is full: the error names the file, what was complete stays readable, and nothing crashes."""

import subprocess
import sys
import textwrap

import h5py
import numpy as np
import pytest

from pdefit._util.atomic import write_text
from pdefit._util.errors import of_the_machine
from pdefit._util.interrupts import uninterrupted
from pdefit.output.store import _surviving as surviving
from pdefit.output.store._surviving import SurvivingFile

# every file may grow to a limit: what the system answers beyond is what a full disk answers
_LIMITED = """
import resource, sys
from pathlib import Path
import h5py, numpy as np
from pdefit._util.run_state import RunState
from pdefit.output.store.fields import FieldsFile
from pdefit.output.store.history import HistoryFile
from pdefit.output.store.fit_checkpoint import Saved, load_state, save_state
from pdefit.inverse.fit.result import Record
from pdefit.systems.coordinates import FieldCoords

folder, unlimited = Path(sys.argv[1]), resource.getrlimit(resource.RLIMIT_FSIZE)
where = {"u": FieldCoords(unit="1", coords={"x": np.arange(40.0)}, dims=("x",), coord_units={"x": "m"})}

def history(path, told):
    with HistoryFile(path, ["a"]) as file:
        for k in range(8):
            rows = [Record(i, 1, float(i), 1.0, True, 0.1, None) for i in range(200 * k, 200 * k + 200)]
            file.append(rows, np.arange(200.0 * k, 200.0 * k + 200)[:, None])
            told.append(200)

def fields(path, told):
    with FieldsFile(path, np.arange(900.0), "s", where, {"u": ("predicted",)}, "float64", np.zeros(900), "t") as film:
        for k in range(900):
            film.append({"u_predicted": np.full(40, float(k))})

def state(path, told):
    path.mkdir()
    for k in range(2):
        save_state(path, Saved(RunState({"k": k}, {"x": np.full(500 * (k + 1), 1.0)}), {"config": {}, "hashes": {}}))
        told.append(k)

def film(file, name):
    count = int(file["n_done"][()])
    assert np.array_equal(file[name][:count][:, 0], np.arange(float(count)))
    return count

named = {history: "history", fields: "fields", state: "state.h5"}
for write, most, step in ((history, 180_000, 7_001), (fields, 330_000, 19_001), (state, 14_000, 701)):
    failed = 0
    for limit in range(0, most, step):
        path, told = folder / f"{write.__name__}{limit}", []
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
        try:
            write(path, told)
        except OSError as error:
            failed += 1
            assert error.filename and named[write] in error.filename and "partial" not in error.filename, error.filename
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        if write is state:
            saved = load_state(path)
            assert (None if saved is None else saved.state.numbers["k"]) == (told[-1] if told else None)
        elif path.exists() and path.stat().st_size:
            try:
                file = h5py.File(path, locking=False)
            except OSError:
                # what has not even its structure holds nothing that was written
                assert not told
                continue
            with file:
                assert film(file, "control" if write is history else "u_predicted") >= sum(told)
    print(write.__name__, failed)
"""


def test_files_that_may_grow_no_further(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_LIMITED), tmp_path], capture_output=True, text=True, timeout=300
    )
    # HDF5 itself ends here in a segmentation fault
    assert done.returncode == 0, done.stderr
    failed = dict(line.split() for line in done.stdout.splitlines())
    assert failed.keys() == {"history", "fields", "state"} and all(int(n) > 10 for n in failed.values()), failed


class Full:
    """A disk that takes so many writes."""

    def __init__(self, writes, error=None):
        self.left, self.error = writes, error or OSError(28, "No space left on device")

    def __call__(self, path, mode, buffering):
        self.file = open(path, mode, buffering=buffering)
        return self

    def write(self, data):
        if self.left == 0:
            raise self.error
        self.left -= 1
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_an_interrupt_in_the_middle_of_a_write_is_told_behind_it(tmp_path, monkeypatch):
    monkeypatch.setattr(surviving, "open", Full(2, KeyboardInterrupt()), raising=False)
    file = SurvivingFile(tmp_path / "x.h5")
    with uninterrupted():
        file.create_dataset("x", data=np.arange(1000.0))
    with pytest.raises(KeyboardInterrupt):
        file.flush()
    with pytest.raises(KeyboardInterrupt):
        file.close()
    assert not file.id


def test_what_is_read_again_is_what_was_written(tmp_path, monkeypatch):
    """HDF5 reads its own caches back from a disk that did not take them."""
    for writes in range(0, 40, 3):
        monkeypatch.setattr(surviving, "open", Full(writes), raising=False)
        file = SurvivingFile(tmp_path / f"{writes}.h5")
        data = [file.create_dataset(f"x{k}", data=np.full(100, k), chunks=(10,)) for k in range(30)]
        assert all(np.array_equal(d[()], np.full(100, k)) for k, d in enumerate(data))
        with pytest.raises(OSError, match=f"No space left on device: '.*{writes}.h5'"):
            file.close()


def test_a_text_that_finds_no_space_names_its_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pdefit._util.atomic.os.fsync", full)
    with pytest.raises(OSError) as told:
        write_text(tmp_path / "plan.json", "{}")
    assert f"'{tmp_path / 'plan.json'}'; free space there" in (of_the_machine(told.value) or "")
    assert not list(tmp_path.iterdir())


def test_a_surviving_file_is_an_ordinary_one(tmp_path):
    with SurvivingFile(tmp_path / "x.h5") as file:
        file["x"] = np.arange(100_000.0)
        assert np.array_equal(file["x"][()], np.arange(100_000.0))
    with h5py.File(tmp_path / "x.h5") as file:
        assert np.array_equal(np.asarray(file["x"]), np.arange(100_000.0))
