"""HDF5 files that grow and can be killed at any moment."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from pdefit._util.interrupts import uninterrupted
from pdefit.output.store.surviving import SurvivingFile

# labels and names, in any script
TEXT = h5py.string_dtype()


@contextlib.contextmanager
def created(path: Path, name: Path | None = None) -> Iterator[Any]:
    """A new file that opens without repair after a kill -9, as long as every write is followed by `commit`. It stays open
    behind the block, unless the block fails. `name` is what errors call it."""
    with uninterrupted():
        file = SurvivingFile(path, name)
        try:
            yield file
        except BaseException:
            with contextlib.suppress(OSError):
                file.close()
            raise


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
