"""Settings of a process before JAX is imported (signals, cores, GPUs), and its timing."""

import multiprocessing
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdefit._util import interrupts

# of the memory of a GPU, what its processes share
_SHARED = 0.9
_WORKER = re.compile(r"LokyProcess-(\d+)")


def settle(launcher: Mapping[str, Any]) -> None:
    """Handle signals, and give a process of the launcher `joblib` its share of the cores and one of the GPUs.

    XLA starts a thread for each core it may use. So n processes on n cores would otherwise start n^2 threads, and every
    process would take the memory of all GPUs. Settings of the user (CUDA_VISIBLE_DEVICES,
    XLA_PYTHON_CLIENT_MEM_FRACTION) are divided or kept.

    **Arguments:** `launcher`: its configuration, in which `n_jobs` is the number of processes.
    """
    if not interrupts.listens():
        interrupts.listen()
    found = _WORKER.fullmatch(multiprocessing.current_process().name)
    if found is None or "PDEFIT_WORKER" in os.environ:
        return
    wanted = int(launcher.get("n_jobs") or 1)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    processes = max(wanted if wanted > 0 else len(cores) + 1 + wanted, 1)
    number = (int(found.group(1)) - 1) % processes
    os.environ["PDEFIT_WORKER"] = str(number)
    if cores:
        os.sched_setaffinity(0, cores[number % len(cores) :: processes])
    if gpus := _gpus():
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
        each = -(-processes // len(gpus))
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{_SHARED / each:.2f}")


def _gpus() -> list[str]:
    """GPUs of this process by index or name: those in CUDA_VISIBLE_DEVICES, or all of the machine."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return [name.strip() for name in listed.split(",") if name.strip() not in ("", "-1")]
    found = (re.fullmatch(r"nvidia(\d+)", path.name) for path in Path("/dev").glob("nvidia*"))
    return sorted((match.group(1) for match in found if match), key=int)


# when the command began; its first job takes this, since later ones of a sweep wait for no imports
_started: list[float] = []
# what JAX measures of a program on its way to machine code
_COMPILING = ("/jax/core/compile/jaxpr_to_mlir_module_duration", "/jax/core/compile/backend_compile_duration")


def start() -> None:
    """Mark the start of a command."""
    _started[:] = [time.perf_counter()]


class Stopwatch:
    """Seconds of the consecutive parts of a job. The first part, `imports`, is the time before the job.

    `compiling` counts the seconds in these parts in which programs were compiled or read from the cache.
    """

    def __init__(self):
        # commands that compute nothing start without JAX
        from jax import monitoring

        self.compiling = 0.0
        monitoring.register_event_duration_secs_listener(self._compiled)
        self._begin = self._last = time.perf_counter()
        self.seconds = {"imports": self._begin - _started.pop() if _started else 0.0}

    def lap(self, part: str) -> None:
        """Add the time since the last call to a part."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now

    def _compiled(self, event: str, duration_secs: float, **_) -> None:
        if event in _COMPILING:
            self.compiling += duration_secs

    def total(self) -> float:
        """Seconds since the command was started."""
        return self.seconds["imports"] + time.perf_counter() - self._begin

    def __str__(self) -> str:
        """Parts of a twentieth of a second or more, in order."""
        return ", ".join(f"{part} {taken:.1f}" for part, taken in self.seconds.items() if taken >= 0.05)
