"""Signals that ask the process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (a closed terminal), and a queue's SIGUSR1, SIGUSR2.

They raise `KeyboardInterrupt`, as Python does, but never in the middle of a write. HDF5 would take that for a failure
of the disk, and of two files that belong together only one would be new. Python's own handlers stay until `listen` is
called.

A handler that was there before, such as one that puts a job back into its queue, is kept and called by `hand_on`, when the
job is saved.

A process runs one job or several. Each passes through `begin`, `finish` (only results are left to write) and `over`.
"""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

# Windows lacks some
_NUMBERS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)
_received: list[int] = []
# handlers of others that ours replaced
_others: dict[int, Callable] = {}
# how many nested blocks hold signals back, and whether a signal waits for their end
_blocks, _waiting = 0, False
# whether only results are left to write (the first signal is remembered), and whether the job is over (all are)
_finishing = _over = False
# an interrupt that was lost in a callback is raised again, after so many seconds
_again, _SOON = False, 0.02


class Interrupted(KeyboardInterrupt):
    """The end of a job by signals.

    **Arguments:**

    - `message`: what was kept and how to go on, for the user.
    - `names`: the signals that came, such as SIGINT. The first is kept as `name`. After two of them, or when the
      terminal was closed, `everything` is true: a sweep ends, too.
    """

    def __init__(self, message: str, names: Sequence[str]):
        super().__init__(message)
        self.name, self.everything = names[0], len(names) > 1 or "SIGHUP" in names


def listen() -> None:
    """Install the handlers of signals. Only the main thread can. A hangup that `nohup` ignores stays ignored."""
    _received.clear()
    begin()
    if threading.current_thread() is threading.main_thread():
        for number in _NUMBERS:
            before = signal.getsignal(number)
            if number == getattr(signal, "SIGHUP", None) and before is signal.SIG_IGN:
                continue
            if callable(before) and before not in (_take, signal.default_int_handler):
                _others[number] = before
            signal.signal(number, _take)
    # Python prints an interrupt inside a callback (of the garbage collector, of HDF5), and goes on
    if sys.unraisablehook is not _unraisable:
        global _print
        sys.unraisablehook, _print = _unraisable, sys.unraisablehook


def begin() -> None:
    """Start a job. A signal that came after the end of the last job interrupts this one."""
    global _waiting, _finishing, _over
    _waiting = _finishing = _over = False
    if _received:
        raise KeyboardInterrupt


def finish() -> None:
    """Mark that only results of this job are left to write: the first signal is remembered, the second interrupts."""
    global _finishing
    _finishing = True


def over() -> None:
    """End a job whose outcome is decided: signals are remembered for the next one."""
    global _over, _waiting
    _over, _waiting = True, False
    _received.clear()


def listens() -> bool:
    """Whether signals are taken here, which a process that a launcher started does not do by itself."""
    return signal.getsignal(signal.SIGTERM) is _take


def hand_on(name: str) -> None:
    """Call the handler of others for a signal that ended a job, and end the process; nothing where there was none."""
    number = signal.Signals[name]
    if (other := _others.get(number)) is not None:
        other(number, None)
        sys.exit(exit_code(name))


def ignore() -> None:
    """Ignore signals while the process ends, so that they do not change its exit code."""
    if threading.current_thread() is threading.main_thread():
        for number in _NUMBERS:
            signal.signal(number, signal.SIG_IGN)


def received() -> list[str]:
    """The signals that came during this job, by name."""
    return [signal.Signals(number).name for number in _received]


def exit_code(name: str) -> int:
    """The exit code of a process that this signal has ended."""
    return 128 + signal.Signals[name]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A block that signals do not interrupt: one that comes meanwhile interrupts at the end of the block."""
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
