"""Growing HDF5 files, whose writer may be killed at any moment."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from pdefit._util.interrupts import uninterrupted
from pdefit.output.store._surviving import SurvivingFile

# type of labels and names: UTF-8 of any length
TEXT = h5py.string_dtype()


@contextlib.contextmanager
def created(path: Path, name: Path | None = None) -> Iterator[Any]:
    """New HDF5 file that opens without repair after a kill -9, as long as every write is followed by `commit`.

    The file stays open after the block, unless the block fails.

    **Arguments:**

    - `path`: where it is written.
    - `name`: the path that errors show (default: `path`).
    """
    with uninterrupted():
        file = SurvivingFile(path, name)
        try:
            yield file
        except BaseException:
            with contextlib.suppress(OSError):
                file.close()
            raise


def start(file: Any) -> None:
    """Write the structure to disk before the first row, with a counter of complete rows."""
    file.create_dataset("n_done", data=0)
    file["n_done"].attrs["long_name"] = "number of complete rows"
    file.flush()


def commit(file: Any, rows: int) -> None:
    """Count rows after they are on disk, so that a reader who stops at row `n_done` never sees half a row."""
    file.flush()
    file["n_done"][...] = rows
    file.flush()
