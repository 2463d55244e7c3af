"""Observations that do not fit into memory: a few frames at a time, the next ones read ahead."""

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from pdefit.data.observations import Observations
from pdefit.data.readers.frames import Frames

_Arrays = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


class TargetFile:
    """Frames of an open file as `Observations`.

    Beside what the caller holds, one slice of frames is read ahead by a thread. Values are checked when they are read,
    and times were checked when the frames were opened. A frame, or a whole slice, without any finite value is masked.
    Closing this object closes the frames.
    """

    def __init__(self, frames: Frames):
        self._frames = frames
        self._ahead: tuple[tuple[int, int], Future[_Arrays]] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="targets")

    @property
    def ts(self) -> np.ndarray:
        """The times of all frames."""
        return self._frames.ts

    def read(self, first: int, last: int) -> Observations:
        """The observations in frames first..last-1."""
        self.prefetch(first, last)
        assert self._ahead is not None
        (_, arrays), self._ahead = self._ahead, None
        # built by the caller: where arrays go is a setting of its thread
        return Observations.build(self.ts[first:last], *arrays.result())

    def prefetch(self, first: int, last: int) -> None:
        """Start to read frames first..last-1. Frames that were read ahead before and not taken are dropped."""
        if self._ahead is not None and self._ahead[0] == (first, last):
            return
        if self._ahead is not None:
            self._ahead[1].cancel()
        self._ahead = (first, last), self._worker.submit(self._frames.arrays, first, last)

    def close(self) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._ahead = None
        self._frames.close()

    def __enter__(self) -> "TargetFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
