"""Errors of ten parameters of heart tissue from a camera's film, with all nuisances declared, and with one ignored at a time.

    ./run python tests/benchmarks/voltage_film.py [ROW ...] [SETTING ...]

Films of 32 x 32 cells and 100 ms by scripts/make_voltage_film.py, fitted as in cardiac/voltage_only_film, but film and fit take
Euler's steps of 0.1 ms and have smooth switches. Parameters, camera and all fields at the start begin at the truth, and the
trajectory is free for eight evaluations: the table is of bias alone, and not of what a guess adds.

A nuisance that is ignored has its nominal value, a tenth off in gain and offset; blur, exposure and bleaching are left out, and
lost pixels are dark, at the level of the offset. `solver`, `hard` and `exact` are other films: by RK4 and finer steps, by it
with hard switches, and of counts without rounding.

A row: chi2 of a value, the mean error of the ten, that of each in per cent, and the rms errors of the fields at the start.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import pdefit

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_voltage_film.py"
CELLS, STOP, DARK, LOST = 32, 100, 40, 255
NAMES = ("u_s", "u_so", "k_so", "tau_so1", "tau_si", "k_s", "u_u", "theta_v", "D", "tau_fi")
CAMERA = {"gain": "110.0", "offset": "40.0", "blur": "0.08", "bleaching": "[0.0, -0.05, -0.1]"}
# by row the words of the script, and what the fit does not declare
ROWS: dict[str, tuple[list[str], list[str]]] = {
    "declared": (["smooth", "euler"], []),
    "gain": (["smooth", "euler"], ["~controls.observe.gain"]),
    "blur": (["smooth", "euler"], ["~controls.observe.blur", "observe.blur=null"]),
    "exposure": (["smooth", "euler"], ["observe.exposure=0"]),
    "bleaching": (["smooth", "euler"], ["~controls.observe.bleaching", "observe.knots=null", "observe.bleaching=null"]),
    "offset": (["smooth", "euler"], ["~controls.observe.offset"]),
    "lost pixels": (["smooth", "euler"], []),
    "solver": (["smooth"], []),
    "hard": ([], []),
    "exact": (["smooth", "euler", "exact"], []),
}
# those of trajectories that are drawn to the data, which a fit from the truth does not need
LEFT_OUT = ["half", "fifth", "near", "nearer", "nearest"]


def films(folder: Path, words: list[str]) -> Path:
    """The folder of a film and its truth, which are made once."""
    where = folder / "_".join(["film", *words])
    if not where.exists():
        command = [sys.executable, str(SCRIPT), str(where), str(CELLS), str(STOP), *words]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return where


def experiment(name: str, where: Path, settings: list[str]) -> tuple[pdefit.Experiment, dict[str, np.ndarray]]:
    """The experiment of a row and the true fields at the start."""
    film, ignored = where / "voltage_film.h5", ROWS[name][1]
    if name == "lost pixels":
        film = where / "dark.h5"
        film.write_bytes((where / "voltage_film.h5").read_bytes())
        with h5py.File(film, "r+") as file:
            counts = file["intensity"][...]
            file["intensity"][...] = np.where(counts == LOST, DARK, counts)
    with h5py.File(where / "voltage_truth.h5") as file:
        truth = {n: file[n][0] for n in "uvws"}
    edge = 0.1 * CELLS
    known = [f"system.grid.shape=[{CELLS},{CELLS}]", f"system.grid.extent=[{edge},{edge}]", f"data.path={film}"]
    known += ["solver=euler", "dt=0.1"]
    known += [f"observe.knots=[0, {STOP / 2}, {STOP}]", *(f"stages.{stage}=null" for stage in LEFT_OUT)]
    known += ["stages.free.max_iterations=8", "stages.free.optimizer.products=20"]
    known += [f"controls.{n}.guess=null" for n in NAMES]
    known += [f"controls.y0.{n}.guess={np.round(x, 5).tolist()}" for n, x in truth.items()]
    known += [f"+controls.observe.{n}.guess={x}" for n, x in CAMERA.items() if f"~controls.observe.{n}" not in ignored]
    changed = [*ignored, *settings]
    return pdefit.load_experiment("cardiac/voltage_only_film", [*known, *changed]), truth


def row(name: str, folder: Path, settings: list[str]) -> str:
    """The row of one fit."""
    begun = time.monotonic()
    found, truth = experiment(name, films(folder, ROWS[name][0]), settings)
    exact = {n: float(getattr(found.functional.problem.system, n)) for n in NAMES}
    fit = found.fit(callback=lambda p: print(name, p.stage, p.iteration, p.loss, file=sys.stderr, flush=True))
    off = [100 * (float(getattr(fit.problem.system, n)) / exact[n] - 1) for n in NAMES]
    rms = [np.sqrt(np.mean((np.asarray(getattr(fit.problem.y0, n)) - truth[n]) ** 2)) for n in "uvws"]
    cells = [
        name, f"{2 * fit.loss / fit.functional.observed_values:.3f}", f"{np.mean(np.abs(off)):.2f}",
        *(f"{x:+.2f}" for x in off), *(f"{x:.3f}" for x in rms),
    ]  # fmt: skip
    camera = {
        n: np.round(getattr(fit.problem.observe, n), 3).tolist()
        for n in CAMERA
        if getattr(fit.problem.observe, n) is not None
    }
    seconds = f"{time.monotonic() - begun:.0f} s, {'' if fit.converged else 'not '}converged"
    print(f"{name}: {fit.iterations} evaluations, {seconds}, {camera}", file=sys.stderr)
    return f"| {' | '.join(cells)} |"


def main(words: list[str]):
    """Prints the rows that are named, or all."""
    print(f"| | chi2 | mean | {' | '.join(NAMES)} | u | v | w | s |", "|---" * (len(NAMES) + 7) + "|", sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        for name in [word for word in words if word in ROWS] or ROWS:
            print(row(name, Path(folder), [word for word in words if word not in ROWS]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
