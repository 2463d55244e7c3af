"""Run the experiments that README and site quote, and compare their numbers with what these promise.

    ./run python scripts/acceptance.py [--record] [PART ...]

PART is one of pleiades, fisher, classics, flow, sweep, cell, cardiac, lennard_jones, solar_system,
solar_system_positions (default: all), or `experiments`: every shipped experiment once with empty caches, for its cost
and its result, or the name of one of them.
Prints one line for each promise with the number found. The exit code is 1 if one is not kept. Times depend on the
machine and its load, so a longer one is printed as slow and is no failure.

With --record the numbers found are kept in docs/measured.json, which a test compares with every page, and the cost of an
experiment in its own file. Two pages show the terminal output that is kept beside them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "docs" / "measured.json"
# experiments whose terminal output the documentation shows, from docs/start/
PRINTED = ("cardiac/bocf_parameters_64", "reaction/fisher_front")
# experiments without unknowns
SIMULATED = ("cardiac/cable", "cardiac/single_cell", "particles/pleiades")
EXACT = ("Sun", "Venus", "EMB", "Jupiter", "Saturn")
failures = 0
# numbers found, and their units
measured: dict[str, dict[str, float | str]] = {}


def run(folder: Path, *arguments: str) -> tuple[list[dict], float]:
    """Run pdefit in a new folder; returns the summaries of all jobs, and the seconds it took."""
    folder.mkdir(parents=True)
    command = [str(Path(sys.executable).parent / "pdefit"), *arguments]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return [json.loads(p.read_text()) for p in sorted(folder.rglob("summary.json"))], seconds


def promise(what: str, found: float, limit: float, unit: str = "") -> None:
    """Print whether found <= limit, and count it as a failure if not."""
    global failures
    kept = found <= limit
    failures += not kept
    note(what, found, unit)
    print(f"{'ok    ' if kept else 'FAILED'}  {what:<66} {found:9.3g} <= {limit:g} {unit}", flush=True)


def note(what: str, found: float, unit: str = "") -> None:
    """Keep a number for --record."""
    measured[what] = {"value": float(f"{float(found):.6g}"), "unit": unit}


def promise_time(what: str, seconds: float, limit: float) -> None:
    """Print whether something took no longer than it should on two idle cores."""
    note(what, seconds, "s")
    print(f"{'ok    ' if seconds <= limit else 'slow  '}  {what:<66} {seconds:9.3g} <= {limit:g} s", flush=True)


def verdict(what: str, summary: dict, word: str) -> None:
    """Print whether a fit has the promised verdict, and count it as a failure if not."""
    promise(f"{what}: judged other than '{word}'", summary["verdict"] != word, 0)


def solar_system(folder: Path) -> None:
    (summary,), seconds = run(folder, "fit", "experiment=particles/solar_system")
    errors = {k.removeprefix("gm."): abs(p["relative_error"]) for k, p in summary["parameters"].items()}
    promise_time("solar_system: wall time", seconds, 120)
    promise("solar_system: largest error of the nine masses", max(errors.values()), 1e-2)
    promise(f"solar_system: largest error of {', '.join(EXACT)}", max(errors[n] for n in EXACT), 1e-3)
    show_errors("solar_system", summary)
    verdict("solar_system", summary, "converged but the model misses structure")
    bodies = summary["forecast"]["per_label"]
    gain = max(b["largest_error"] / b["baseline_largest"] for b in bodies.values())
    promise("solar_system: forecast error 2010-2040 / Kepler orbits, worst body", gain, 1.0)
    promise(
        "solar_system: forecast error 2010-2040, worst body",
        max(b["largest_error"] for b in bodies.values()),
        1e-3,
        "au",
    )


def solar_system_positions(folder: Path) -> None:
    (summary,), seconds = run(folder, "fit", "experiment=particles/solar_system_positions")
    errors = {k.removeprefix("gm."): abs(p["relative_error"]) for k, p in summary["parameters"].items()}
    promise_time("solar_system_positions: wall time", seconds, 240)
    promise("solar_system_positions: not converged", float(not summary["converged"]), 0)
    promise("solar_system_positions: largest error of the nine masses", max(errors.values()), 1e-3)
    promise("solar_system_positions: error of the Sun", errors["Sun"], 1e-7)
    show_errors("solar_system_positions", summary)
    bodies = summary["forecast"]["per_label"].values()
    promise(
        "solar_system_positions: forecast error 2010-2040, worst body",
        max(b["largest_error"] for b in bodies),
        1e-4,
        "au",
    )
    gain = max(b["largest_error"] / b["baseline_largest"] for b in bodies)
    promise("solar_system_positions: forecast error / Kepler orbits, worst body", gain, 0.1)


def show_errors(what: str, summary: dict) -> None:
    """Print the error and the z-score of every parameter."""
    for name, p in summary["parameters"].items():
        print(f"        {name:<12} error {p['relative_error']:+.2e}  z {p['z_score']:+7.1f}")
        note(f"{what}: error of {name}", p["relative_error"])
        note(f"{what}: z of {name}", p["z_score"])


def lennard_jones(folder: Path) -> None:
    for n in (10, 20):
        for seed in range(5):
            experiment = f"experiment=particles/lennard_jones_{n}"
            (summary,), seconds = run(folder / f"{n}_{seed}", "fit", experiment, f"seed={seed}", "render=false")
            for kind in ("mass", "radius"):
                errors = [abs(p["relative_error"]) for k, p in summary["parameters"].items() if k.startswith(kind)]
                promise(f"lennard_jones_{n}, seed {seed}: largest error of a {kind}", max(errors), 1e-2)
            promise(f"lennard_jones_{n}, seed {seed}: not converged", float(not summary["converged"]), 0)
            promise_time(f"lennard_jones_{n}, seed {seed}: wall time", seconds, 6 * n)


def pleiades(folder: Path) -> None:
    (summary,), _ = run(folder, "simulate", "experiment=particles/pleiades")
    promise("pleiades: end state against the reference", summary["reference_error"], 1e-8)


def fisher(folder: Path) -> None:
    (summary,), _ = run(folder / "self", "fit", "experiment=reaction/fisher_front", "twin=self", "noise=0")
    errors = [abs(p["relative_error"]) for p in summary["parameters"].values()]
    promise("fisher_front: self twin without noise, largest error", max(errors), 1e-6)
    verdict("fisher_front: self twin without noise", summary, "fitted to the noise")
    for name in ("fisher_front", "fisher_front_2d"):
        (summary,), _ = run(folder / name, "fit", f"experiment=reaction/{name}")
        errors = [abs(p["relative_error"]) for p in summary["parameters"].values()]
        promise(f"{name}: independent twin with 2 % noise, largest error", max(errors), 0.03)
        verdict(f"{name}: independent twin with 2 % noise", summary, "fitted to the noise")
    wrong = ("controls.D.guess=2.0", "+controls.D.estimate=false")
    (summary,), _ = run(folder / "wrong", "fit", "experiment=reaction/fisher_front", *wrong)
    verdict("fisher_front: diffusivity held at twice its value", summary, "converged but the model misses structure")


def classics(folder: Path) -> None:
    (summary,), _ = run(folder, "fit", "experiment=classics/korteweg_de_vries")
    errors = [abs(p["relative_error"]) for p in summary["parameters"].values()]
    promise("korteweg_de_vries: unknown initial state, largest error", max(errors), 1e-5)


def flow(folder: Path) -> None:
    (summary,), seconds = run(folder, "fit", "experiment=flow/temperature_from_velocity/small", "hydra.run.dir=here")
    promise_time("temperature_from_velocity/small: wall time", seconds, 60)
    with h5py.File(folder / "here" / "fields.h5") as file:
        true, found = file["T_true"][:], file["T_predicted"][:]
        last = int(np.sum(file["phase"][:] == 0)) - 1
    for when, i, limit in (("end of the window", last, 0.03), ("2 Lyapunov times", -1, 0.1)):
        error = np.linalg.norm(found[i] - true[i]) / np.linalg.norm(true[i])
        promise(f"temperature_from_velocity/small: error of the unseen temperature, {when}", error, limit)


def cell(folder: Path) -> None:
    run(folder / "cell", "simulate", "experiment=cardiac/single_cell", "render=false", "hydra.run.dir=here")
    _, _, u = film(folder / "cell" / "here" / "fields.h5")
    promise("single_cell: peak of u against 1.457", abs(u[:, 0].max() - 1.457), 0.003)
    promise("single_cell: time above 0.13 against 273.7", abs(0.1 * np.sum(u[:, 0] >= 0.13) - 273.7), 0.5, "ms")
    speeds = {}
    for smooth in ("false", "true"):
        where = folder / f"cable_{smooth}"
        run(
            where,
            "simulate",
            "experiment=cardiac/cable",
            f"system.is_smooth={smooth}",
            "render=false",
            "hydra.run.dir=here",
        )
        t, x, u = film(where / "here" / "fields.h5")
        ends = [int(np.argmin(np.abs(x - place))) for place in (1.0, 2.0)]
        first, second = (
            np.interp(0.5, u[: np.argmax(u[:, i] > 0.5) + 1, i], t[: np.argmax(u[:, i] > 0.5) + 1]) for i in ends
        )
        speeds[smooth] = 1e3 * (x[ends[1]] - x[ends[0]]) / (second - first)
    promise("cable: speed against 70.0", abs(speeds["false"] - 70.0), 1.0, "cm/s")
    promise("cable: speed with smooth switches, relative", abs(speeds["true"] / speeds["false"] - 1), 0.01)


def cardiac(folder: Path) -> None:
    fit_only = ("times.forecast=null", "lyapunov=false", "render=false")
    own = ("twin=self", "solver=euler")
    (summary,), _ = run(folder / "fit", "fit", "experiment=cardiac/bocf_parameters", *own, *fit_only)
    promise("bocf_parameters: twin of its own, mean error of ten parameters", mean_error(summary), 1e-4)
    promise_time("bocf_parameters: time of the fit, with compilation", summary["seconds"]["fit"], 30)
    (summary,), _ = run(folder / "noisy", "fit", "experiment=cardiac/bocf_noisy", *fit_only)
    promise("bocf_noisy: not converged", float(not summary["converged"]), 0)
    promise("bocf_noisy: mean error of ten parameters", mean_error(summary), 5e-3)
    promise("bocf_noisy: largest z-score", max(abs(p["z_score"]) for p in summary["parameters"].values()), 4)
    verdict("bocf_noisy", summary, "fitted to the noise")


def mean_error(summary: dict) -> float:
    """Mean relative error of all parameters."""
    return float(np.mean([abs(p["relative_error"]) for p in summary["parameters"].values()]))


def film(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, positions along x, and the voltage."""
    with h5py.File(path) as file:
        return file["time"][:], file["x"][:], file["u_predicted"][:]


