"""Signals that ask the process to end: SIGINT (Ctrl-C) and SIGTERM.

They raise `KeyboardInterrupt`, as Python does, but never in the middle of a write: HDF5 would take that for a failure of the
disk, and of two files that belong together only one would be new. Without `listen` Python's own handlers stay.
"""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

_received: list[int] = []
# blocks that signals wait for, and whether one waits
_blocks, _waiting = 0, False
# what a signal is for now: the first one may be only remembered, or all of them
_finishing = _over = False
# an interrupt that was lost is made again, so many seconds later
_again, _SOON = False, 0.02


class Interrupted(KeyboardInterrupt):
    """A job that signals have ended, and how that is recorded. After two of them `everything` ends."""

    def __init__(self, message: str, names: Sequence[str]):
        super().__init__(message)
        self.name, self.everything = names[0], len(names) > 1


def listen() -> None:
    """Take signals from now on. Only the main thread can."""
    _received.clear()
    begin()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _take)
    # Python prints an interrupt inside a callback (of the garbage collector, of HDF5), and goes on
    if sys.unraisablehook is not _unraisable:
        global _print
        sys.unraisablehook, _print = _unraisable, sys.unraisablehook


def begin() -> None:
    """A job begins. A signal that came behind the end of the last one interrupts this one."""
    global _waiting, _finishing, _over
    _waiting = _finishing = _over = False
    if _received:
        raise KeyboardInterrupt


def finish() -> None:
    """Of this job only results are left to write: the first signal is remembered, the second interrupts."""
    global _finishing
    _finishing = True


def over() -> None:
    """This job has ended, and how is decided: signals are remembered for the next one."""
    global _over, _waiting
    _over, _waiting = True, False
    _received.clear()


def ignore() -> None:
    """All is done but for the process's own end, which a signal must not give another exit code."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def received() -> list[str]:
    """The signals that came during this job, by name."""
    return [signal.Signals(number).name for number in _received]


def exit_code(name: str) -> int:
    """What a process exits with that this signal has ended."""
    return 128 + signal.Signals[name]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A signal that comes during the block interrupts behind it."""
    global _blocks, _waiting
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1
        if _waiting and not _blocks:
            _waiting = False
            raise KeyboardInterrupt


def _take(number: int, _: FrameType | None) -> None:
    global _waiting, _again
    if not _again:
        _received.append(number)
    _again = False
    if _over or not _received or (_finishing and len(_received) == 1):
        return
    if _blocks:
        _waiting = True
    else:
        raise KeyboardInterrupt


_print = sys.unraisablehook


def _unraisable(lost: "sys.UnraisableHookArgs") -> None:
    if issubclass(lost.exc_type, KeyboardInterrupt):
        timer = threading.Timer(_SOON, _repeat)
        timer.daemon = True
        timer.start()
    else:
        _print(lost)


def _repeat() -> None:
    global _again
    _again = True
    _thread.interrupt_main(signal.SIGINT)
