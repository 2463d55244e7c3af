"""Ratios of running times, measured in one process on one core."""

import os
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def one_core() -> None:
    """Keep this process, and what it starts, on one of its cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def seconds(*runs: Callable[[], Any], repeats: int = 5) -> list[float]:
    """The median CPU time of each run, taken in turns after one of each that compiles."""
    for run in runs:
        jax.block_until_ready(run())
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, times in zip(runs, taken, strict=True):
            begin = time.process_time()
            jax.block_until_ready(run())
            times.append(time.process_time() - begin)
    return [float(np.median(times)) for times in taken]
