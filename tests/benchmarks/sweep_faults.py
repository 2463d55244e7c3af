"""A sweep whose launcher is killed, interrupted, or runs out of disk, and its table beside that of an undisturbed one.

    ./run python tests/benchmarks/sweep_faults.py [kills] [interrupts] [full] [--jobs 24] [--seed 0]

`kills`: three of the jobs fail by construction, the launcher and its workers are killed (kill -9) five times at random, and
`pdefit sweep resume` goes on each time. `interrupts`: Ctrl-C, SIGTERM and a closed terminal. `full`: a disk of a megabyte, as
root on Linux. The tables must be equal, but for timings, byte for byte.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PDEFIT = str(Path(sys.executable).with_name("pdefit"))
SMALL = (
    "experiment=reaction/fisher_front",
    "system.grid.shape=[40]",
    "times.count=7",
    "render=false",
    "certificate=end",
)
KILLS = 5


def command(*words: str) -> list[str]:
    """A command of pdefit with two workers."""
    return [PDEFIT, *words, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]


def swept(jobs: int) -> tuple[str, ...]:
    """Overrides of so many jobs, of which an eighth fail: a guess beyond its bounds."""
    return (*SMALL, f"seed=range({jobs // 8})", "controls.D.guess=0.3,0.5,0.8,1.2,1.5,2.0,3.0,9.0")


def table(directory: Path) -> str:
    """The columns of sweep.csv that repeat."""
    subprocess.run([PDEFIT, "sweep", "collect", directory], check=True, capture_output=True)
    lines = (directory / "sweep.csv").read_text().splitlines()
    return "\n".join(line.rsplit(",", 3)[0] for line in lines)


def start(words: list[str]) -> subprocess.Popen:
    """A command in a session of its own, so that its workers can be killed with it."""
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def finish(directory: Path) -> int:
    """Resume a sweep until nothing but failures is left; the number of runs that took."""
    for count in range(1, 10):
        subprocess.run(command("sweep", "resume", str(directory)), capture_output=True)
        done = subprocess.run([PDEFIT, "sweep", "status", directory], capture_output=True, text=True).stdout
        if not any(word in done.splitlines()[-1] for word in ("waiting", "killed", "interrupted", "running")):
            return count
    raise SystemExit(f"{directory} does not end: {done}")


def disturbed(directory: Path, first: list[str], hits: list[tuple[float, int]]) -> None:
    """Start a sweep, and hit its whole session with signals after so many seconds each; every time it goes on."""
    words = first
    for seconds, number in hits:
        process = start(words)
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        if process.poll() is None:
            os.killpg(process.pid, number)
        process.wait()
        words = command("sweep", "resume", str(directory)) if (directory / "sweep.json").exists() else first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["kills", "interrupts"])
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, wrong = random.Random(asked.seed), []
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        first = command("fit", "-m", *swept(asked.jobs))
        subprocess.run([*first, f"hydra.sweep.dir={whole}"], capture_output=True)
        expected = table(whole)
        print(f"undisturbed: {expected.count(',done,')} done, {expected.count(',failed,')} failed", flush=True)
        hits = {
            "kills": [(rng.uniform(3.0, 20.0), signal.SIGKILL) for _ in range(KILLS)],
            "interrupts": [(12.0, number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        }
        for part in asked.parts:
            directory = Path(folder) / part
            if part == "full":
                directory.mkdir()
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], check=True)
                directory /= "sweep"
            try:
                if part == "full":
                    done = subprocess.run([*first, f"hydra.sweep.dir={directory}"], capture_output=True, text=True)
                    told = [line for line in done.stderr.splitlines() if line.startswith("error:")]
                    print(f"full disk: {told[0] if told else done.stderr[-300:]}", flush=True)
                    subprocess.run(["mount", "-o", "remount,size=1g", directory.parent], check=True)
                else:
                    disturbed(directory, [*first, f"hydra.sweep.dir={directory}"], hits[part])
                runs, same = finish(directory), table(directory) == expected
            finally:
                if part == "full":
                    subprocess.run(["umount", directory.parent])
            print(f"{part}: table {'equal' if same else 'DIFFERENT'} after {runs} more", flush=True)
            wrong += [] if same else [part]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
