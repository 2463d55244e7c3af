# ruff: noqa: E402
"""Strict arithmetic for every test: x64, no silent rank promotion, shapes in annotations checked at run time."""

import atexit
import gc
import importlib.metadata
import os
import shutil
import tempfile

# one cache of compiled programs and prepared states for all workers and all commands that tests start, empty at the beginning;
# the workers inherit its name
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="pdefit-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
# Programs of tests are compiled more often than they are run. On the largest ones these flags take a third of the time of the
# shipped ones; the code they give is up to four times slower. An unknown flag aborts the process, hence the version.
if importlib.metadata.version("jaxlib") == "0.10.1":
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1",
    )
# loading from the cache logs kilobytes (see pdefit.cli.main)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jaxtyping

with jaxtyping.install_import_hook(
    [
        "pdefit",
        "pdefit_cardiac",
        "pdefit_particles",
        "pdefit_pathways",
        "pdefit_reaction",
        "pdefit_classics",
        "pdefit_flow",
        "pdefit_populations",
        "pdefit_sphere",
    ],
    "beartype.beartype",
):
    # double precision and compilation cache as the command line has them
    from pdefit.cli.runtime.environment import forget_programs, prepare

    prepare()
    import pdefit._public  # noqa: F401

import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
# what is imported stays, and tracing makes millions of short-lived objects: collecting less often saves a sixth of its time
gc.set_threshold(200_000, 20, 100)


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(0)


@pytest.fixture(autouse=True)
def room_for_programs():
    """Thousands of tests compile more programs than a process may map.

    What earlier tests left is set aside while a test runs: closing a movie collects garbage, which took ten seconds.
    """
    gc.freeze()
    yield
    gc.unfreeze()
    # a program takes about a dozen of 65,530 maps, and counting maps takes longer than most tests
    if _requested[0] > 300:
        _requested[0] = 0
        forget_programs()


# --- programs compiled by the whole suite ------------------------------------------------------------------------------

# programs that the suite compiled when this number was last written: those not found in the cache, of all workers; a
# whole run prints what they are
RECORDED = 14_700
_compiled: list[int] = [0]
# programs that were compiled or read from the cache since their maps were last counted
_requested: list[int] = [0]


def _count(event: str, **_) -> None:
    _compiled[0] += event == "/jax/compilation_cache/cache_misses"
    _requested[0] += event == "/jax/compilation_cache/compile_requests_use_cache"


jax.monitoring.register_event_listener(_count)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    _compiled[0] += node.workeroutput.get("compiled", 0)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Fail the whole suite where it compiles a tenth more programs than were written down."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["compiled"] = _compiled[0]
        return
    whole = (
        config.args == config.getini("testpaths") and not config.option.keyword and config.option.markexpr == "not slow"
    )
    if whole:
        print(f"\n{_compiled[0]} programs compiled, {RECORDED} when last written down (conftest.py)")
        if _compiled[0] > 1.1 * RECORDED and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
