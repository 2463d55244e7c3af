"""Processes of a launcher."""

import os
from types import SimpleNamespace

from pdefit.cli.runtime import process as worker


def test_workers_share_cores_and_gpus(monkeypatch):
    taken = []
    monkeypatch.setattr(worker.os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4}, raising=False)
    monkeypatch.setattr(worker.os, "sched_setaffinity", lambda _, cores: taken.append(list(cores)), raising=False)
    monkeypatch.setattr(worker.interrupts, "listens", lambda: True)
    seen = []
    for number in (1, 2, 3):
        monkeypatch.setattr(
            worker.multiprocessing, "current_process", lambda n=number: SimpleNamespace(name=f"LokyProcess-{n}")
        )
        with monkeypatch.context() as patch:
            patch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
            patch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
            patch.delenv("PDEFIT_WORKER", raising=False)
            worker.settle({"n_jobs": 3})
            # a second job of the same process changes nothing
            worker.settle({"n_jobs": 3})
            seen.append((os.environ["CUDA_VISIBLE_DEVICES"], os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"]))
            patch.delenv("PDEFIT_WORKER")
    assert taken == [[0, 3], [1, 4], [2]]
    # two of the three share the first GPU
    assert seen == [("4", "0.45"), ("7", "0.45"), ("4", "0.45")]


def test_a_process_of_its_own_is_left_alone(monkeypatch):
    monkeypatch.delenv("PDEFIT_WORKER", raising=False)
    monkeypatch.setattr(worker.interrupts, "listens", lambda: True)
    worker.settle({"n_jobs": 3})
    assert "PDEFIT_WORKER" not in os.environ
