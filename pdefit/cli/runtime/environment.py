"""What must be set before JAX makes its first array: compiler flags, compilation cache, device."""

import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

import jax

from pdefit._util.cache import cache_folder

# measured to help on CPUs: 1.5x by wider vectors; the second removes a random 2.5x slow mode of reductions.
# An unknown flag aborts the process, so they are set only for versions that were tried.
_FLAGS = "--xla_cpu_prefer_vector_width=512 --xla_cpu_experimental_ynn_fusion_type=-reduce"
_TRIED = ("0.10.1",)
# every compiled program maps some memory; Linux allows a process 65530 maps by default and the compiler dies beyond
_MANY_MAPS = 25_000


def prepare() -> None:
    """Set double precision, compiler flags (unless XLA_FLAGS is set, or PDEFIT_XLA_FLAGS=none) and the compilation cache."""
    jax.config.update("jax_enable_x64", True)
    wanted = os.environ.get("PDEFIT_XLA_FLAGS", _FLAGS)
    if "XLA_FLAGS" not in os.environ and wanted != "none" and importlib.metadata.version("jaxlib") in _TRIED:
        os.environ["XLA_FLAGS"] = wanted
    programs = cache_folder("xla") / _processor()
    # without a place for them every program is compiled anew
    if not _is_writable(programs):
        return
    jax.config.update("jax_compilation_cache_dir", str(programs))
    # without this, nothing that compiles in under a second is kept
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def forget_programs() -> None:
    """Drop the compiled programs of earlier jobs of this process, when there are so many that the next ones might not fit."""
    try:
        with open("/proc/self/maps") as maps:
            many = sum(1 for _ in maps) > _MANY_MAPS
    # no such limit elsewhere
    except OSError:
        return
    if many:
        jax.clear_caches()


def _processor() -> str:
    """A name for what this processor can execute: nodes of a cluster may share a home directory, but not machine code."""
    try:
        flags = next(x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        flags = platform.processor()
    return f"{platform.machine()}-{hashlib.sha256(flags.encode()).hexdigest()[:12]}"
