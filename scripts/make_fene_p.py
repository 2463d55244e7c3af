"""Stresses of a fluid of FENE-P kind in shear that oscillates, at six frequencies, by another method than pdefit's.

    ./run python scripts/make_fene_p.py data/pathways/fene_p.h5

lambda = 2, L = 2, eta = 4 and a shear rate of 12 cos(w t) with w = 1, 1.2, .., 2, from rest; 100 frames in [0, 2 pi], no noise.
"""

import argparse
from pathlib import Path

import h5py
import numpy as np
import scipy
from scipy.integrate import solve_ivp

RELAXATION, EXTENSION, VISCOSITY, AMPLITUDE = 2.0, 2.0, 4.0, 12.0
FREQUENCIES = np.linspace(1.0, 2.0, 6)
_A, _B = EXTENSION**2 / (EXTENSION**2 - 3), RELAXATION / (VISCOSITY * EXTENSION**2)


def _spring(theta11: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tau11 = _A * theta11 / (RELAXATION - _B * theta11)
    return tau11, _A + _B * tau11


def stress(ts: np.ndarray, frequency: float) -> np.ndarray:
    """The shear stress at some times from 0 on, (n,)."""

    def rate(t, theta):
        (tau11, f), g = _spring(theta[0]), AMPLITUDE * np.cos(frequency * t)
        return [-tau11 + 2 * g * theta[1], -f * theta[1] / RELAXATION + VISCOSITY / f * g]

    theta11, theta12 = solve_ivp(rate, (0.0, ts[-1]), [0.0, 0.0], "DOP853", ts, rtol=1e-11, atol=1e-12).y
    return _spring(theta11)[1] * theta12 / RELAXATION


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    ts = np.linspace(0.0, 2 * np.pi, 100)
    with h5py.File(given.file, "w") as file:
        file.attrs.update(
            title="Shear stress of a fluid of FENE-P kind at six frequencies of the shear, without noise",
            source="scripts/make_fene_p.py of pdefit",
            license="CC0-1.0",
            history=f"DOP853, rtol = 1e-11, atol = 1e-12; SciPy {scipy.__version__}",
        )
        axes = {"shear": np.arange(FREQUENCIES.size), "time": ts}
        for name, places in axes.items():
            file.create_dataset(name, data=places).attrs.update(units="1", long_name=name)
            file[name].make_scale(name)
        arrays = {"stress": np.stack([stress(ts, w) for w in FREQUENCIES]), "frequency": FREQUENCIES}
        for name, data in arrays.items():
            stored = file.create_dataset(name, data=data)
            stored.attrs.update(units="1", long_name=name)
            for dim, axis in zip(stored.dims, axes, strict=False):
                dim.attach_scale(file[axis])


if __name__ == "__main__":
    main()
