"""Signals that ask the process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (a closed terminal), and a queue's SIGUSR1, SIGUSR2.

They raise `KeyboardInterrupt`, as Python does, but never in the middle of a write. HDF5 would take that for a failure
of the disk, and of two files that belong together only one would be new. Python's own handlers stay until `listen` is
called.

Python handles a signal only when compiled code returns, which may take minutes. So a thread waits for signals, too, and
ends the process if the main thread does not: some seconds after the first signal, at once after the second. The thread
interrupts no write either. Otherwise it acts like `kill -9`, which the files of a run survive.

An earlier handler, such as one that puts a job back into its queue, is kept and called by `hand_on` once the job is saved.

A process runs one job or several. Each passes through `begin` and `over`.
"""

import _thread
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

# Windows lacks some
_NUMBERS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)
_received: list[int] = []
# handlers of others that ours replaced
_others: dict[int, Callable] = {}
# how many nested blocks hold signals back, and whether a signal waits for their end
_blocks, _waiting = 0, False
# held by such a block, so that the process is not left in it
_writing = threading.RLock()
# whether the job is over: signals are remembered
_over = False
# an interrupt that was lost in a callback is raised again, after so many seconds, and is no new signal for the thread
_again, _SOON, _repeats = False, 0.02, 0
# seconds in which the main thread may end the job after the first signal
PATIENCE = 10.0


class Interrupted(KeyboardInterrupt):
    """Interruption of a job by signals.

    **Arguments:**

    - `message`: what was saved and how to continue, for the user.
    - `names`: the received signals, such as SIGINT. The first is kept as `name`. After two of them, or when the
      terminal was closed, `everything` is true: a sweep ends, too.
    """

    def __init__(self, message: str, names: Sequence[str]):
        super().__init__(message)
        self.name, self.everything = names[0], len(names) > 1 or "SIGHUP" in names


# marks the job as interrupted by the named signals; None where none runs
Mark = Callable[[Sequence[str]], Interrupted]
_mark: Mark | None = None
# whether the process ends with this job, and the end of a pipe into which Python writes signals for the thread
_alone, _pipe = True, -1


def listen() -> None:
    """Install the signal handlers, in the main thread only. A hangup ignored by `nohup` stays ignored."""
    global _pipe
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
        if _pipe < 0:
            end, _pipe = os.pipe()
            os.set_blocking(_pipe, False)
            threading.Thread(target=_wait, args=(end,), daemon=True).start()
            # signals of a copy of this process are its own
            os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        signal.set_wakeup_fd(_pipe, warn_on_full_buffer=False)
    # Python prints an interrupt inside a callback (of the garbage collector, of HDF5), and goes on
    if sys.unraisablehook is not _unraisable:
        global _print
        sys.unraisablehook, _print = _unraisable, sys.unraisablehook


def begin(mark: Mark | None = None, alone: bool = True) -> None:
    """Start a job. A signal received after the end of the last job interrupts this one.

    **Arguments:**

    - `mark`: marks the job as interrupted before the process is ended at once; by default it is not ended.
    - `alone`: whether the process ends with the job. Otherwise a first signal waits for compiled code.
    """
    global _waiting, _over, _mark, _alone
    _waiting = _over = False
    _mark, _alone = mark, alone
    if _received:
        raise KeyboardInterrupt


def over() -> None:
    """End a job whose outcome is decided; later signals are kept for the next job."""
    global _over, _waiting, _mark
    _over, _waiting, _mark = True, False, None
    _received.clear()


def listens() -> bool:
    """True if the handlers of `listen` are installed."""
    return signal.getsignal(signal.SIGTERM) is _take


def hand_on(name: str) -> None:
    """Call the earlier handler of a signal that ended a job, and end the process; no effect without such a handler."""
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
    """Names of the signals received during this job."""
    return [signal.Signals(number).name for number in _received]


def exit_code(name: str) -> int:
    """Exit code of a process ended by this signal."""
    return 128 + signal.Signals[name]


def leave(code: int) -> None:
    """End the process at once, without waiting for threads or computations."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Context manager that delays interruption: a signal during the block interrupts at its end."""
    global _blocks, _waiting
    # counted first and last, so that no interrupt comes between the lock and its release
    _blocks += 1
    _writing.acquire()
    try:
        yield
    finally:
        _writing.release()
        _blocks -= 1
        if _waiting and not _blocks:
            _waiting = False
            raise KeyboardInterrupt


def _take(number: int, _: FrameType | None) -> None:
    global _waiting, _again
    if not _again:
        _received.append(number)
    _again = False
    if _over or not _received:
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
    global _again, _repeats
    _again, _repeats = True, _repeats + 1
    _thread.interrupt_main(signal.SIGINT)


def _wait(end: int) -> None:
    """Wait for signals on a pipe, and end the process if the main thread does not."""
    global _repeats
    job, names = None, list[str]()
    while number := os.read(end, 1)[0]:
        if number == signal.SIGINT and _repeats:
            _repeats -= 1
            continue
        if number not in _NUMBERS or _mark is None:
            continue
        if job is not _mark:
            job, names = _mark, []
        names.append(signal.Signals(number).name)
        if _alone or number in _others or Interrupted("", names).everything:
            timer = threading.Timer(0.0 if len(names) > 1 else PATIENCE, _leave, (job, [*names]))
            timer.daemon = True
            timer.start()


def _leave(job: Mark, names: Sequence[str]) -> None:
    """Mark a job as interrupted and end the process, unless the job has ended meanwhile."""
    code: Any = exit_code(names[0])
    with _writing:
        if job is not _mark:
            return
        try:
            print(f"error: {job(names)}", file=sys.stderr)
            sys.stdout.flush()
            hand_on(names[0])
        except SystemExit as end:
            code = end.code
        finally:
            os._exit(code)
