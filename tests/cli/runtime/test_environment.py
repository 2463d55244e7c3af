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
