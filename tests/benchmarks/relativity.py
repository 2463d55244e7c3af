"""Positions of Sun, planets and four asteroids by the tabulated masses: what Newton and general relativity leave of the data.

    ./run python tests/benchmarks/relativity.py

The bodies start from tabulated positions and velocities every 600 days, as in `particles/solar_system_asteroids`. Printed is
the rms error of a coordinate within these windows, by body, in 1e-9 au.
"""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np

import pdefit
from pdefit.data.readers.locate import locate
from pdefit.data.readers.observations import read_arrays
from pdefit.inverse.objective.compiled import weighted

DATA = "solar_system/planets_asteroids_2020_2040_10d.h5"


def main():
    """Prints one line for each body."""
    gm, sigma = read_arrays(locate(DATA), {n: n for n in ("gm", "position_sigma")}).values()
    left = []
    for name in ("gravity", "relativistic_gravity"):
        functional = pdefit.load_experiment(
            "particles/solar_system_asteroids", [f"system.name=particles/{name}"]
        ).functional
        (control,) = functional.controls.items
        residual = np.asarray(weighted(functional, jnp.ravel(control.to_theta(jnp.asarray(gm))))["position"])
        left.append(1e9 * np.sqrt(np.mean(residual**2, axis=(0, 1, 3))) * sigma)
    for body, newton, einstein in zip(functional.problem.system.names, *left, strict=True):
        print(f"| {body} | {newton:.1f} | {einstein:.1f} |", flush=True)


if __name__ == "__main__":
    main()
