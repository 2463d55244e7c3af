"""A table of predators and prey, by another method than pdefit's: every row is one system with parameters of its own.

    ./run python scripts/make_populations.py FILE [--level 0.01] [--seed 0] [--systems 500]

Rates alpha, beta, gamma, delta and both starts are uniform between 0.1 and 1; there is no crowding. The systems depend on the
seed alone, so that files of other noise levels hold the same ones. Noise is Gaussian and multiplicative: its standard
deviation is `level` times the exact value, and the file holds it, too; without noise it states a thousandth of the value.
Takes a quarter of a minute for 500 systems. The table that ships was made by

    ./run python scripts/make_populations.py data/populations/lotka_volterra_500.h5 --level 0.05
"""

import argparse
from pathlib import Path

import h5py
import numpy as np
import scipy
from scipy.integrate import solve_ivp

STOP, FRAMES = 40.0, 200
RATES, STARTS, FIELDS = ("alpha", "beta", "gamma", "delta"), ("prey_start", "predator_start"), ("prey", "predator")


def orbit(t: np.ndarray, rates: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Prey and predator, (2, t), by the logarithms of both, whose errors are relative errors of the numbers."""
    a, b, g, d = rates

    def rate(_, z):
        x, y = np.exp(z)
        return [a - b * y, d * x - g]

    return np.exp(solve_ivp(rate, (t[0], t[-1]), np.log(start), "DOP853", t, rtol=1e-12, atol=1e-12).y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--level", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--systems", type=int, default=500)
    given = parser.parse_args()
    of_systems, of_noise = map(np.random.default_rng, np.random.SeedSequence(given.seed).spawn(2))
    truth = of_systems.uniform(0.1, 1.0, (given.systems, 6))
    t = np.linspace(0.0, STOP, FRAMES)
    exact = np.stack([orbit(t, row[:4], row[4:]) for row in truth])
    values = exact * (1 + given.level * of_noise.standard_normal(exact.shape))

    with h5py.File(given.file, "w") as file:
        file.attrs.update(
            title=f"{given.systems} systems of Lotka and Volterra with noise of {given.level:g} times the value",
            source="scripts/make_populations.py of pdefit",
            license="CC0-1.0",
            history=f"DOP853 in the logarithms, rtol = atol = 1e-12; SciPy {scipy.__version__}; seed {given.seed}",
        )
        axes = {"system": np.arange(given.systems), "time": t}
        for name, places in axes.items():
            file.create_dataset(name, data=places).attrs.update(units="1", long_name=name)
            file[name].make_scale(name)
        columns = dict(zip((*RATES, *STARTS), truth.T, strict=True)) | {"level": np.full(given.systems, given.level)}
        fields = dict(zip(FIELDS, np.moveaxis(values, 1, 0), strict=True))
        sigma = (given.level or 1e-3) * np.moveaxis(exact, 1, 0)
        fields |= {f"{name}_sigma": x for name, x in zip(FIELDS, sigma, strict=True)}
        # values with noise need no more digits than float32 has
        kind = np.float32 if given.level else np.float64
        for name, data in (*fields.items(), *columns.items()):
            packed = {"compression": "gzip", "shuffle": True, "dtype": kind} if name in fields else {}
            stored = file.create_dataset(name, data=data, **packed)
            stored.attrs.update(units="1", long_name=name.replace("_", " "))
            for dim, axis in zip(stored.dims, axes, strict=False):
                dim.attach_scale(file[axis])


if __name__ == "__main__":
    main()
