"""Checkpoints from which a fit is resumed: two generations, at least one of which is always complete."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdefit._util.atomic import beside, parsed_json
from pdefit._util.errors import PdefitError
from pdefit._util.interrupts import uninterrupted
from pdefit._util.run_state import RunState
from pdefit.data.readers.hdf5 import open_hdf5, refuse_foreign
from pdefit.output.store._kinds import KINDS, as_kind
from pdefit.output.store._surviving import SurvivingFile

# the newest checkpoint, and the one before it, which is read if the newest is damaged
NEWEST, BEFORE = "state.h5", "state_before.h5"


class Saved(NamedTuple):
    """Content of a checkpoint.

    **Arguments:**

    - `state`: numbers, as plain JSON, and arrays.
    - `origin`: the identity of the run: its configuration, hashes of equations and data, and bound on evaluations.
    - `damaged`: the newer, unreadable file that this one replaces; empty if it is the newest.
    """

    state: RunState
    origin: dict[str, Any]
    damaged: str = ""


@uninterrupted()
def save_state(folder: Path, saved: Saved) -> None:
    """Write a checkpoint into the folder, beside the previous one, and rename it.

    A kill at any moment leaves a complete one.
    """
    folder.mkdir(exist_ok=True)
    with beside(folder / NEWEST) as neighbour:
        with SurvivingFile(neighbour, folder / NEWEST) as file:
            for name, array in saved.state.arrays.items():
                # names hold slashes, dots and brackets: the datasets are numbered
                dataset = file.create_dataset(f"array_{len(file):05d}", data=array)
                dataset.attrs["name"] = name
            file.attrs["numbers"] = json.dumps(saved.state.numbers)
            file.attrs["origin"] = json.dumps(saved.origin)
            file.attrs["sha256"] = _checksum(saved.state.numbers, saved.state.arrays, saved.origin)
        with open(neighbour, "rb+") as file:
            os.fsync(file.fileno())
        if (folder / NEWEST).exists():
            os.replace(folder / NEWEST, folder / BEFORE)


def load_state(folder: Path) -> Saved | None:
    """The newest complete checkpoint, or None if none was ever written."""
    generations = [folder / name for name in (NEWEST, BEFORE) if (folder / name).exists()]
    wrong: dict[str, list[str]] = {}
    for path in generations:
        saved = _read(path, wrong.setdefault(f"'{path}'", []))
        if saved is not None:
            return saved if path == generations[0] else saved._replace(damaged=str(generations[0]))
    if generations:
        named = " and ".join(f"{path} ({'; '.join(of)})" if of else path for path, of in wrong.items())
        raise PdefitError(f"{named} cannot be read; put the file back from a copy, or start a new run")
    return None


def _read(path: Path, wrong: list[str]) -> Saved | None:
    """Content of a file; None if its checksum or its form is wrong, with the reasons added to `wrong`."""
    try:
        with open_hdf5(path) as file:
            refuse_foreign(file, path)
            arrays = {str(file[key].attrs["name"]): _array(file[key]) for key in file}
            about: dict[str, Any] = dict(file.attrs)
            numbers, origin = parsed_json(about["numbers"]), parsed_json(about["origin"])
            expected = about["sha256"]
        whole = _checksum(numbers, arrays, origin) == expected and _is_complete(numbers, origin)
        as_kind(numbers, KINDS[NEWEST], "", wrong)
    # h5py raises almost any exception for damaged bytes
    except Exception:
        return None
    return Saved(RunState(numbers, arrays), origin) if whole and not wrong else None


def _array(dataset: Any) -> np.ndarray:
    """Array of an uncompressed dataset, since a small file must not fill the memory when it is read."""
    size = dataset.size * dataset.dtype.itemsize
    if dataset.dtype.kind not in "biufc" or dataset.chunks is not None or dataset.id.get_storage_size() < size:
        raise ValueError("not an array that save_state has written")
    return np.asarray(dataset)


def _is_complete(numbers: Any, origin: Any) -> bool:
    """True if a checkpoint identifies its run."""
    if not (isinstance(numbers, dict) and isinstance(origin, dict)):
        return False
    most = origin.get("max_iterations")
    parts = (isinstance(origin.get(part), dict) for part in ("config", "hashes"))
    return all(parts) and (most is None or type(most) is int)


def _checksum(numbers: Any, arrays: Mapping[str, np.ndarray], origin: Any) -> str:
    """SHA-256 of all numbers, arrays and texts of a checkpoint."""
    total = hashlib.sha256(json.dumps([numbers, origin], sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        total.update(f"{name}{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Entries in which two nested mappings differ, by dotted path; a missing entry counts as None."""
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*before, *now}, key=str):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found[f"{prefix}{key}"] = (old, new)
    return found
