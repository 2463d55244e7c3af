"""Signals: when they interrupt, when they wait, and what is remembered of them."""

import gc
import os
import signal
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


def test_results_are_finished_after_one_signal_and_not_after_two():
    interrupts.finish()
    send()
    assert interrupts.received() == ["SIGTERM"]
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)


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
