"""HDF5 files that survive a failing disk.

HDF5 itself does not survive it. If a write fails while caches are flushed, HDF5 leaves objects that it cannot close,
and the process ends in a segmentation fault at exit. So HDF5 writes into a `Sink`, which accepts everything. The sink
keeps the first failure of the disk and writes nothing after it. The file is then in the same state as after a kill at
this moment. `flush` and `close` raise the stored failure.

Files that grow row by row open without repair after a kill -9: `created`, `rows`, `start` and `commit` order the writes.
HDF5 itself orders only flushes. Within a flush a new chunk can be linked before the file is long enough for it, and a node
of the index can be split in two writes. So every row has its place in the file before the first row is written.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from pdefit._util.interrupts import uninterrupted

# type of labels and names: UTF-8 of any length
TEXT = h5py.string_dtype()


class Sink(io.RawIOBase):
    """A new file that accepts every write, and keeps its first failure in `failure`.

    **Arguments:**

    - `path`: the path of the file.
    - `name`: the path shown in errors.
    """

    def __init__(self, path: Path, name: Path):
        self._name, self._file = str(name), open(path, "w+b", buffering=0)
        self.failure: BaseException | None = None
        # bytes that the disk refused, by offset, because HDF5 may read them again
        self._unwritten: dict[int, bytes] = {}
        self._at, self._size = 0, 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        kept, at = self._unwritten.get(self._at, b"")[: len(view)], self._at
        view[: len(kept)] = kept
        found = len(kept)
        try:
            while not kept and found < len(view):
                self._file.seek(at + found)
                read = self._file.readinto(view[found:])
                if not read:
                    break
                found += read
        except BaseException as error:
            self._fail(error)
        view[found:] = bytes(len(view) - found)
        self._at = at + len(view)
        return len(view)

    def write(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        written, at = 0, self._at
        try:
            while written < len(view) and self.failure is None:
                self._file.seek(at + written)
                written += self._file.write(view[written:])
        # BaseException: an interrupt must not pass through HDF5 either
        except BaseException as error:
            self._fail(error)
        if self.failure is not None:
            self._unwritten[at] = bytes(view)
        self._at = at + len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        self._size = self._at if size is None else size
        try:
            if self.failure is None:
                self._file.truncate(self._size)
        except BaseException as error:
            self._fail(error)
        return self._size

    def close(self) -> None:
        self._file.close()
        super().close()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, OSError):
            error.filename = self._name
        self.failure = self.failure or error


class SurvivingFile(h5py.File):
    """A new HDF5 file whose `flush` and `close` raise `OSError`, with the name of the file, if the disk has failed.

    It has an older format, since files of the newest format cannot be opened if they were not closed. It is not locked,
    so that it can be read while it grows.

    **Arguments:**

    - `path`: the path of the file.
    - `name`: the path shown in errors (default: `path`).
    - `options`: options of `h5py.File`.
    """

    def __init__(self, path: Path, name: Path | None = None, **options: Any):
        self.sink = Sink(path, name or path)
        super().__init__(self.sink, "w", libver=("earliest", "v108"), locking=False, **options)

    def flush(self) -> None:
        with uninterrupted():
            super().flush()
        self.check()

    def close(self) -> None:
        with uninterrupted():
            super().close()
            self.sink.close()
        self.check()

    def check(self) -> None:
        """Raise the first failure of the disk."""
        if self.sink.failure is not None:
            raise self.sink.failure


@contextlib.contextmanager
def created(path: Path, name: Path | None = None) -> Iterator[Any]:
    """Context manager of a new HDF5 file that opens without repair after a kill -9, if `commit` follows every write.

    The file stays open after the block, unless the block fails.

    **Arguments:**

    - `path`: the path of the file.
    - `name`: the path shown in errors (default: `path`).
    """
    with uninterrupted():
        file = SurvivingFile(path, name)
        try:
            yield file
        except BaseException:
            with contextlib.suppress(OSError):
                file.close()
            raise


def rows(file: Any, name: str, shape: tuple[int, ...], dtype: Any, fill: float | None = None) -> Any:
    """New dataset for rows, (rows, ...), which is on disk in full length, filled, before the first row is written.

    **Arguments:**

    - `file`: the file.
    - `name`: the name of the dataset.
    - `shape`: its shape.
    - `dtype`: the type of its numbers.
    - `fill`: the value of rows that are not written (default: 0).
    """
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    return file.create_dataset(name, shape, dtype, fillvalue=fill, dcpl=early)


def start(file: Any) -> None:
    """Write the structure to disk before the first row, with a counter of complete rows."""
    file.create_dataset("n_done", data=0)
    file["n_done"].attrs["long_name"] = "number of complete rows"
    file.flush()


def commit(file: Any, count: int) -> None:
    """Count rows after they are on disk, so that a reader who stops at row `n_done` never sees a partial row."""
    file.flush()
    file["n_done"][...] = count
    file.flush()
