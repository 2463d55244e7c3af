"""What a process that a launcher started has to settle before JAX is imported: signals, cores and GPUs."""

import multiprocessing
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdefit._util import interrupts

# of the memory of a GPU, what its processes share
_SHARED = 0.9
_WORKER = re.compile(r"LokyProcess-(\d+)")


def settle(launcher: Mapping[str, Any]) -> None:
    """Take signals, and give a process of the launcher `joblib` its own part of the cores, and one of the GPUs.

    XLA starts a thread for each core it may use. So n processes on n cores would otherwise start n times n threads, and
    every process would take the memory of all GPUs. What the user has set (CUDA_VISIBLE_DEVICES,
    XLA_PYTHON_CLIENT_MEM_FRACTION) is divided or kept.

    **Arguments:** `launcher` is its configuration, of which `n_jobs` is the number of processes.
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
    """The GPUs of this process by number or name: those that CUDA_VISIBLE_DEVICES lists, or all of the machine."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return [name.strip() for name in listed.split(",") if name.strip() not in ("", "-1")]
    found = (re.fullmatch(r"nvidia(\d+)", path.name) for path in Path("/dev").glob("nvidia*"))
    return sorted((match.group(1) for match in found if match), key=int)
