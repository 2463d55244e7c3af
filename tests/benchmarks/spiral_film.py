"""Errors of the numbers and the hidden field of reaction/spiral_film, with the blur of the camera and without it.

    ./run python tests/benchmarks/spiral_film.py [SETTING ...]

Each setting is one more fit, such as `observe.blur=null` or `dt=0.1`; without any the blur is left out. A line for each fit:
the error of every number in per cent and in standard errors, and the rms error of both fields, relative to their rms, in
the first frame and after one rotation. About ten minutes a fit.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

TRUTH = Path(__file__).parents[2] / "data" / "reaction" / "spiral_truth.h5"


def main(settings: list[str]):
    """Prints a line for each fit."""
    print("| | verdict |" + "".join(f" {n} |" for n in ("D", "excitation", "recovery", "beta", "u, v", "later")))
    for setting in ("", *(settings or ["observe.blur=null"])):
        with tempfile.TemporaryDirectory() as folder:
            chosen = ["experiment=reaction/spiral_film", "render=false", *setting.split()]
            subprocess.run(["pdefit", "fit", *chosen], cwd=folder, check=True, capture_output=True)
            (summary,) = Path(folder).rglob("summary.json")
            print(f"| {setting or 'as shipped'} | {line(summary)}", flush=True)


def line(summary: Path) -> str:
    """The errors of one fit."""
    found, cells = json.loads(summary.read_text()), []
    with h5py.File(TRUTH) as truth, h5py.File(summary.parent / "fields.h5") as fields:
        for name, number in found["parameters"].items():
            off, (low, high) = number["estimate"] - truth.attrs[name], number["ci95"]
            cells.append(f"{100 * off / truth.attrs[name]:+.2f} ({off / (high - low) * 2 * 1.96:+.1f})")
        for time, *exact in zip(truth["time"], truth["u"], truth["v"], strict=True):
            frame = np.argmin(np.abs(fields["time"][...] - time))
            off = [fields[f"{n}_predicted"][frame] - x for n, x in zip(("u_state", "v"), exact, strict=True)]
            rms = [100 * np.sqrt(np.mean(e**2) / np.mean(x**2)) for e, x in zip(off, exact, strict=True)]
            cells.append(", ".join(f"{x:.1f}" for x in rms))
    return f"{found['verdict']} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
