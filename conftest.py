# ruff: noqa: E402
"""Strict arithmetic for every test: x64, no silent rank promotion, shapes in annotations checked at run time."""

import atexit
import contextlib
import gc
import importlib.metadata
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

# One folder of prepared states for all workers and all commands that tests start, empty at the beginning; the workers inherit
# its name. Compiled programs are kept for the next run; `--measure` begins without any.
if "PYTEST_XDIST_WORKER" not in os.environ:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="pdefit-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
    if "--measure" not in sys.argv:
        programs = home / "pdefit-tests"
        if programs.is_dir() and sum(f.stat().st_size for f in programs.rglob("*") if f.is_file()) > 1e9:
            shutil.rmtree(programs)
        with contextlib.suppress(OSError):
            programs.mkdir(parents=True, exist_ok=True)
            (cache := Path(os.environ["XDG_CACHE_HOME"]) / "pdefit").mkdir()
            (cache / "xla").symlink_to(programs, target_is_directory=True)
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
    from pdefit.cli.runtime.memory_meter import resident

    prepare()
    import pdefit._public  # noqa: F401

import pytest

pytest_plugins = ["levels"]
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
    if resident() > _allowed[0]:
        forget_programs(always=True)
        _allowed[0] = max(_MOST_RESIDENT, 1.2 * resident())


@pytest.fixture
def saved_figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures of matplotlib that are saved, in coarse pixels."""
    from matplotlib.figure import Figure

    saved: list[Figure] = []
    save = Figure.savefig

    def kept(figure: Figure, path: Any, **_: Any) -> None:
        saved.append(figure)
        save(figure, path, dpi=20)

    monkeypatch.setattr(Figure, "savefig", kept)
    return saved


# bytes of a worker beyond which it drops its programs: two workers take less than 4 GB
_MOST_RESIDENT = 1.5e9
_allowed: list[float] = [_MOST_RESIDENT]


# programs that were compiled or read from the cache since their maps were last counted
_requested: list[int] = [0]


def _count(event: str, **_) -> None:
    _requested[0] += event == "/jax/compilation_cache/compile_requests_use_cache"


jax.monitoring.register_event_listener(_count)
