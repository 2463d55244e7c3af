"""The scratch file of checkpoints: what happens on disk, in the background, and when it fails."""

import io
import resource
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.output.store import adjoint_scratch as checkpoint_file
from pdefit.output.store.adjoint_scratch import CheckpointFile

_MIB = 2**17


def _threads() -> int:
    return sum(thread.name.startswith("checkpoints") for thread in threading.enumerate())


@contextmanager
def _blocked(file: CheckpointFile) -> Iterator[threading.Event]:
    """The worker stands still until this is set, or a test fails."""
    gate = threading.Event()
    file._worker.submit(gate.wait)
    try:
        yield gate
    finally:
        gate.set()


def test_the_file_lives_as_long_as_the_object(tmp_path):
    path = tmp_path / "c.bin"
    with closing(CheckpointFile(path, [np.ones(4)], 2)) as file:
        file.write(0, [np.ones(4)])
        assert path.is_file() and file.state_bytes == 32
    assert not path.exists() and _threads() == 0
    file.close()


def test_the_file_is_removed_when_the_sweep_fails(tmp_path):
    path = tmp_path / "c.bin"
    with pytest.raises(ZeroDivisionError), closing(CheckpointFile(path, [np.ones(4)], 2)) as file:
        file.write(0, [np.ones(4)])
        raise ZeroDivisionError
    assert not path.exists() and _threads() == 0


@pytest.mark.parametrize("left_over", [b"", b"half a file", bytes(100)])
def test_what_a_killed_run_left_is_replaced(tmp_path, left_over):
    path = tmp_path / "c.bin"
    path.write_bytes(left_over)
    with closing(CheckpointFile(path, [np.ones(4)], 2)) as file:
        file.write(1, [np.arange(4.0)])
        assert file.read(1)[0].tolist() == [0, 1, 2, 3]


def test_writing_returns_at_once_and_waits_where_two_are_on_their_way(tmp_path):
    state = [np.zeros(_MIB)]
    with closing(CheckpointFile(tmp_path / "c.bin", state, 8)) as file, _blocked(file) as gate:
        file.write(0, state)
        file.write(1, state)
        third = threading.Thread(target=lambda: file.write(2, [np.ones(_MIB)]))
        third.start()
        third.join(0.2)
        assert third.is_alive(), "a third state is in memory"
        gate.set()
        third.join()
        assert file.read(2)[0][0] == 1.0


def test_hints_hold_no_more_than_two_states(tmp_path):
    with closing(CheckpointFile(tmp_path / "c.bin", [np.zeros(3)], 8)) as file:
        for slot in range(8):
            file.write(slot, [np.full(3, float(slot))])
        for slot in range(8):
            file.prefetch(slot)
            file.prefetch(slot)
        assert list(file._coming) == [6, 7]
        assert [file.read(slot)[0][0] for slot in (7, 0, 6)] == [7.0, 0.0, 6.0]
        assert not file._coming


def test_a_hint_before_a_write_is_forgotten(tmp_path):
    with closing(CheckpointFile(tmp_path / "c.bin", [np.zeros(3)], 2)) as file, _blocked(file) as gate:
        file.write(0, [np.zeros(3)])
        file.prefetch(0)
        file.write(0, [np.ones(3)])
        gate.set()
        assert file.read(0)[0].tolist() == [1, 1, 1]


def test_memory_is_bounded_whatever_the_number_of_slots(tmp_path):
    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

    state = [np.ones(4 * _MIB)]
    before = resident()
    with closing(CheckpointFile(tmp_path / "c.bin", state, 40)) as file:
        for slot in range(40):
            file.write(slot, state)
        for slot in reversed(range(40)):
            file.prefetch(max(slot - 1, 0))
            assert file.read(slot)[0][-1] == 1.0
        # four states on their way and the one that was read, of 160 MiB in the file
        assert resident() - before < 6 * 4 + 8


