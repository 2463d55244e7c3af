"""A checklist for a GPU: what pdefit promises, its benchmark rows and a job of 512 x 512 cells, on the GPU and beside the CPU.

    ./run uv pip install --editable ".[cuda]"
    ./run python scripts/gpu.py [--out gpu.md] [--quick] [--only WORD ...] [--together] [--platform cuda]

Every task runs twice, in a process of its own: on the platform and on the CPU. The table names what fails there, what is slower
than expected, and numbers that differ. `--quick` leaves out the acceptance runs and takes 32 x 32 cells. `--only` takes tasks
with one of these words in their names. `--together` runs both platforms at once, where a machine has cores to spare.
`--platform cpu` tests the list itself on a machine without a GPU. The exit code is 1 if anything is not as expected.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PDEFIT = str(Path(sys.executable).with_name("pdefit"))
LONGEST = 3600
# relative difference of a value on two platforms in float32 sums of float64
CLOSE = 1e-6


class Task(NamedTuple):
    """A command, how many times faster the GPU should be at least, and a name."""

    name: str
    words: list[str]
    faster: float


class Found(NamedTuple):
    """Seconds, a number to compare, and what went wrong; None where there is nothing."""

    seconds: float | None
    value: float | None
    error: str


def tasks(quick: bool) -> list[Task]:
    """All tasks. Small problems are launch-bound on a GPU, so nothing is expected of them."""
    sizes = ((32, 0.0),) if quick else ((64, 0.0), (256, 2.0), (512, 8.0))
    own = [sys.executable, str(Path(__file__).resolve()), "--measure"]
    found = [Task(f"gradient of {n} x {n} cells", [*own, str(n)], faster) for n, faster in sizes]
    if quick:
        return found
    acceptance = [sys.executable, str(ROOT / "scripts" / "acceptance.py")]
    parts = ("fisher", "classics", "cardiac", "solar_system")
    found += [Task(f"acceptance: {part}", [*acceptance, part], 0.0) for part in parts]
    report = [sys.executable, str(ROOT / "tests" / "benchmarks" / "report.py")]
    found += [Task(f"benchmark row {row}", [*report, row], 0.0) for row in ("P3", "P6", "P12")]
    large = ["experiment=cardiac/bocf_parameters_64", "system.grid.shape=[512,512]", "system.grid.extent=[51.2,51.2]"]
    large += ["initial.squares=3", "max_iterations=3", "render=false", "certificate=end"]
    return [*found, Task("fit of 512 x 512 cells, three iterations", [PDEFIT, "fit", *large], 5.0)]


def measure(cells: int) -> None:
    """Print the value of J and the seconds of one gradient, after one that compiles."""
    sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
    from pdefit.cli.runtime.environment import prepare

    prepare()
    import jax
    from tissue import functional

    from pdefit.inverse.objective.compiled import GRADIENT

    problem = functional(cells, 20)
    value = jax.block_until_ready(GRADIENT(problem, problem.theta0))[0]
    start = time.perf_counter()
    jax.block_until_ready(GRADIENT(problem, problem.theta0))
    print(json.dumps({"seconds": time.perf_counter() - start, "value": float(value), "on": jax.devices()[0].platform}))


def run(task: Task, platform: str) -> Found:
    """Run a task on a platform."""
    # messages of the loader of compiled code are no errors
    environment = {**os.environ, "JAX_PLATFORMS": platform, "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        given = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": LONGEST}
        try:
            done = subprocess.run(task.words, **given)
        except subprocess.TimeoutExpired:
            return Found(None, None, f"takes more than {LONGEST} s")
    seconds, lines = time.perf_counter() - start, done.stdout.strip().splitlines()
    if done.returncode:
        told = [x for x in [*lines, *done.stderr.splitlines()] if re.match(r"[\w.]*[Ee]rror\b|FAILED", x)] or lines
        return Found(seconds, None, told[-1][:200] if told else f"exit code {done.returncode}")
    if lines and lines[-1].startswith("{"):
        told = json.loads(lines[-1])
        wrong = "" if (told["on"] == "cpu") == (platform == "cpu") else f"runs on {told['on']}"
        return Found(told["seconds"], told["value"], wrong)
    loss = re.search(r"loss \S+ -> (\S+) in", " ".join(lines))
    return Found(seconds, float(loss.group(1)) if loss else None, "")


def judged(task: Task, there: Found, here: Found) -> str:
    """What is not as expected, or nothing."""
    if there.error or here.error:
        return f"fails: {there.error}" if there.error else f"fails on the CPU: {here.error}"
    if there.value is not None and here.value and abs(there.value / here.value - 1) > CLOSE:
        return f"another value: {there.value:.8g}, on the CPU {here.value:.8g}"
    if task.faster and there.seconds and here.seconds and here.seconds / there.seconds < task.faster:
        return f"slower than expected: at least {task.faster:g} times faster than the CPU"
    return ""


def main() -> None:
    """Run all tasks, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu.md"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--platform", default="cuda")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure)
        return
    probe = [sys.executable, "-c", "import jax; jax.devices()"]
    if subprocess.run(probe, env={**os.environ, "JAX_PLATFORMS": asked.platform}, capture_output=True).returncode:
        raise SystemExit(
            f"JAX finds no {asked.platform} here; ./run uv pip install --editable '.[cuda]', or --platform cpu"
        )
    rows, wrong = [], 0
    chosen = [task for task in tasks(asked.quick) if any(word in task.name for word in asked.only)]
    for task in chosen:
        with ThreadPoolExecutor(1 + asked.together) as pool:
            there, here = pool.map(lambda platform, task=task: run(task, platform), (asked.platform, "cpu"))
        told = judged(task, there, here)
        wrong += bool(told)
        ratio = f"{here.seconds / there.seconds:.2f}" if there.seconds and here.seconds else ""
        measured = ["" if x is None else f"{x:.3g}" for x in (there.seconds, here.seconds)]
        cells = [task.name, *measured, ratio, told or "as expected"]
        rows.append("| " + " | ".join(cells) + " |")
        print(rows[-1], flush=True)
    head = f"| task | {asked.platform} (s) | CPU (s) | CPU / {asked.platform} | |\n|---|---|---|---|---|\n"
    asked.out.write_text(head + "\n".join(rows) + "\n")
    print(f"{len(rows) - wrong} of {len(rows)} as expected; {asked.out}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
