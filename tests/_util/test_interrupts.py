"""Signals: when they interrupt, when they wait, and what is remembered of them."""

import gc
import os
import queue
import signal
import subprocess
import sys
import time

import pytest

from pdefit._util import interrupts


@pytest.fixture(autouse=True)
def listening():
    before = {number: signal.getsignal(number) for number in interrupts._NUMBERS}
    interrupts.listen()
    yield
    interrupts.over()
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


def test_a_signal_interrupts_and_is_remembered_until_the_job_is_over():
    with pytest.raises(KeyboardInterrupt):
        send()
    assert interrupts.received() == ["SIGTERM"] and interrupts.exit_code("SIGTERM") == 143
    interrupts.over()
    assert not interrupts.received() and interrupts.exit_code("SIGINT") == 130


def test_a_signal_waits_for_the_end_of_the_outermost_block():
    steps = []
    with pytest.raises(KeyboardInterrupt), interrupts.uninterrupted():
        with interrupts.uninterrupted():
            send()
            steps.append("inner")
        steps.append("outer")
    assert steps == ["inner", "outer"]
    # and is told once
    with interrupts.uninterrupted():
        pass


# a mutex that is locked twice holds the main thread as compiled code does: other threads run, and handlers do not
_LEFT = """
import ctypes, os, signal, sys, threading, time
from pdefit._util import interrupts

mutex, libc = (ctypes.c_char * 64)(), ctypes.CDLL(None)
libc.pthread_mutex_lock(mutex)
signals = int(sys.argv[1])

def mark(names):
    print("marked", *names)
    return interrupts.Interrupted("interrupted by " + names[0], names)

interrupts.PATIENCE = float(sys.argv[2])
interrupts.listen()
interrupts.begin(mark)
if sys.argv[3] == "in a write":
    try:
        with interrupts.uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.3)
            print("written")
    except KeyboardInterrupt:
        libc.pthread_mutex_lock(mutex)
else:
    for n in range(signals):
        threading.Timer(0.1 + 0.1 * n, os.kill, (os.getpid(), signal.SIGTERM)).start()
    libc.pthread_mutex_lock(mutex)
print("never")
"""


@pytest.mark.parametrize(
    ("signals", "patience", "where", "printed"),
    [
        (1, 0.0, "in compiled code", ["marked SIGTERM"]),
        (2, 1e6, "in compiled code", ["marked SIGTERM SIGTERM"]),
        (1, 0.0, "in a write", ["written", "marked SIGTERM"]),
    ],
)
def test_the_process_is_left_where_compiled_code_holds_the_main_thread(signals, patience, where, printed):
    command = [sys.executable, "-c", _LEFT, str(signals), str(patience), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 143 and done.stdout.splitlines() == printed, done.stderr
    assert done.stderr == "error: interrupted by SIGTERM\n"


def test_a_job_that_shares_its_process_is_left_after_two_signals(monkeypatch):
    left = queue.Queue()
    monkeypatch.setattr(interrupts, "PATIENCE", 0.0)
    monkeypatch.setattr(interrupts, "_leave", lambda _, names: left.put(names))
    interrupts.begin(lambda names: interrupts.Interrupted("", names), alone=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        with pytest.raises(KeyboardInterrupt):
            send(number)
    assert left.get(timeout=600) == ["SIGTERM", "SIGINT"] and left.empty()


def test_a_signal_that_comes_too_late_is_for_the_next_job():
    interrupts.over()
    send()
    with pytest.raises(KeyboardInterrupt):
        interrupts.begin()
    assert interrupts.received() == ["SIGTERM"]


def test_an_interrupt_that_python_throws_away_comes_again():
    """An exception in a callback of the garbage collector, or of a library, is printed and forgotten."""

    def callback(*_):
        gc.callbacks.remove(callback)
        send()

    gc.callbacks.append(callback)
    gc.collect()
    assert interrupts.received() == ["SIGTERM"]
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            time.sleep(0.01)
    assert interrupts.received() == ["SIGTERM"]


def test_a_handler_of_others_is_called_when_the_job_is_saved(monkeypatch):
    """As that of a launcher, which puts the job back into its queue."""
    called = []
    monkeypatch.setattr(interrupts, "_others", {})
    signal.signal(signal.SIGUSR2, lambda number, frame: called.append(number))
    interrupts.listen()
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGUSR2)
    assert interrupts.received() == ["SIGUSR2"] and not called
    with pytest.raises(SystemExit, match="140"):
        interrupts.hand_on("SIGUSR2")
    assert called == [signal.SIGUSR2]
    # nobody else waits for this one
    interrupts.hand_on("SIGTERM")


def test_a_closed_terminal_ends_a_whole_sweep_unless_it_is_ignored():
    assert interrupts.Interrupted("", ["SIGHUP"]).everything and not interrupts.Interrupted("", ["SIGUSR1"]).everything
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.listen()
    send(signal.SIGHUP)
    assert not interrupts.received()
