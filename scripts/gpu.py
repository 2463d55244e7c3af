"""A checklist for a GPU in parts of at most three minutes, the most telling first; each task also runs on the CPU.

    ./run uv pip install --editable ".[cuda]"
    ./run python scripts/gpu.py [--out gpu.md] [--only PART ...] [--together] [--flags XLA_FLAGS] [--platform cuda] [--quick]

The parts are `gradient` (64 to 2048 cells along an axis, both precisions), `flagship` (normal equations of ten parameters at
512 x 512), `members` (10,000 and 100,000 fits), `field` (a product of Gauss and Newton's matrix with a field), `pair` (two
processes on one GPU), `acceptance` and `benchmark` rows, and `fit` of 512 x 512 cells. Each task runs in processes of its
own, on the platform first. Each part has a table in the file. It names failures, tasks that are slower than expected, and
numbers that differ.
Tasks for which a part has no time left are named, too.

`--together` runs both platforms at once, where a machine has cores to spare. `--flags` adds flags of XLA:
`--flags=--xla_gpu_enable_command_buffer=` is without command buffers, and
`--flags=--xla_gpu_enable_while_loop_unrolling=WHILE_LOOP_UNROLLING_DOUBLE_BUFFER` has two steps in one body of a loop.
`--quick` takes tiny sizes and leaves out the last three parts; `--platform cpu --quick` tests the list itself on a
machine without a GPU. The exit code is 1 if anything is not as expected.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PDEFIT = str(Path(sys.executable).with_name("pdefit"))
# seconds of a part
LONGEST = 180
# relative difference of a value on two platforms in float32 sums of float64
CLOSE = 1e-6


class Task(NamedTuple):
    """A command, how many times faster the GPU should be at least, its part of the list, and a name."""

    part: str
    name: str
    words: list[str]
    faster: float = 0.0


class Found(NamedTuple):
    """Seconds, a number to compare, what went wrong, and details; None or nothing if there is nothing."""

    seconds: float | None
    value: float | None
    error: str
    detail: str = ""


def tasks(quick: bool) -> list[Task]:
    """All tasks. Small problems are launch-bound on a GPU, so nothing is expected of them."""
    own = [sys.executable, str(Path(__file__).resolve()), "--measure"]

    def measured(part: str, what: str, size: int, faster: float = 0.0, dtype: str = "float64") -> Task:
        return Task(part, f"{what}, {size:,}, {dtype}", [*own, part, str(size), dtype], faster)

    sizes = ((16, 0.0),) if quick else ((512, 8.0), (64, 0.0), (2048, 8.0), (128, 0.0), (256, 2.0), (1024, 8.0))
    found = [
        measured("gradient", "gradient, cells along an axis", n, faster, dtype)
        for n, faster in sizes
        for dtype in ("float32", "float64")
    ]
    found += [
        measured(
            "flagship", "normal equations of ten, cells along an axis", 16 if quick else 512, 0.0 if quick else 5.0
        )
    ]
    found += [measured("members", "three iterations of fits", n) for n in ((8,) if quick else (10_000, 100_000))]
    found += [
        measured("field", "product of a field, cells along an axis", n) for n in ((16,) if quick else (256, 1024))
    ]
    found += [
        measured("pair", "two gradients at once, cells along an axis", n) for n in ((16,) if quick else (64, 512))
    ]
    if quick:
        return found
    acceptance = [sys.executable, str(ROOT / "scripts" / "acceptance.py")]
    parts = ("classics", "fisher", "solar_system", "cardiac")
    found += [Task(f"acceptance {part}", f"acceptance: {part}", [*acceptance, part]) for part in parts]
    report = [sys.executable, str(ROOT / "tests" / "benchmarks" / "report.py")]
    found += [Task(f"benchmark {row}", f"benchmark row {row}", [*report, row]) for row in ("P3", "P6", "P12")]
    large = ["experiment=cardiac/bocf_parameters_64", "system.grid.shape=[512,512]", "system.grid.extent=[51.2,51.2]"]
    large += ["initial.squares=3", "max_iterations=3", "render=false", "certificate=end"]
    return [*found, Task("fit", "fit of 512 x 512 cells, three iterations", [PDEFIT, "fit", *large], 5.0)]


def measure(part: str, size: int, dtype: str) -> None:
    """Print seconds of the second of two calls, a number to compare, the platform, and details, as JSON."""
    if part == "pair":
        measure_pair(size, dtype)
        return
    sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
    from pdefit.cli.runtime.environment import prepare

    prepare()
    import jax
    import numpy as np

    from pdefit.inverse.objective.compiled import EQUATIONS, GRADIENT, PRODUCT, VALUE

    def timed(call: Callable[[], Any]) -> tuple[float, Any]:
        jax.block_until_ready(call())
        start = time.perf_counter()
        found = jax.block_until_ready(call())
        return time.perf_counter() - start, found

    if part == "members":
        seconds, value, detail = measure_members(size, timed)
    else:
        from tissue import functional

        problem = functional(size, 20, dtype=dtype, fields=part != "flagship")
        theta = problem.theta0
        # a step of the forward run, of 20 times 10 between observations
        step, value = timed(lambda: VALUE(problem, theta))
        detail = f"a step {1000 * step / 200:.3g} ms"
        direction = np.sin(np.arange(theta.size))
        calls = {"gradient": lambda: GRADIENT(problem, theta), "flagship": lambda: EQUATIONS(problem, theta)}
        calls["field"] = lambda: PRODUCT(problem, theta, direction)
        seconds, _ = timed(calls[part])
    print(json.dumps({"seconds": seconds, "value": float(value), "on": jax.devices()[0].platform, "detail": detail}))


def measure_members(count: int, timed: Callable[[Callable[[], Any]], tuple[float, Any]]) -> tuple[float, float, str]:
    """Seconds, the mean of the lowest J and details of three iterations of fits of two populations from many starts."""
    import numpy as np
    from members import NEAR, STOP, functional, orbit

    import pdefit

    t = np.linspace(0.0, STOP, 41)
    exact = orbit(t, np.asarray([0.4, 0.3, 0.5, 0.2]), np.asarray([1.0, 0.8]))
    objective = functional(t, exact, 0.05 * exact, [0.4] * 4, exact[:, 0])
    starts = objective.theta0 + 0.1 * np.random.default_rng(0).standard_normal((count, objective.theta0.size))
    members = pdefit.Members.from_points(objective, starts)
    stages = [pdefit.Stage(NEAR, 3, pdefit.formulations.Single())]
    seconds, found = timed(lambda: pdefit.fit_members(members, stages))
    return seconds, float(np.mean(found.loss)), f"{1e6 * seconds / count:.3g} us a fit"


def measure_pair(size: int, dtype: str) -> None:
    """Print the larger of the seconds of two processes at once, beside a process alone."""
    own = [sys.executable, str(Path(__file__).resolve()), "--measure", "gradient", str(size), dtype]

    def alone(_: int) -> dict[str, Any]:
        # each may take less than half of the memory of the GPU
        environment = {**os.environ, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4"}
        done = subprocess.run(own, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout.strip().splitlines()[-1])

    one = alone(0)
    with ThreadPoolExecutor(2) as pool:
        two = list(pool.map(alone, range(2)))
    print(json.dumps({**two[0], "seconds": max(x["seconds"] for x in two), "detail": f"alone {one['seconds']:.3g} s"}))


def run(task: Task, platform: str, flags: str, until: float) -> Found:
    """Run a task on a platform until a time of `time.monotonic`."""
    # messages of the loader of compiled code are no errors
    environment = {**os.environ, "JAX_PLATFORMS": platform, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if flags and platform != "cpu":
        environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    start, left = time.perf_counter(), until - time.monotonic()
    if left < 1:
        return Found(None, None, "", "no time left")
    with tempfile.TemporaryDirectory() as folder:
        given = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": left}
        try:
            done = subprocess.run(task.words, **given)
        except subprocess.TimeoutExpired:
            return Found(None, None, "", f"no end within {left:.0f} s")
    seconds, lines = time.perf_counter() - start, done.stdout.strip().splitlines()
    if done.returncode:
        told = [x for x in [*lines, *done.stderr.splitlines()] if re.match(r"[\w.]*[Ee]rror\b|FAILED", x)] or lines
        return Found(seconds, None, told[-1][:200] if told else f"exit code {done.returncode}")
    if lines and lines[-1].startswith("{"):
        told = json.loads(lines[-1])
        wrong = "" if (told["on"] == "cpu") == (platform == "cpu") else f"runs on {told['on']}"
        return Found(told["seconds"], told["value"], wrong, told["detail"])
    loss = re.search(r"loss \S+ -> (\S+) in", " ".join(lines))
    return Found(seconds, float(loss.group(1)) if loss else None, "")


def judged(task: Task, there: Found, here: Found) -> str:
    """What is not as expected, or nothing."""
    if there.error or here.error:
        return f"fails: {there.error}" if there.error else f"fails on the CPU: {here.error}"
    if not there.seconds:
        return f"not measured: {there.detail}"
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
    parser.add_argument("--only", nargs="+", default=[""], metavar="PART")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--flags", default="")
    parser.add_argument("--platform", default="cuda")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        part, size, dtype = asked.measure
        measure(part, int(size), dtype)
        return
    probe = [sys.executable, "-c", "import jax; jax.devices()"]
    if subprocess.run(probe, env={**os.environ, "JAX_PLATFORMS": asked.platform}, capture_output=True).returncode:
        raise SystemExit(
            f"JAX finds no {asked.platform} here; ./run uv pip install --editable '.[cuda]', or --platform cpu"
        )
    chosen = [task for task in tasks(asked.quick) if any(word in task.part for word in asked.only)]
    tables, total, wrong = "", 0, 0
    for part in dict.fromkeys(task.part for task in chosen):
        until, rows = time.monotonic() + LONGEST, [task for task in chosen if task.part == part]
        head = f"| task | {asked.platform} (s) | CPU (s) | CPU / {asked.platform} | in detail | |\n|---|---|---|---|---|---|\n"
        tables += f"{chr(10) if tables else ''}## {part}\n\n{head}"
        print(f"{part}:", flush=True)
        for task, there, here in both(rows, asked.platform, asked.flags, until, asked.together):
            told = judged(task, there, here)
            total, wrong = total + 1, wrong + bool(told)
            ratio = f"{here.seconds / there.seconds:.2f}" if there.seconds and here.seconds else ""
            cells = [f"{x.seconds:.3g}" if x.seconds else x.detail for x in (there, here)]
            detail = there.detail if there.seconds else ""
            row = "| " + " | ".join([task.name, *cells, ratio, detail, told or "as expected"]) + " |"
            print(row, flush=True)
            tables += f"{row}\n"
            # what has ended is kept if a later part is stopped
            asked.out.write_text(tables)
    print(f"{total - wrong} of {total} as expected; {asked.out}")
    sys.exit(1 if wrong else 0)


def both(
    rows: list[Task], platform: str, flags: str, until: float, together: bool
) -> Iterator[tuple[Task, Found, Found]]:
    """The tasks of a part with their results on the platform and on the CPU; the platform has all its tasks done first."""

    def every(place: str) -> list[Found]:
        return [run(task, place, flags, until) for task in rows]

    with ThreadPoolExecutor(1 + together) as pool:
        yield from zip(rows, *pool.map(every, (platform, "cpu")), strict=True)


if __name__ == "__main__":
    main()