@pytest.fixture
def small_files():
    """No file of this process may grow beyond a MiB: what is met on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("call", ["write", "read", "prefetch"])
def test_a_disk_that_is_full_is_told_by_the_next_call(tmp_path, small_files, call):
    path, state = tmp_path / "c.bin", [np.ones(_MIB)]
    with closing(CheckpointFile(path, state, 8)) as file:
        file.write(1, state)
        file._worker.submit(lambda: None).result()
        with pytest.raises(PdefitError, match="cannot be written.*free space") as error:
            file.write(1, state) if call == "write" else getattr(file, call)(1)
        assert "\n" not in str(error.value) and str(path) in str(error.value)
        # and by every call after it, without waiting
        for _ in range(5):
            with pytest.raises(PdefitError, match="cannot be written"):
                file.write(0, state)
    assert not path.exists() and _threads() == 0


def test_a_read_that_waits_for_a_failing_write_fails(tmp_path, small_files):
    state = [np.ones(_MIB)]
    with closing(CheckpointFile(tmp_path / "c.bin", state, 8)) as file, _blocked(file) as gate:
        file.write(1, state)
        threading.Timer(0.1, gate.set).start()
        with pytest.raises(PdefitError, match="cannot be written"):
            file.read(1)


def _written_by(monkeypatch, write):
    """Let a function write to every checkpoint file: `write(file, bytes)`."""

    class File(io.FileIO):
        def write(self, left):
            return write(super(), left)

    monkeypatch.setattr(checkpoint_file, "open", lambda path, *_, **__: File(path, "w+b"), raising=False)


def test_a_disk_that_becomes_full_is_one_sentence(tmp_path, monkeypatch):
    room = iter(range(3))

    def full(file, left):
        if next(room, None) is None:
            raise OSError(28, "No space left on device")
        return file.write(left)

    _written_by(monkeypatch, full)
    state = [np.arange(5000.0)]
    with closing(CheckpointFile(tmp_path / "checkpoints-0.bin", state, 20)) as file:
        with pytest.raises(PdefitError, match=r"checkpoints-0.bin' cannot be written .*No space left"):
            for slot in range(20):
                file.write(slot, state)
            file.read(19)
    assert not list(tmp_path.iterdir())


def test_what_the_system_takes_in_parts_is_whole(tmp_path, monkeypatch):
    _written_by(monkeypatch, lambda file, left: file.write(left[:7]))
    state = [np.arange(5.0), np.zeros(0), np.float32(3.0), np.asarray([True, False])]
    with closing(CheckpointFile(tmp_path / "c.bin", state, 3)) as file:
        for slot in (2, 0):
            file.write(slot, [x + x for x in state] if slot else state)
        for slot in (2, 0):
            for found, x in zip(file.read(slot), state, strict=True):
                assert found.dtype == x.dtype and np.array_equal(found, x + x if slot else x)


def test_a_disk_that_is_too_small_is_refused_at_the_start(tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(checkpoint_file.shutil, "disk_usage", lambda folder: usage(10**9))
    with pytest.raises(PdefitError, match=r"1000 checkpoints take 1\.05 GB, but .* has 1 GB left; allow fewer"):
        CheckpointFile(tmp_path / "c.bin", [np.ones(_MIB)], 1000)
    assert not list(tmp_path.iterdir()) and _threads() == 0


@pytest.mark.parametrize("where", ["missing/c.bin", "file/c.bin", "."])
def test_a_bad_path_is_one_sentence(tmp_path, where):
    (tmp_path / "file").write_text("")
    with pytest.raises(PdefitError, match="cannot be created") as error:
        CheckpointFile(tmp_path / where, [np.ones(4)], 2)
    assert "\n" not in str(error.value) and _threads() == 0


@pytest.mark.parametrize("state", [[np.ones(3)], [np.ones(4, np.float32)], [np.ones(4), np.ones(4)], []])
def test_another_kind_of_state_is_refused(tmp_path, state):
    with (
        closing(CheckpointFile(tmp_path / "c.bin", [np.ones(4)], 2)) as file,
        pytest.raises(ValueError, match="is expected"),
    ):
        file.write(0, state)


def test_a_slot_that_does_not_exist_is_refused(tmp_path):
    with closing(CheckpointFile(tmp_path / "c.bin", [np.ones(4)], 2)) as file:
        for call in (lambda: file.write(2, [np.ones(4)]), lambda: file.read(-1), lambda: file.prefetch(2)):
            with pytest.raises(IndexError, match="slot below 2"):
                call()
