"""A window of turbulence made by NumPy alone, fitted with the stages that a fit chooses where nobody names them.

    ./run python tests/benchmarks/window_elsewhere.py FOLDER [SEED] [OVERRIDE ...]

The vorticity equation on 192 x 192 points of a box of 2 pi, by Fourier series and Runge-Kutta steps of 0.005. A window of
a third of the edge has 48 x 48 vectors in 20 frames, 0.03 apart, with noise of 2 % of their range. FOLDER gets flow.h5, the
experiment flow.yaml as docs/how-to/import-piv.md has it, and the run. Printed are the errors of viscosity and drag, guessed
twice too large, with their intervals. Takes a quarter of an hour.
"""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from scipy.interpolate import RectBivariateSpline

VISCOSITY, DRAG, AMPLITUDE, WAVENUMBER = 0.012, 0.1, 1.2, 4
N, STEP, SPIN_UP, FRAMES, EVERY = 192, 0.005, 20.0, 20, 6
CORNER, EDGE, VECTORS = (0.4, 3.1), 2 * np.pi / 3, 48
EXPERIMENT = """\
defaults:
  - /system: flow/window
  - override /solver: rk4
system:
  grid: {{shape: [47, 47], extent: [{edge!r}, {edge!r}], origin: [{x!r}, {y!r}]}}
  viscosity: {viscosity}
  drag: {drag}
  force: {{name: flow/kolmogorov_force, amplitude: {amplitude}, wavenumber: {wavenumber}}}
data: {{path: flow.h5, variables: {{u: u, v: v}}, sigma: auto, truth: {{viscosity: {viscosity}, drag: {drag}}}}}
observe: {{name: corners}}
controls:
  viscosity: {{transform: log, guess: {far_viscosity}}}
  drag: {{transform: log, guess: {far_drag}}}
  y0:
    u: {{guess: data, smoothing: {{length: 0.15, amplitude: 0.8, order: 2}}}}
    v: {{guess: data, smoothing: {{length: 0.15, amplitude: 0.8, order: 2}}}}
  rim:
    u: {{values: {{prior: measured}}}}
    v: {{values: {{prior: measured}}}}
"""
K = np.fft.fftfreq(N, 1 / N)[:, None], np.fft.rfftfreq(N, 1 / N)[None, :]
SQUARE = K[0] ** 2 + K[1] ** 2
KEPT = (abs(K[0]) < N / 3) & (abs(K[1]) < N / 3)
CURL = np.fft.rfft2(
    -AMPLITUDE * WAVENUMBER * np.cos(WAVENUMBER * 2 * np.pi * np.arange(N) / N)[None, :] * np.ones((N, 1))
)


def velocity(w):
    """Both components on the grid, from the modes of the vorticity."""
    stream = w / np.where(SQUARE > 0, SQUARE, 1) * (SQUARE > 0)
    return np.fft.irfft2(1j * K[1] * stream), np.fft.irfft2(-1j * K[0] * stream)


def rate(w):
    """The derivative in time of the modes of the vorticity."""
    u, v = velocity(w)
    carried = u * np.fft.irfft2(1j * K[0] * w) + v * np.fft.irfft2(1j * K[1] * w)
    return KEPT * (CURL - np.fft.rfft2(carried)) - (VISCOSITY * SQUARE + DRAG) * w


def step(w):
    """One step of the classical Runge-Kutta method."""
    a = rate(w)
    b = rate(w + STEP / 2 * a)
    c = rate(w + STEP / 2 * b)
    return w + STEP / 6 * (a + 2 * b + 2 * c + rate(w + STEP * c))


def film(seed):
    """Noisy vectors, (frames, 48, 48) of each component, and their positions."""
    rng, axis = np.random.default_rng(seed), 2 * np.pi * np.arange(N + 1) / N
    w = np.fft.rfft2(rng.standard_normal((N, N))) * ((SQUARE > 4) & (SQUARE < 64))
    w *= 3 / np.std(np.fft.irfft2(w))
    for _ in range(round(SPIN_UP / STEP)):
        w = step(w)
    x, y = (low + np.linspace(0, EDGE, VECTORS) for low in CORNER)
    frames = []
    for k in range(FRAMES):
        for _ in range(EVERY if k else 0):
            w = step(w)
        closed = (np.pad(c, ((0, 1), (0, 1)), mode="wrap") for c in velocity(w))
        frames.append([RectBivariateSpline(axis, axis, c, kx=5, ky=5)(x, y) for c in closed])
    u, v = np.moveaxis(np.array(frames), 1, 0)
    return *(c + 0.02 * np.ptp(c) * rng.standard_normal(c.shape) for c in (u, v)), x, y


def main(folder, seed="0", *overrides):
    """Makes the data, fits them, and prints the errors."""
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    u, v, x, y = film(int(seed))
    with h5py.File(out / "flow.h5", "w") as file:
        for name, values in {"time": np.arange(FRAMES) * EVERY * STEP, "x": x, "y": y}.items():
            file[name] = values
            file[name].make_scale(name)
        for name, values in {"u": u, "v": v}.items():
            file[name] = values
            for number, dim in enumerate(("time", "x", "y")):
                file[name].dims[number].attach_scale(file[dim])
    numbers = {"viscosity": VISCOSITY, "drag": DRAG, "far_viscosity": 2 * VISCOSITY, "far_drag": 2 * DRAG}
    known = {"amplitude": AMPLITUDE, "wavenumber": WAVENUMBER, "edge": EDGE, "x": CORNER[0], "y": CORNER[1]}
    (out / "flow.yaml").write_text(EXPERIMENT.format(**numbers, **known))
    subprocess.run(["pdefit", "fit", "flow.yaml", "hydra.run.dir=run", *overrides], cwd=out, check=True)
    found = json.loads((out / "run" / "summary.json").read_text())
    for name in ("viscosity", "drag"):
        row = found["parameters"][name]
        print(f"{name} {row['relative_error']:+.1%}, {row['z_score']} standard errors, 95 % {row['ci95']}")
    print(f"{found['verdict']}, {found['iterations']} evaluations")


if __name__ == "__main__":
    main(*sys.argv[1:])
