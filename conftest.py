# ruff: noqa: E402
"""Strict arithmetic for every test: x64, no silent rank promotion, shapes in annotations checked at run time."""

import jax
import jaxtyping

jax.config.update("jax_enable_x64", True)

with jaxtyping.install_import_hook(
    ["pdefit", "pdefit_cardiac", "pdefit_particles", "pdefit_reaction"], "beartype.beartype"
):
    import pdefit._public  # noqa: F401

import pytest

from pdefit.cli.runtime.environment import forget_programs

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(0)


@pytest.fixture(autouse=True)
def room_for_programs():
    """Thousands of tests compile more programs than a process may map."""
    yield
    forget_programs()
