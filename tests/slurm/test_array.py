"""A sweep as an array of SLURM jobs: one is put back into the queue, and goes on."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAUNCHER = importlib.util.find_spec("submitit") is not None
ANSWERS = shutil.which("sinfo") is not None and subprocess.run(["sinfo"], capture_output=True).returncode == 0


@pytest.mark.slurm
@pytest.mark.skipif(not LAUNCHER, reason="the extra `cluster` is not installed")
@pytest.mark.skipif(not ANSWERS, reason="no SLURM answers; scripts/slurm/one_node.sh install, then start")
def test_an_array_that_is_preempted_has_the_table_of_a_plain_sweep():
    benchmark = ROOT / "tests" / "benchmarks" / "sweep_slurm.py"
    words = [sys.executable, benchmark, "--jobs", "2", "--preempt", "1", "--kill", "0", "--iterations", "800"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    # one job at least was put back and went on
    assert "2 of 2 done" in done.stdout and "in 2 parts" not in done.stdout and "resumed 0 times" in done.stdout
