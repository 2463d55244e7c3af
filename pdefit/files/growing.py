"""HDF5 files that grow and can be killed at any moment."""

from pathlib import Path
from typing import Any

import h5py

# labels and names, in any script
TEXT = h5py.string_dtype()


def create(path: Path) -> Any:
    """A new file that opens without repair after a kill -9, as long as every write is followed by `commit`.

    Old format bounds: files of the newest format that were not closed refuse to open. No lock, so that it can be read
    while it grows.
    """
    return h5py.File(path, "w", libver=("earliest", "v108"), locking=False)


def start(file: Any) -> None:
    """Add the counter of complete rows and write the structure to disk, before the first row."""
    file.create_dataset("n_done", data=0)
    file["n_done"].attrs["long_name"] = "number of complete rows"
    file.flush()


def commit(file: Any, rows: int) -> None:
    """Rows are on disk before they are counted: a reader that trusts `n_done` never sees half a row."""
    file.flush()
    file["n_done"][...] = rows
    file.flush()
