"""A film of Fisher's equation whose first frame, 22,500 cells, is unknown, made by another method on a finer grid.

    ./run python tests/benchmarks/fisher_film.py [FOLDER [SETTING ...]]

Cells that spread and multiply: 40 colonies in a dish of 15 mm, 31 frames with noise of 5 % of the range. Exact steps of
diffusion, by cosines, and of growth take turns, and pixels are means of 3 x 3 cells. D and r start 30 % off. Stages, guess and
noise are what a fit chooses. Steps are those for diffusion on fine grids, which a fit does not choose from a noisy frame.
Prints errors, evaluations, seconds, J and memory. About ten minutes on one core.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from scipy.fft import dctn, idctn

# mm^2/s, 1/s, mm, s
D, R, EDGE, BETWEEN, FRAMES = 0.25, 0.5, 15.0, 0.3, 31
PIXELS, FINER, DT, NOISE = 150, 3, 0.01, 0.05
SETTINGS = f"""
system:
  name: reaction/fisher_kpp
  grid: {{shape: [{PIXELS}, {PIXELS}], extent: [{EDGE}, {EDGE}], origin: [0.0, 0.0], length_unit: mm}}
  D: {1.3 * D} # mm^2/s, the guess
  r: {0.7 * R} # 1/s, the guess
  front: 0.0
solver: {{name: rkc}}
dt: 0.05 # s
data: {{path: film.h5, variables: {{u: density}}, sigma: auto}}
controls:
  D: {{transform: log}}
  r: {{transform: log}}
  y0: {{u: {{transform: identity, guess: data}}}}
"""


def film() -> np.ndarray:
    """Densities of the pixels at all frames, without noise."""
    n, rng = PIXELS * FINER, np.random.default_rng(0)
    x = (np.arange(n) + 0.5) * EDGE / n
    u = np.zeros((n, n))
    for a, b in rng.uniform(0, EDGE, (40, 2)):
        u += 0.3 * np.exp(-((x[:, None] - a) ** 2 + (x - b) ** 2) / (2 * 0.4**2))
    k = np.pi * np.arange(n) / EDGE
    half = np.exp(-D * DT / 2 * (k[:, None] ** 2 + k**2))
    grown = np.exp(R * DT)
    frames = []
    for _ in range(FRAMES):
        frames.append(u.reshape(PIXELS, FINER, PIXELS, FINER).mean((1, 3)))
        for _ in range(round(BETWEEN / DT)):
            u = idctn(half * dctn(u))
            u = u * grown / (1 + u * (grown - 1))
            u = idctn(half * dctn(u))
    return np.stack(frames)


def write(folder: Path):
    """The film and the experiment in a folder."""
    clean = film()
    noisy = clean + NOISE * np.random.default_rng(1).normal(size=clean.shape)
    centres = (np.arange(PIXELS) + 0.5) * EDGE / PIXELS
    with h5py.File(folder / "film.h5", "w") as file:
        for name, values, unit in (
            ("time", BETWEEN * np.arange(FRAMES), "s"),
            ("x", centres, "mm"),
            ("y", centres, "mm"),
            ("density", noisy.astype(np.float32), "1"),
        ):
            file[name] = values
            file[name].attrs["units"] = unit
        for i, name in enumerate(("time", "x", "y")):
            file[name].make_scale(name)
            file["density"].dims[i].attach_scale(file[name])
    np.save(folder / "truth.npy", clean[0])
    (folder / "film.yaml").write_text(SETTINGS)


def main(words: list[str]):
    """Prints what the fit finds."""
    folder = Path(words[0] if words else tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    write(folder)
    command = ["pdefit", "fit", "film.yaml", "hydra.run.dir=run", "render=false", *words[1:]]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "COLUMNS": "110"})
    found = json.loads((folder / "run" / "summary.json").read_text())
    for name, truth in (("D", D), ("r", R)):
        number = found["parameters"][name]
        low, high = number["ci95"] or (np.nan, np.nan)
        error, deviation = number["estimate"] - truth, (high - low) / 2 / 1.96
        print(
            f"{name} {number['estimate']:.5f}: {100 * error / truth:+.3f} %, {error / deviation:+.2f} standard errors"
        )
    with h5py.File(folder / "run" / "fields.h5") as fields:
        off = fields["u_predicted"][0] - np.load(folder / "truth.npy")
    print(f"first frame: {np.sqrt(np.mean(off**2)):.4f} rms, noise {NOISE}")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    end = f"{found['verdict']}; {found['iterations']} evaluations"
    seconds = "fit of {fit:.0f} s, command of {total:.0f} s".format(**found["seconds"])
    print(f"{end}, {seconds}, J {found['loss_final']:.0f}, {memory:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
