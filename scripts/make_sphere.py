"""A wave of Rossby and Haurwitz with an unseen cap: the record of `experiment=sphere/rossby_haurwitz`.

Writes data/sphere/rossby_haurwitz.h5: the exact velocity at the points of the model, without noise, which is missing within
0.7 rad of a point near the south pole.
"""

from pathlib import Path

import h5py
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_sphere import RossbyHaurwitz, Sphere

OUT = Path(__file__).parents[1] / "data" / "sphere"
VISCOSITY, ROTATION = 0.02, 3.0


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    system = RossbyHaurwitz(Sphere(8), VISCOSITY, ROTATION)
    ts = np.linspace(0.0, 2.0, 21)
    exact = jax.jit(jax.vmap(system.exact))(jnp.asarray(ts))
    theta, phi = system.sphere.theta, system.sphere.phi
    middle = np.array([np.sin(2.5) * np.cos(1.0), np.sin(2.5) * np.sin(1.0), np.cos(2.5)])
    there, around = np.meshgrid(theta, phi, indexing="ij")
    points = np.stack([np.sin(there) * np.cos(around), np.sin(there) * np.sin(around), np.cos(there)], -1)
    unseen = points @ middle > np.cos(0.7)
    print(f"{np.mean(unseen):.0%} of the points are unseen")
    OUT.mkdir(parents=True, exist_ok=True)
    with h5py.File(OUT / "rossby_haurwitz.h5", "w") as file:
        file.attrs.update(
            title="exact Rossby-Haurwitz wave of degree 4, viscosity 0.02, in a frame that rotates at 3; a cap is missing",
            history="closed formula; NumPy " + np.__version__,
            license="CC0-1.0",
            source="scripts/make_sphere.py of pdefit",
        )
        for axis, values, unit in (("time", ts, "1"), ("theta", theta, "rad"), ("phi", phi, "rad")):
            file.create_dataset(axis, data=values)
            file[axis].make_scale(axis)
            file[axis].attrs["units"] = unit
        for name, values in exact._asdict().items():
            shown = np.where(unseen, np.nan, np.asarray(values)).astype(np.float32)
            data = file.create_dataset(name, data=shown, compression="gzip", shuffle=True)
            data.attrs.update(units="1", long_name=f"velocity along {name.removeprefix('u_')}")
            for i, axis in enumerate(("time", "theta", "phi")):
                data.dims[i].attach_scale(file[axis])


if __name__ == "__main__":
    main()
