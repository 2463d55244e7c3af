"""Hidden regions of the mean wind of twelve months: the fit beside interpolations on the sphere.

    ./run python tests/benchmarks/wind.py RUN
    ./run python tests/benchmarks/wind.py --gaps FILE SEED

The first scores a run of experiment=sphere/wind. The second writes the wind with other hidden regions, by which the scales of
the experiment were chosen (seed 1; data/sphere/wind_gaps.h5 is of seed 0).

Errors are the root mean square of the difference over a hidden region, by area, in percent of the root mean square speed
there. `harmonic` solves the Laplace equation for the Cartesian components of the wind. `thin plate` is their spline
through the vectors within 1 rad of the region.
"""

import shutil
import sys
from pathlib import Path

import h5py
import jax
import numpy as np
from pdefit_sphere import Sphere
from scipy.interpolate import RBFInterpolator
from scipy.sparse import lil_array
from scipy.sparse.linalg import spsolve

DATA = Path(__file__).parents[2] / "data" / "sphere"
# radians: that of a hidden region, and how far around it vectors are used
REACH, AROUND = 0.35, 1.0


def wind(name: str = "wind.h5") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The wind (12, theta, phi, 2), and its angles."""
    with h5py.File(DATA / name) as file:
        return file["velocity"][:, 1].astype(float), file["theta"][:], file["phi"][:]


def basis(theta: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places on the unit sphere (theta, phi, 3), and the vectors along theta and phi (theta, phi, 2, 3)."""
    t, p = np.meshgrid(theta, phi, indexing="ij")
    place = np.stack([np.sin(t) * np.cos(p), np.sin(t) * np.sin(p), np.cos(t)], -1)
    along = np.stack([np.cos(t) * np.cos(p), np.cos(t) * np.sin(p), -np.sin(t)], -1)
    return place, np.stack([along, np.stack([-np.sin(p), np.cos(p), 0 * p], -1)], -2)


def write_gaps(path: Path, seed: int) -> None:
    """Writes the wind with a hidden region in every month."""
    shutil.copy(DATA / "wind.h5", path)
    centres = np.random.default_rng(seed).normal(size=(12, 3))
    with h5py.File(path, "r+") as file:
        places = basis(file["theta"][:], file["phi"][:])[0]
        for e, centre in enumerate(centres / np.linalg.norm(centres, axis=-1, keepdims=True)):
            month = file["velocity"][e]
            month[:, places @ centre >= np.cos(REACH)] = np.nan
            file["velocity"][e] = month


def harmonic(theta, phi, field, hidden):
    """A field (theta, phi, 3) whose hidden part solves the Laplace equation, with no flux through the poles."""
    number, size = np.cumsum(hidden).reshape(hidden.shape) - 1, int(hidden.sum())
    matrix, right = lil_array((size, size)), np.zeros((size, 3))
    step, turn = theta[1] - theta[0], phi[1] - phi[0]
    for i, j in np.argwhere(hidden):
        for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if not 0 <= k < len(theta):
                continue
            m %= len(phi)
            weight = np.sin((theta[i] + theta[k]) / 2) * turn / step if k != i else step / (np.sin(theta[i]) * turn)
            matrix[number[i, j], number[i, j]] += weight
            if hidden[k, m]:
                matrix[number[i, j], number[k, m]] -= weight
            else:
                right[number[i, j]] += weight * field[k, m]
    found = field.copy()
    found[hidden] = np.stack([spsolve(matrix.tocsr(), b) for b in right.T], -1)
    return found


def thin_plate(places, field, hidden):
    """A field (theta, phi, 3) whose hidden part is a thin-plate spline through what is around it."""
    centre = places[hidden].mean(0)
    near = ~hidden & (places @ (centre / np.linalg.norm(centre)) > np.cos(REACH + AROUND))
    found = field.copy()
    found[hidden] = RBFInterpolator(places[near], field[near], kernel="thin_plate_spline")(places[hidden])
    return found


def fitted(run: Path, month: str, theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """The wind of a run (theta, phi, 2) at the angles of the data."""
    with h5py.File(run / "recordings" / month / "fields.h5") as file:
        u = [np.asarray(file[f"{name}_predicted"][-1], float) for name in ("u_theta", "u_phi")]
    sphere = next(s for s in map(Sphere, range(1, 100)) if s.shape == u[0].shape)
    return np.stack(sphere.on_raster(*sphere.potentials(*u), tuple(theta), tuple(phi)), -1)


def main() -> None:
    if sys.argv[1] == "--gaps":
        write_gaps(Path(sys.argv[2]), int(sys.argv[3]))
        return
    jax.config.update("jax_enable_x64", True)
    (true, theta, phi), seen = wind(), wind("wind_gaps.h5")[0]
    places, axes = basis(theta, phi)
    with h5py.File(DATA / "wind_gaps.h5") as file:
        months = [name.decode() for name in file["experiment"][:]]
    rows = []
    for e, month in enumerate(months):
        hidden = np.isnan(seen[e, ..., 0])
        cartesian = np.einsum("tpc,tpcx->tpx", seen[e], axes)
        filled = [harmonic(theta, phi, cartesian, hidden), thin_plate(places, cartesian, hidden)]
        each = [fitted(Path(sys.argv[1]), month, theta, phi), *(np.einsum("tpx,tpcx->tpc", x, axes) for x in filled)]
        area = np.sin(theta)[:, None] * hidden
        speed = np.sum(area * np.sum(true[e] ** 2, -1))
        rows.append([100 * np.sqrt(np.sum(area * np.sum((x - true[e]) ** 2, -1)) / speed) for x in each])
        print(f"{month:10s}" + "".join(f"{x:8.1f}" for x in rows[-1]))
    print(f"{'mean':10s}" + "".join(f"{x:8.1f}" for x in np.mean(rows, 0)) + "   (fit, harmonic, thin plate)")


if __name__ == "__main__":
    main()
