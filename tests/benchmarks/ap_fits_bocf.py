"""Misfits of the Aliev-Panfilov model to the voltage of BOCF tissue in cardiac/ap_fits_bocf.

    ./run python tests/benchmarks/ap_fits_bocf.py [SETTING ...]

A line for the film: what is left of the variance of the voltage over the fit, without noise; the mean error of the voltage,
over the fit and over the forecast; how late or early a cell rises through half of the peak, in the mean over rises that both
have, with the part of rises that the other lacks; processor seconds of the whole command.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

# the noise of the films with their rounding, half of the peak, and the largest distance of one rise in ms
SIGMA, HALF, SAME = 0.0053, 0.7, 50.0


def main(words: list[str]):
    """Prints the line."""
    print("| verdict | variance left | error, fit | forecast | rises off, fit | forecast | without partner | CPU s |")
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        chosen = ["experiment=cardiac/ap_fits_bocf", "cores=1", *words]
        subprocess.run(["pdefit", "fit", *chosen], cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        (summary,) = Path(folder).rglob("summary.json")
        print(f"| {line(summary)} | {after.ru_utime - before.ru_utime:.0f} |", flush=True)


def line(summary: Path) -> str:
    """The scores of one fit."""
    run = json.loads(summary.read_text())
    with h5py.File(summary.parent / "fields.h5") as file:
        ts, phase = (np.asarray(file[n]) for n in ("time", "phase"))
        seen, found = (np.asarray(file[n]) for n in ("u_observed", "u_predicted"))
    cells = [run["verdict"]]
    inside, after = phase == 0, phase == 1
    left = np.mean((seen - found)[inside] ** 2) - SIGMA**2
    cells += [f"{left / (np.var(seen[inside]) - SIGMA**2):.2%}"]
    cells += [f"{np.mean(np.abs(seen - found)[part]):.4f}" for part in (inside, after)]
    late, alone = zip(*(rises_apart(ts[part], seen[part], found[part]) for part in (inside, after)), strict=True)
    return " | ".join([*cells, *(f"{x:.1f} ms" for x in late), ", ".join(f"{x:.0%}" for x in alone)])


def rises(ts: np.ndarray, u: np.ndarray) -> list[np.ndarray]:
    """For every cell the times at which the voltage rises through half of its peak."""
    below, above = u[:-1].reshape(len(ts) - 1, -1), u[1:].reshape(len(ts) - 1, -1)
    up = (below < HALF) & (above >= HALF)
    when = ts[:-1, None] + np.diff(ts)[:, None] * (HALF - below) / np.where(up, above - below, 1)
    return [when[up[:, i], i] for i in range(up.shape[1])]


def rises_apart(ts: np.ndarray, seen: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """The mean distance of rises that both have, and the part of rises that the other lacks."""
    off, alone, count = [], 0, 0
    for a, b in zip(rises(ts, seen), rises(ts, found), strict=True):
        for these, those in ((a, b), (b, a)):
            apart = np.abs(these[:, None] - those[None]).min(axis=1, initial=np.inf)
            off += list(apart[apart <= SAME])
            alone += int(np.sum(apart > SAME))
            count += len(these)
    return float(np.mean(off)) if off else np.nan, alone / max(count, 1)


if __name__ == "__main__":
    main(sys.argv[1:])
