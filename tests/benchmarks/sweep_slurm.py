"""A sweep as an array of SLURM jobs, preempted, put back into the queue, and killed, and its table beside a plain sweep's.

    scripts/slurm/one_node.sh start
    ./run python tests/benchmarks/sweep_slurm.py [--jobs 6] [--preempt 2] [--kill 1] [--iterations 3000]

It needs the one-node cluster of that script, or another one with a partition `urgent` that preempts. The estimates must be
equal, bit for bit.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PDEFIT = str(Path(sys.executable).with_name("pdefit"))
# the stand-in for sacct is found by the launcher, where the cluster keeps no accounts
PATH = os.pathsep.join([str(ROOT / "scripts" / "slurm" / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
SLURM = (
    "hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=60", "hydra.launcher.max_num_timeout=5",
    "hydra.launcher.cpus_per_task=1",
)  # fmt: skip
LONGEST = 900.0


def swept(jobs: int, iterations: int) -> tuple[str, ...]:
    """Overrides of so many jobs that save often."""
    return (
        "experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13", "stages=adam",
        f"max_iterations={iterations}", "render=false", "certificate=end", f"seed=range({jobs})",
    )  # fmt: skip


def table(directory: Path) -> str:
    """The columns of sweep.csv that repeat."""
    subprocess.run([PDEFIT, "sweep", "collect", directory], check=True, capture_output=True)
    return "\n".join(line.rsplit(",", 3)[0] for line in (directory / "sweep.csv").read_text().splitlines())


def processes(directory: Path) -> list[int]:
    """Those that work on jobs of a sweep, as their RUNNING files say."""
    found = (path.read_text() for path in directory.glob("*/RUNNING"))
    numbers = [int(text.split('"process":')[1].split(",")[0]) for text in found if '"process":' in text]
    return [number for number in numbers if Path(f"/proc/{number}").exists()]


def wait_for(what: Callable[[], object]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + LONGEST
    while not what():
        if time.monotonic() > deadline:
            raise SystemExit("nothing happens any more")
        time.sleep(0.2)


def run(directory: Path, jobs: int, iterations: int, preempt: int, kill: int) -> tuple[str, int]:
    """Run a sweep through the queue with so many preemptions and kills; its table, and how often it was resumed."""
    words = [PDEFIT, "fit", "-m", *SLURM, *swept(jobs, iterations), f"hydra.sweep.dir={directory}"]
    environment = {**os.environ, "PATH": PATH}
    launcher = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    saved = lambda: list(directory.glob("*/state/*.h5")) and processes(directory)  # noqa: E731
    for _ in range(preempt):
        wait_for(saved)
        # an urgent job that takes all cores
        subprocess.run(["srun", "--partition=urgent", "--exclusive", "sleep", "1"], capture_output=True)
        wait_for(lambda: not list(directory.glob("*/INTERRUPTED")) or processes(directory))
    for _ in range(kill):
        wait_for(saved)
        os.kill(processes(directory)[0], signal.SIGKILL)
    try:
        launcher.wait(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        launcher.kill()
    for count in range(5):
        # the launcher may give up a job that the queue still runs
        wait_for(lambda: not processes(directory))
        told = subprocess.run([PDEFIT, "sweep", "status", directory], capture_output=True, text=True).stdout
        if f"{jobs} done" in told:
            return table(directory), count
        subprocess.run([PDEFIT, "sweep", "resume", directory, *SLURM], env=environment, capture_output=True)
    raise SystemExit(f"the sweep does not end: {told}")


def main() -> None:
    """Print whether both tables are equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("jobs", 6), ("preempt", 2), ("kill", 1), ("iterations", 3000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    if not shutil.which("sinfo") or subprocess.run(["sinfo"], capture_output=True).returncode:
        raise SystemExit("no SLURM answers; scripts/slurm/one_node.sh start")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        found, resumed = run(Path(folder) / "array", asked.jobs, asked.iterations, asked.preempt, asked.kill)
        plain = Path(folder) / "plain"
        words = [PDEFIT, "fit", "-m", *swept(asked.jobs, asked.iterations), f"hydra.sweep.dir={plain}"]
        subprocess.run(words, check=True, capture_output=True)
        parts = [path.read_text().count('"command"') for path in (Path(folder) / "array").glob("seed*/provenance.json")]
        expected = table(plain)
    done = found.count(",done,")
    print(f"{done} of {asked.jobs} done in {sum(parts)} parts; the sweep was resumed {resumed} times")
    print("table equal" if found == expected else f"table DIFFERENT\n{found}\n{expected}")
    sys.exit(0 if found == expected else 1)


if __name__ == "__main__":
    main()
