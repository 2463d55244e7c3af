"""Files as a kill -9 leaves them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pdefit.output.store import _surviving


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], None]], Iterator[Path]]:
    """From a writer of a file to the files that a kill would leave: after each write since the first row, and within it.

    A killed process leaves the first part of its writes, in their order.
    """
    files: dict[_surviving.Sink, list[tuple[int, bytes | None]]] = {}
    started: dict[_surviving.Sink, int] = {}
    write, truncate, start = _surviving.Sink.write, _surviving.Sink.truncate, _surviving.start

    def recorded_write(self, buffer):
        files.setdefault(self, []).append((self.tell(), bytes(buffer)))
        return write(self, buffer)

    def recorded_truncate(self, size=None):
        files.setdefault(self, []).append((self.tell() if size is None else size, None))
        return truncate(self, size)

    def recorded_start(file):
        start(file)
        started[file.sink] = len(files[file.sink])

    monkeypatch.setattr(_surviving.Sink, "write", recorded_write)
    monkeypatch.setattr(_surviving.Sink, "truncate", recorded_truncate)
    monkeypatch.setattr(_surviving, "start", recorded_start)

    def run(writer: Callable[[Path], None]) -> Iterator[Path]:
        writer(tmp_path / "whole.h5")
        left = tmp_path / "left.h5"
        for sink, events in files.items():
            held = bytearray()
            for number, (at, written) in enumerate(events):
                if written is None:
                    held = held[:at].ljust(at, b"\0")
                    continue
                for part in (written[: len(written) // 2], written):
                    held = held.ljust(at + len(part), b"\0")
                    held[at : at + len(part)] = part
                    if number >= started[sink]:
                        left.write_bytes(held)
                        yield left

    return run
