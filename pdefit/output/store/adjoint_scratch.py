"""Scratch file for adjoint checkpoints that do not fit into memory, written and read in the background."""

import io
import math
import queue
import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError, first_line

# states on their way to the file, and as many on their way back: one is transferred, one waits
_IN_FLIGHT = 2


class CheckpointFile:
    """Slots for states in a scratch file of raw bytes, deleted with this object; a file left by a killed run is replaced.

    One thread reads and writes in the order of the calls, so a slot holds the state written last. `write` returns once
    the state is copied, and waits only while two other writes are pending. At most four states are in memory. A failure
    in the background, such as a full disk, is raised by the next call. Any dtype is returned bit for bit.

    **Arguments:**

    - `path`: the path of the file.
    - `like`: arrays, or anything with `shape` and `dtype`, one for each leaf of a state.
    - `slots`: the number of states.
    """

    def __init__(self, path: Path, like: Sequence[Any], slots: int):
        self._path = path
        self._kinds = [(tuple(int(n) for n in leaf.shape), np.dtype(leaf.dtype)) for leaf in like]
        self._slots = slots
        # two buffers, returned by the worker and taken by `write`, bound the memory
        self._buffers: queue.SimpleQueue[list[np.ndarray]] = queue.SimpleQueue()
        for _ in range(_IN_FLIGHT):
            self._buffers.put(_empty(self._kinds))
        self._written: set[int] = set()
        self._coming: dict[int, Future[list[np.ndarray]]] = {}
        self._failure: PdefitError | None = None
        self._file = self._create()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")

    @property
    def state_bytes(self) -> int:
        """Bytes of one state."""
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype in self._kinds)

    def write(self, slot: int, leaves: Sequence[Any]) -> None:
        """Store a copy of a state, given by its leaves, in a slot."""
        self._check(slot)
        given = [np.asarray(leaf) for leaf in leaves]
        if (kinds := [(array.shape, array.dtype) for array in given]) != self._kinds:
            raise ValueError(f"A checkpoint of {self._kinds} is expected, but got {kinds}")
        buffer = self._buffers.get()
        for mine, array in zip(buffer, given, strict=True):
            mine[...] = array
        # a copy that was prefetched before is out of date
        self._coming.pop(slot, None)
        self._written.add(slot)
        self._worker.submit(self._write, slot, buffer)

    def read(self, slot: int) -> list[np.ndarray]:
        """The state last written into a slot, as new arrays."""
        self._check(slot)
        if slot not in self._written:
            raise KeyError(f"Slot {slot} holds no checkpoint")
        coming = self._coming.pop(slot, None) or self._worker.submit(self._read, slot)
        leaves = coming.result()
        # a write before this read may have failed
        self._check(slot)
        return leaves

    def prefetch(self, slot: int) -> None:
        """Begin to read a slot in advance. If there are more than two such slots, the oldest is dropped."""
        self._check(slot)
        if slot in self._coming or slot not in self._written:
            return
        while len(self._coming) >= _IN_FLIGHT:
            self._coming.pop(next(iter(self._coming))).cancel()
        self._coming[slot] = self._worker.submit(self._read, slot)

    def close(self) -> None:
        """Stop the background thread and delete the file."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._coming.clear()
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _create(self) -> io.FileIO:
        """A new file, if there is room for all slots."""
        folder, needed = self._path.parent, self._slots * self.state_bytes
        try:
            self._path.unlink(missing_ok=True)
            free = shutil.disk_usage(folder).free
            if needed > free:
                raise PdefitError(
                    f"{self._slots} checkpoints take {needed / 1e9:.3g} GB, but '{folder}' has {free / 1e9:.3g} GB left; "
                    "allow fewer checkpoints, or free space there"
                )
            return open(self._path, "w+b", buffering=0)
        except OSError as error:
            raise self._readable(error, "created") from None

    def _write(self, slot: int, buffer: list[np.ndarray]) -> None:
        """Write a state from a buffer; runs in the background thread."""
        try:
            self._transfer(slot, buffer, "written")
        finally:
            self._buffers.put(buffer)

    def _read(self, slot: int) -> list[np.ndarray]:
        """Read a state into new arrays; runs in the background thread."""
        leaves = _empty(self._kinds)
        self._transfer(slot, leaves, "read")
        return leaves

    def _transfer(self, slot: int, leaves: list[np.ndarray], verb: str) -> None:
        """Transfer all leaves to or from the file in order; no effect after a failure."""
        if self._failure is not None:
            return
        try:
            self._file.seek(slot * self.state_bytes)
            for leaf in leaves:
                left = leaf.reshape(-1).view(np.uint8).data
                while left:
                    done = self._file.write(left) if verb == "written" else self._file.readinto(left)
                    if not done:
                        raise OSError("it is shorter than what was written into it")
                    left = left[done:]
        except OSError as error:
            self._failure = self._readable(error, verb)

    def _check(self, slot: int) -> None:
        if self._failure is not None:
            raise self._failure
        if not 0 <= slot < self._slots:
            raise IndexError(f"A slot below {self._slots} is expected, but got {slot}")

    def _readable(self, error: Exception, verb: str) -> PdefitError:
        return PdefitError(
            f"The checkpoint file '{self._path}' cannot be {verb} ({first_line(error)}); free space on its disk, or put it "
            "into a folder that can be written"
        )


def _empty(kinds: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    return [np.empty(shape, dtype) for shape, dtype in kinds]
