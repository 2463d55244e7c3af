"""state/: what a fit needs to go on after it was stopped, in two generations of which one is always whole."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from pdefit.files.atomic import beside
from pdefit.files.interrupts import uninterrupted
from pdefit.files.surviving import SurvivingFile

# the newest state and the one before, which is read if the newest is damaged
NEWEST, BEFORE = "state.h5", "state_before.h5"


class Saved(NamedTuple):
    """Numbers (plain JSON), arrays by name, and the text that says what they belong to."""

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray]
    origin: dict[str, Any]


@uninterrupted()
def save_state(folder: Path, saved: Saved) -> None:
    """Write a new generation: into a neighbour first, then by renaming, so that a kill at any moment leaves one whole."""
    folder.mkdir(exist_ok=True)
    with beside(folder / NEWEST) as neighbour:
        with SurvivingFile(neighbour, folder / NEWEST) as file:
            for name, array in saved.arrays.items():
                # names hold slashes, dots and brackets: the datasets are numbered
                dataset = file.create_dataset(f"array_{len(file):05d}", data=array)
                dataset.attrs["name"] = name
            file.attrs["numbers"] = json.dumps(saved.numbers)
            file.attrs["origin"] = json.dumps(saved.origin)
            file.attrs["sha256"] = _checksum(saved)
        with open(neighbour, "rb+") as file:
            os.fsync(file.fileno())
        if (folder / NEWEST).exists():
            os.replace(folder / NEWEST, folder / BEFORE)


def load_state(folder: Path) -> Saved | None:
    """The newest generation that is whole, or None if there is none."""
    for name in (NEWEST, BEFORE):
        saved = _read(folder / name)
        if saved is not None:
            return saved
    return None


def _read(path: Path) -> Saved | None:
    """A generation, or None if it is missing or fails its checksum."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            arrays = {str(file[key].attrs["name"]): np.asarray(file[key]) for key in file}
            about: dict[str, Any] = dict(file.attrs)
            saved = Saved(json.loads(about["numbers"]), arrays, json.loads(about["origin"]))
            expected = about["sha256"]
    # h5py answers damaged bytes with almost any exception
    except Exception:
        return None
    return saved if _checksum(saved) == expected else None


def _checksum(saved: Saved) -> str:
    """SHA-256 of everything in a state."""
    total = hashlib.sha256(json.dumps([saved.numbers, saved.origin], sort_keys=True).encode())
    for name, array in sorted(saved.arrays.items()):
        total.update(f"{name}{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """The entries, by dotted path, in which two nested mappings differ; a missing one counts as None."""
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*before, *now}, key=str):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found[f"{prefix}{key}"] = (old, new)
    return found
