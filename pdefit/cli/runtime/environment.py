"""Settings that must precede the first array of JAX: compiler flags, compilation cache, precision."""

import ctypes
import gc
import hashlib
import importlib.metadata
import os
import platform
from contextlib import suppress
from pathlib import Path

import jax

from pdefit._util.cache import cache_folder
from pdefit._util.program import TRIED

# Measured on CPUs: wider vectors are 1.5 times faster. The second flag avoids reductions that are 2.5 times slower at random.
# An unknown flag aborts the process, so they are set only for versions that were tried.
_FLAGS = "--xla_cpu_prefer_vector_width=512 --xla_cpu_experimental_ynn_fusion_type=-reduce"
# LAPACK takes the threads of XLA for many small matrices. With threads of its own beside them it is ten times slower. Two such
# calls at once, on a pool of two threads, wait for each other for ever, so that a pool has four or more.
_THREADS = 4
# Every compiled program maps some memory. Linux allows a process 65530 maps by default, and beyond it the compiler crashes.
_MANY_MAPS = 25_000


def prepare() -> None:
    """Set double precision, threads, compiler flags, a device for each core, and the compilation cache.

    Flags and devices are unchanged if XLA_FLAGS is set; flags also if PDEFIT_XLA_FLAGS=none.
    """
    jax.config.update("jax_enable_x64", True)
    # read when the first array is made; what is set stays
    for name, value in threads(cores()).items():
        os.environ.setdefault(name, value)
    wanted = os.environ.get("PDEFIT_XLA_FLAGS", _FLAGS)
    if os.environ.get("XLA_FLAGS", wanted) == wanted:
        # JAX that has made an array refuses
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", cores())
        if wanted != "none" and importlib.metadata.version("jaxlib") in TRIED:
            os.environ["XLA_FLAGS"] = wanted
    programs = cache_folder("xla") / _processor()
    # without a folder that can be written there is no cache, and every program is compiled again
    if not _is_writable(programs):
        return
    # this path is part of the key of a program, so that one folder must not have two names
    jax.config.update("jax_compilation_cache_dir", str(programs.resolve()))
    # without this, nothing that compiles in under a second is kept
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def threads(cores: int) -> dict[str, str]:
    """Environment variables for one LAPACK thread per call, and an XLA pool that LAPACK calls cannot fill.

    **Arguments:** `cores`: the number of cores that this process may use.
    """
    return {"OPENBLAS_NUM_THREADS": "1"} | ({"NPROC": str(_THREADS)} if 1 < cores < _THREADS else {})


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def forget_programs(always: bool = False) -> None:
    """Drop the compiled programs of earlier jobs, always or if they fill so much memory that later ones might not fit."""
    if always:
        jax.clear_caches()
        gc.collect()
        # what was freed goes back to the machine, where its C library is glibc
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        return
    try:
        with open("/proc/self/maps") as maps:
            many = sum(1 for _ in maps) > _MANY_MAPS
    # only Linux has this file and this limit
    except OSError:
        return
    if many:
        jax.clear_caches()


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """Name of the instruction set of this processor.

    Nodes of a cluster may share a home directory, but not machine code.
    """
    try:
        flags = next(x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        flags = platform.processor()
    return f"{platform.machine()}-{hashlib.sha256(flags.encode()).hexdigest()[:12]}"
