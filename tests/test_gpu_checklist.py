"""The checklist for a GPU, on the CPU."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "gpu.py"


@pytest.fixture(scope="module")
def gpu():
    spec = importlib.util.spec_from_file_location("gpu_checklist", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_table_is_written(tmp_path):
    words = [sys.executable, SCRIPT, "--quick", "--platform", "cpu", "--out", tmp_path / "gpu.md"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "1 of 1 as expected" in done.stdout, done.stdout + done.stderr
    head, _, row = (tmp_path / "gpu.md").read_text().splitlines()
    assert head.startswith("| task | cpu (s) | CPU (s)") and row.startswith("| gradient of 32 x 32 cells | ")


def test_what_is_slow_or_wrong_is_named(gpu):
    task = gpu.Task("gradient", [], 8.0)
    here = gpu.Found(16.0, 1.0, "")
    assert gpu.judged(task, gpu.Found(1.0, 1.0, ""), here) == ""
    assert "at least 8 times faster" in gpu.judged(task, gpu.Found(4.0, 1.0, ""), here)
    assert "another value" in gpu.judged(task, gpu.Found(1.0, 1.1, ""), here)
    assert gpu.judged(task, gpu.Found(None, None, "XlaRuntimeError: x"), here) == "fails: XlaRuntimeError: x"
    assert all(Path(task.words[1]).exists() for task in gpu.tasks(quick=False) if task.words[0] == sys.executable)
