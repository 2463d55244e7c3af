"""Scores of runs of flow/window against the truth: velocity and pressure inside the rim.

    ./run python tests/benchmarks/window.py runs/flow/window/RUN ...

An error is the root mean square of the difference at the vectors inside the rim, divided by that of the true field. The mean of
the pressure over the window is taken away in every frame.
"""

import sys
from pathlib import Path

import h5py
import numpy as np

TRUTH = Path(__file__).parents[2] / "data" / "flow" / "turbulent_window.h5"


def means(x, axes):
    """Averages of neighbours along axes: from faces or centres to the corners inside."""
    for axis in axes:
        x = (np.take(x, range(1, x.shape[axis]), axis) + np.take(x, range(x.shape[axis] - 1), axis)) / 2
    return x


def errors(found, true):
    """The error of every frame, (T,), of arrays (T, ...)."""
    axes = tuple(range(1, true.ndim))
    return np.sqrt(np.mean((found - true) ** 2, axis=axes) / np.mean(true**2, axis=axes))


def main(runs):
    with h5py.File(TRUTH) as file:
        u, v, p = (file[name][:, 1:-1, 1:-1].astype(float) for name in "uvp")
    p -= p.mean(axis=(1, 2), keepdims=True)
    for run in runs:
        with h5py.File(Path(run) / "fields.h5") as file:
            found = np.stack([means(file["u_predicted"][:], (2,)), means(file["v_predicted"][:], (1,))], 1)
            pressure = means(file["pressure_predicted"][:].astype(float), (1, 2))
            fitted = int(np.sum(file["phase"][:] == 0))
        pressure -= pressure.mean(axis=(1, 2), keepdims=True)
        velocity, force = errors(found, np.stack([u, v], 1)), errors(pressure, p)
        print(run)
        print(f"  fitted: velocity {velocity[:fitted].mean():.2%}, pressure {force[:fitted].mean():.1%} on average")
        print("  forecast: velocity", ", ".join(f"{x:.1%}" for x in velocity[fitted:]))


if __name__ == "__main__":
    main(sys.argv[1:])
