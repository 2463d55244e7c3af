"""state/: what is damaged, or was never written by pdefit, falls back to the older generation."""

import json
import os
import shutil

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit._util.run_state import RunState
from pdefit.output.store import fit_checkpoint as state_file
from pdefit.output.store.fit_checkpoint import BEFORE, NEWEST, Saved, load_state, save_state


def saved(k):
    arrays = {"theta": np.arange(50.0) + k, "carry.state[0]": np.ones((3, 4), np.int32), "loss": np.asarray(1.5)}
    return Saved(
        RunState({"iterations": k}, arrays), {"config": {"a": 1}, "hashes": {"data": "x"}, "max_iterations": None}
    )


@pytest.fixture
def state(tmp_path):
    """Two generations: the newest is number 2."""
    for k in (1, 2):
        save_state(tmp_path / "state", saved(k))
    return tmp_path / "state"


def signed(path):
    """The right checksum for whatever a file holds: who crafts a state can compute it, too."""
    with h5py.File(path, "r+") as file:
        arrays = {str(d.attrs["name"]): np.asarray(d) for d in file.values()}
        numbers, origin = (json.loads(file.attrs[name]) for name in ("numbers", "origin"))
        file.attrs["sha256"] = state_file._checksum(numbers, arrays, origin)


def edited(change):
    def craft(path):
        with h5py.File(path, "r+") as file:
            change(file)

    return craft


def replaced(**options):
    """The first array, in another way."""

    def change(file):
        name = file["array_00000"].attrs["name"]
        del file["array_00000"]
        file.create_dataset("array_00000", **options).attrs["name"] = name

    return edited(change)


def flipped(path):
    raw = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        at = file["array_00000"].id.get_offset()
    raw[at] ^= 1
    path.write_bytes(raw)


def attribute(name, value):
    return edited(lambda file: file.attrs.__setitem__(name, value))


def external_link(file):
    with h5py.File("other.h5", "w") as other:
        other["x"] = np.arange(50.0)
        other["x"].attrs["name"] = "theta"
    del file["array_00000"]
    file["array_00000"] = h5py.ExternalLink(os.path.abspath("other.h5"), "x")


def virtual(file):
    layout = h5py.VirtualLayout((50,), "f8")
    layout[:] = h5py.VirtualSource("other.h5", "x", (50,))
    del file["array_00000"]
    file.create_virtual_dataset("array_00000", layout).attrs["name"] = "theta"


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def folder(path):
    path.unlink()
    path.mkdir()


UNSIGNED = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-3000]),
    "one byte short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "text": lambda path: path.write_text("theta = 3"),
    "a pickle": lambda path: path.write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR."),
    "one bit flipped": flipped,
    "a folder": folder,
    "a pipe": fifo,
    "no checksum": edited(lambda file: file.attrs.__delitem__("sha256")),
    "another array": edited(lambda file: file.__setitem__("array_00009", np.ones(3))),
    "a group": edited(lambda file: file.create_group("array_00009")),
    "numbers without end": attribute("numbers", "[" * 20_000),
    "a link to itself": edited(lambda file: file.__setitem__("array_00009", h5py.SoftLink("/array_00009"))),
    "a link to another file": edited(external_link),
    "values in another file": edited(virtual),
    "raw bytes of another file": replaced(shape=(4,), dtype="f8", external=[("/etc/passwd", 0, 32)]),
    "four exabytes": replaced(shape=(2**59,), dtype="f8", chunks=(2**17,), compression="gzip"),
    "four exabytes without chunks": replaced(shape=(2**59,), dtype="f8"),
    "ten gigabytes that were never written": replaced(shape=(10**10 // 8,), dtype="f8"),
    "a compressed gigabyte": replaced(data=np.zeros(2**20), compression="gzip"),
    "text for numbers": replaced(data=np.asarray(["a", "b"], object), dtype=h5py.string_dtype()),
    "a reference": replaced(shape=(3,), dtype=h5py.ref_dtype),
}
SIGNED = {
    "numbers that are a list": attribute("numbers", "[1, 2]"),
    "an origin without hashes": attribute("origin", '{"config": {}, "max_iterations": null}'),
    "a configuration that is a number": attribute("origin", '{"config": 3, "hashes": {}, "max_iterations": null}'),
    "iterations in words": attribute("origin", '{"config": {}, "hashes": {}, "max_iterations": "rm -rf"}'),
}


@pytest.mark.parametrize("how", [*UNSIGNED, *SIGNED])
def test_what_is_no_state_is_passed_over(state, how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = (state / NEWEST).read_bytes()
    {**UNSIGNED, **SIGNED}[how](state / NEWEST)
    if how in SIGNED:
        signed(state / NEWEST)
    assert not (state / NEWEST).is_file() or (state / NEWEST).read_bytes() != whole
    found = load_state(state)
    assert found is not None and found.state.numbers == {"iterations": 1} and found.damaged == str(state / NEWEST)
    np.testing.assert_array_equal(found.state.arrays["theta"], np.arange(50.0) + 1)
    assert not list(tmp_path.rglob("pwned"))


def test_two_damaged_generations_are_not_taken_for_none(state):
    (state / NEWEST).write_bytes(b"x")
    shutil.copy(state / NEWEST, state / BEFORE)
    with pytest.raises(PdefitError, match=r"state.h5' and '.*state_before.h5' cannot be read; put the file back"):
        load_state(state)
    shutil.rmtree(state)
    assert load_state(state) is None
