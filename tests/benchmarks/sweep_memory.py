"""Memory of a long sweep of small jobs in one process.

    ./run python tests/benchmarks/sweep_memory.py [--jobs 200]

Prints the resident memory when jobs of these numbers start. It should not grow: compiled programs are forgotten after ten jobs.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PDEFIT = str(Path(sys.executable).with_name("pdefit"))
# every second job has another number of cells, and so programs of its own
SMALL = (
    "experiment=reaction/fisher_front", "times.count=5", "max_iterations=1", "render=false", "certificate=end",
    "system.grid.shape=[20],[24]",
)  # fmt: skip


def resident(process: int) -> float:
    """Megabytes that a process holds."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS"))


def main() -> None:
    """Print a line every so many jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sweep = Path(folder) / "sweep"
        words = [PDEFIT, "fit", "-m", *SMALL, f"seed=range({asked.jobs // 2})", f"hydra.sweep.dir={sweep}"]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        told, seen = 0, 0.0
        while process.poll() is None:
            time.sleep(0.5)
            done = len(list(sweep.glob("*/DONE")))
            try:
                seen = resident(process.pid)
            except (OSError, StopIteration):
                continue
            if done >= told + asked.jobs // 10:
                told = done
                print(f"{done:4} jobs  {seen:6.0f} MB", flush=True)
        print(f"{len(list(sweep.glob('*/DONE'))):4} jobs  {seen:6.0f} MB at the end, exit code {process.returncode}")


if __name__ == "__main__":
    main()
