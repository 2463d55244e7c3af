"""What is set for the whole process, and kept within its limits."""

import jax
import jax.numpy as jnp

from pdefit.cli.runtime import environment


def test_programs_are_forgotten_only_when_there_are_many(monkeypatch):
    program = jax.jit(lambda x: x + 1)
    program(jnp.zeros(3))
    monkeypatch.setattr(environment, "_MANY_MAPS", 10_000_000)
    environment.forget_programs()
    assert program._cache_size() == 1
    monkeypatch.setattr(environment, "_MANY_MAPS", 0)
    environment.forget_programs()
    assert program._cache_size() == 0


def test_lapack_takes_one_thread_and_cannot_fill_the_pool():
    # two batched calls of LAPACK at once on a pool of two threads wait for each other for ever (jaxlib 0.10.1)
    assert [environment.threads(cores).get("NPROC") for cores in (1, 2, 3, 4, 16)] == [None, "4", "4", None, None]
    assert environment.threads(16)["OPENBLAS_NUM_THREADS"] == "1"