def sweep(folder: Path) -> None:
    jobs, _ = run(folder, "fit", "-m", "experiment=reaction/fisher_front", "controls.D.guess=0.5,2.0", "seed=1")
    found = [j["parameters"]["D"]["estimate"] for j in jobs]
    promise("sweep of a nested control: two jobs, spread of their estimates", abs(found[0] / found[1] - 1), 1e-4)
    promise("sweep of a nested control: missing jobs", 2 - len(jobs), 0)


def experiment(name: str, folder: Path) -> None:
    """One shipped experiment with empty caches: seconds and memory of the whole command, and what it finds."""
    folder.mkdir(parents=True)
    verb = "simulate" if name in SIMULATED else "fit"
    command = [str(Path(sys.executable).parent / "pdefit"), verb, f"experiment={name}"]
    begin = time.perf_counter()
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "110"}
    with open(folder / "out", "wb") as out, open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=log, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{name} failed:\n{(folder / 'out').read_text()}{(folder / 'log').read_text()}")
    if name in PRINTED:
        text = (folder / "out").read_text().replace(f"{folder}/", "")
        printed[name] = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    # the run's own; recordings have theirs below it
    summary = json.loads(min(folder.rglob("summary.json"), key=lambda p: len(p.parts)).read_text())
    # Linux counts kilobytes, macOS bytes
    memory = usage.ru_maxrss / (1e3 if sys.platform != "darwin" else 1e6)
    note(f"{name}: whole command", seconds, "s")
    note(f"{name}: memory of the process", memory, "MB")
    print(f"        {name:<32} {seconds:6.1f} s  {memory:6.0f} MB  {summary.get('verdict', '')}", flush=True)
    known = [p for p in summary.get("parameters", {}).values() if p.get("relative_error") is not None]
    if known:
        errors = [abs(p["relative_error"]) for p in known]
        for what, found in (("mean", np.mean(errors)), ("median", np.median(errors)), ("largest", max(errors))):
            note(f"{name}: {what} error", float(found))
        note(f"{name}: evaluations", summary["iterations"])
        note(f"{name}: seconds of the fit", summary["seconds"]["fit"], "s")
        print(f"        {'':<32} errors: mean {np.mean(errors):.2g}, largest {max(errors):.2g}", flush=True)
    costs[name] = f"# cost: {rounded(seconds)} s, {rounded(memory)} MB"


