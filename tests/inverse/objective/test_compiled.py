"""Programs compiled in a thread before they are called."""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import jax.numpy as jnp

from pdefit.inverse.objective.compiled import Program


def doubling() -> tuple[Program, list[int]]:
    traced: list[int] = []
    return Program(lambda x: traced.append(1) or 2 * x), traced


def test_a_program_that_was_begun_is_not_traced_again():
    program, traced = doubling()
    with ThreadPoolExecutor(1) as executor:
        program.begin(executor, jnp.ones(3))
    assert float(program(jnp.ones(3))[0]) == 2 and len(traced) == 1
    program(jnp.ones(4))
    assert len(traced) == 2


def test_a_call_waits_for_its_own_program_only():
    program, _ = doubling()
    asked = []

    class Begun(Future):
        def exception(self, timeout=None):
            asked.append("waited")

    class Executor(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            job = Begun()
            job.set_running_or_notify_cancel()
            return job

    program.begin(Executor(1), jnp.ones(3))
    program(jnp.ones(2))
    assert not asked
    program(jnp.ones(3))
    assert asked == ["waited"]


def test_a_call_does_not_wait_for_a_program_behind_others():
    program, traced = doubling()
    free = Event()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(free.wait)
        program.begin(executor, jnp.ones(3))
        assert float(program(jnp.ones(3))[0]) == 2
        free.set()
    assert len(traced) == 1
