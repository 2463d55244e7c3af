"""Fits that are killed at random moments and resumed, compared with an undisturbed fit.

    ./run python scripts/kill_and_resume.py [TRIALS]
    ./run python scripts/kill_and_resume.py members [TRIALS]

The fit has 300 iterations of Adam and takes about 20 seconds. Each of ten trials is a fit of its own, killed once by
SIGKILL and resumed. Prints one line for each trial. The exit code is 1 if a result differs in a single bit. Takes about
seven minutes.

`members` kills and resumes the fits of many populations, some of which have other starts, and compares their tables.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

FIT = ("experiment=reaction/fisher_front", "stages=adam", "max_iterations=300", "seed=1")
PDEFIT = str(Path(sys.executable).parent / "pdefit")


def rows(history: Path) -> int:
    """Number of evaluations in a history, also while it is written."""
    try:
        with h5py.File(history, "r", locking=False) as file:
            return int(file["n_done"][()])
    except (OSError, KeyError):
        return 0


def bits(run: Path) -> dict[str, bytes]:
    """Bytes of the history (without the times), the fields and the table of a run."""
    out = {"parameters": (run / "parameters.csv").read_bytes()}
    for name in ("history.h5", "fields.h5"):
        with h5py.File(run / name) as file:
            out |= {f"{name}/{k}": np.asarray(file[k]).tobytes() for k in file if k != "seconds"}
    # labels are Python objects, whose bytes are addresses
    return {k: v for k, v in out.items() if not k.endswith("control_name")}


def call(folder: Path, *arguments: str) -> None:
    done = subprocess.run([PDEFIT, *arguments], cwd=folder, capture_output=True, text=True, env=os.environ)
    if done.returncode != 0:
        sys.exit(f"pdefit {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")


def main(trials: int, dt: str) -> int:
    failures = 0
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        begin = time.perf_counter()
        call(folder, "fit", *FIT, f"dt={dt}", "hydra.run.dir=whole")
        print(f"undisturbed: {time.perf_counter() - begin:.1f} s", flush=True)
        expected = bits(folder / "whole")
        for trial in range(trials):
            # one trial in each tenth of the fit
            row = rng.randint(300 * trial // trials + 1, 300 * (trial + 1) // trials - 1)
            name = f"trial{trial}"
            process = subprocess.Popen(
                [PDEFIT, "fit", *FIT, f"dt={dt}", f"hydra.run.dir={name}"],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            while rows(folder / name / "history.h5") < row and process.poll() is None:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.3)
            process.kill()
            killed = process.wait() == -9
            found = rows(folder / name / "history.h5")
            call(folder, "resume", name)
            same = bits(folder / name) == expected
            failures += not (same and killed)
            print(f"{'ok    ' if same and killed else 'FAILED'}  killed after {found} of 300 iterations", flush=True)
    return 1 if failures else 0


def members(trials: int) -> int:
    """Kill the fits of 120 populations at random moments after their first state is saved, and compare members.csv."""
    failures, rng = 0, random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = [sys.executable, str(Path(__file__).parent / "make_populations.py"), "many.h5", "--level", "0.2"]
        subprocess.run([*made, "--systems", "120"], cwd=folder, check=True, capture_output=True)
        words = ["fit", "experiment=populations/lotka_volterra_500", "data.path=many.h5", "render=false"]
        call(folder, *words, "hydra.run.dir=whole")
        expected = (folder / "whole" / "members.csv").read_bytes()

        def started(run: Path) -> subprocess.Popen:
            """A run whose first state is saved."""
            process = subprocess.Popen(
                [PDEFIT, *words, f"hydra.run.dir={run.name}"],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            while not any(run.glob("state/*")) and process.poll() is None:
                time.sleep(0.01)
            return process

        # with its programs compiled
        process, begin = started(folder / "again"), time.perf_counter()
        process.wait()
        seconds = time.perf_counter() - begin
        print(f"undisturbed: {seconds:.1f} s from the first state to the end", flush=True)
        for trial in range(trials):
            run = folder / f"trial{trial}"
            process = started(run)
            # one trial in each fifth of the time
            time.sleep(0.8 * seconds * (trial + rng.random()) / trials)
            process.kill()
            killed = process.wait() == -9
            ended = (run / "members.csv").exists()
            call(folder, "resume", run.name)
            same = (run / "members.csv").read_bytes() == expected
            failures += not (same and killed and not ended)
            print(f"{'ok    ' if same and killed and not ended else 'FAILED'}  trial {trial}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["members"]:
        sys.exit(members(int(sys.argv[2]) if len(sys.argv) > 2 else 5))
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, sys.argv[2] if len(sys.argv) > 2 else "2e-3"))
