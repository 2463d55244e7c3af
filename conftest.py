# ruff: noqa: E402
"""Strict arithmetic for every test: x64, no silent rank promotion, shapes in annotations checked at run time."""

import atexit
import os
import shutil
import tempfile

# one cache of compiled programs and prepared states for all workers and all commands that tests start, empty at the beginning;
# the workers inherit its name
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="pdefit-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
# loading from the cache logs kilobytes (see pdefit.cli.main)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jaxtyping

with jaxtyping.install_import_hook(
    ["pdefit", "pdefit_cardiac", "pdefit_particles", "pdefit_reaction"], "beartype.beartype"
):
    # double precision, compiler flags and compilation cache as the command line has them
    from pdefit.cli.runtime.environment import forget_programs, prepare

    prepare()
    import pdefit._public  # noqa: F401

import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(0)


@pytest.fixture(autouse=True)
def room_for_programs():
    """Thousands of tests compile more programs than a process may map."""
    yield
    forget_programs()