def rounded(number: float) -> str:
    """A number to two digits."""
    return f"{float(f'{number:.2g}'):.0f}"


def experiments(folder: Path) -> None:
    for name in EXPERIMENTS:
        experiment(name, folder / name)


def record() -> None:
    """Keep the numbers found, and write the costs into the experiments."""
    before = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    MEASURED.write_text(json.dumps(dict(sorted({**before, **measured}.items())), indent=1) + "\n")
    for name, text in printed.items():
        (ROOT / "docs" / "start" / f"{name.rpartition('/')[2]}.txt").write_text(text)
    for name, line in costs.items():
        file = EXPERIMENTS[name]
        lines = [x for x in file.read_text().splitlines() if not x.startswith("# cost:")]
        at = next(i for i, x in enumerate(lines) if not x.startswith("#"))
        file.write_text("\n".join([*lines[:at], line, *lines[at:]]) + "\n")


costs: dict[str, str] = {}
printed: dict[str, str] = {}
EXPERIMENTS = {
    re.sub(r".*/conf/experiment/", "", str(file.with_suffix(""))): file
    for file in sorted(ROOT.glob("plugins/*/conf/experiment/**/*.yaml"))
}
PARTS = {
    part.__name__: part
    for part in (
        pleiades,
        fisher,
        classics,
        flow,
        sweep,
        cell,
        cardiac,
        lennard_jones,
        solar_system,
        solar_system_positions,
    )
}

wanted = [word for word in sys.argv[1:] if word != "--record"]
if unknown := set(wanted) - set(PARTS) - set(EXPERIMENTS) - {"experiments"}:
    sys.exit(
        f"There is no part {', '.join(sorted(unknown))}; there are {', '.join([*PARTS, 'experiments', *EXPERIMENTS])}"
    )
with tempfile.TemporaryDirectory() as scratch:
    for name in wanted or PARTS:
        if name in EXPERIMENTS:
            experiment(name, Path(scratch) / name)
        else:
            (experiments if name == "experiments" else PARTS[name])(Path(scratch) / name)
        if "--record" in sys.argv:
            record()
sys.exit(1 if failures else 0)
