"""Recordings of embryos that a known force drives: the data of `experiment=sphere/embryo_twin`.

Writes data/sphere/embryo_twin.h5 and data/sphere/embryo_self.h5. All recordings are of one force in the frame of the embryo.
Each has its own orientation, delay, initial velocity, unseen cap and noise. Lengths are in um, times in min.

With n the place on the unit sphere, s the part of the film that has passed, and grad of the unit sphere the force is

    edge      0.30 (1 + 0.4 cos(phi - 1)) exp(-((theta - 1 - 0.7 s) / 0.35)^2 / 2) e_theta
    dipole    0.20 sin(pi s) grad(n . d),                            d = (0.9, 0.3, -0.3)
    reversed  0.25 tanh((0.6 - s) / 0.08) n x grad exp(3 (n . p - 1)),  p = (0.3, -0.8, 0.52)

The edge tapers off towards the poles as sin(theta)^2.
"""

from pathlib import Path
from typing import Any, NamedTuple

import h5py
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_sphere import KnotForce, NavierStokes, Raster, Sphere
from pdefit_sphere.flow import Velocity
from pdefit_sphere.rotations import matrix

import pdefit

OUT = Path(__file__).parents[1] / "data" / "sphere"
RADIUS, FRAME_TIME, FRAMES = 350.0, 3.0, 50
VISCOSITY, DRAG = 600.0, 0.1
FILM = FRAME_TIME * (FRAMES - 1)
KNOTS = 16, 11, 15
THETA = tuple(np.pi * (np.arange(16) + 0.5) / 16)
PHI = tuple(2 * np.pi * np.arange(30) / 30)
NOISE, CAP = 0.1, 0.8
# the force begins before and ends after the film, by more than any delay
TIMES = -0.04 * FILM, 1.04 * FILM


def points(theta: Any, phi: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The place on the unit sphere and the unit vectors along theta and phi, (..., 3) each."""
    theta, phi = np.broadcast_arrays(theta, phi)
    place = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1)
    e_theta = np.stack([np.cos(theta) * np.cos(phi), np.cos(theta) * np.sin(phi), -np.sin(theta)], -1)
    return place, e_theta, np.stack([-np.sin(phi), np.cos(phi), np.zeros_like(phi)], -1)


def force(t: Any, theta: Any, phi: Any) -> np.ndarray:
    """The components of the force along theta and phi, (..., 2), in um/min^2.

    **Arguments:**

    - `t`, `theta`, `phi`: the times in min, and the places in radians, which broadcast.
    """
    t, theta, phi = np.broadcast_arrays(t, theta, phi)
    n, e_theta, e_phi = points(theta, phi)
    s = t / FILM
    ring = 0.30 * (1 + 0.4 * np.cos(phi - 1)) * np.exp(-(((theta - 1 - 0.7 * s) / 0.35) ** 2) / 2) * np.sin(theta) ** 2
    dipole = 0.20 * np.sin(np.pi * s)[..., None] * np.array([0.9, 0.3, -0.3])
    p = np.array([0.3, -0.8, 0.52]) / np.linalg.norm([0.3, -0.8, 0.52])
    turn = 0.25 * np.tanh((0.6 - s) / 0.08) * 3 * np.exp(3 * (n @ p - 1))
    whole = dipole + turn[..., None] * np.cross(n, p)
    return np.stack([ring + np.sum(whole * e_theta, -1), np.sum(whole * e_phi, -1)], -1)


def knot_force(knots: tuple[int, int, int] = KNOTS, degree: int | None = None) -> KnotForce:
    """The force by its values at knots.

    **Arguments:**

    - `knots`: the numbers of knots in time, along theta and along phi.
    - `degree`: the largest degree of its harmonics.
    """
    empty = KnotForce(knots, TIMES, degree)
    theta, phi = empty.places
    values = force(np.asarray(empty.times)[:, None, None], theta[:, None], phi)
    return KnotForce(knots, TIMES, degree, values)


class Recording(NamedTuple):
    """What was seen of an embryo, and how it lay: the axis times the angle, (3,), and the delay in min."""

    velocity: np.ndarray  # (T, theta, phi, 2), NaN where unseen
    sigma: float
    orientation: np.ndarray
    delay: float


def recordings(seed: int, count: int, degree: int = 14, step: float = 1.0, own_force: bool = True) -> list[Recording]:
    """Recordings of the same force.

    Orientations lie within 0.5 rad of those of the first, and delays within 3 % of the film.

    **Arguments:**

    - `seed`: of orientations, delays, initial velocities and noise.
    - `count`: the number of recordings.
    - `degree`: the largest degree of the flow.
    - `step`: the step in min.
    - `own_force`: whether the force is that of the formulas, between 32 x 32 x 40 knots; else that of the fit's knots.
    """
    rng = np.random.default_rng(seed)
    sphere = Sphere(degree, RADIUS, "um")
    driving = knot_force((32, 32, 40), degree) if own_force else knot_force()
    observe = Raster(THETA, PHI)
    ts = FRAME_TIME * np.arange(FRAMES)

    @jax.jit
    def run(psi, chi, orientation, delay):
        system = NavierStokes(
            sphere, jnp.asarray(VISCOSITY), drag=jnp.asarray(DRAG), force=driving, orientation=orientation, delay=delay
        )
        y0 = Velocity(*sphere.tangent(sphere.unpack(psi), sphere.unpack(chi)))
        ys = pdefit.solve(system, y0, ts[1:], t0=0.0, dt=step, solver=pdefit.solvers.RK4())
        frames = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), y0, ys)
        instrument = observe.on(system)
        seen = jax.vmap(lambda y: instrument(0.0, y, None))(frames)
        return jnp.stack([seen["u_theta"], seen["u_phi"]], -1)

    found = []
    axis = points(np.asarray(THETA)[:, None], np.asarray(PHI))[0]
    for e in range(count):
        direction = rng.normal(size=3)
        orientation = rng.uniform(0.2, 0.5) * direction / np.linalg.norm(direction) * (e > 0)
        delay = rng.uniform(-0.03, 0.03) * FILM * (e > 0)
        # harmonics up to degree 4, 1.5 um/min
        waves = np.zeros((2, degree * (degree + 2)))
        number = np.repeat(np.arange(1, 5), 2 * np.arange(1, 5) + 1)
        waves[:, :24] = rng.normal(size=(2, 24)) / np.sqrt(number * (number + 1))
        waves *= 1.5 * RADIUS * np.sqrt(8 * np.pi / 48)
        velocity = np.asarray(run(*jnp.asarray(waves), jnp.asarray(orientation), jnp.asarray(delay)))
        sigma = NOISE * float(np.sqrt(np.mean(velocity**2)))
        velocity = velocity + sigma * rng.normal(size=velocity.shape)
        # the lower side of the embryo lies away from the microscope
        velocity[:, axis[..., 2] < -np.cos(CAP)] = np.nan
        found.append(Recording(velocity, sigma, orientation, float(delay)))
    return found


def angle_between(a: np.ndarray, b: np.ndarray) -> float:
    """The angle of the rotation between two orientations, modulo full turns, in radians."""
    between = np.asarray(matrix(jnp.asarray(a)).T @ matrix(jnp.asarray(b)))
    return float(np.arccos(np.clip((np.trace(between) - 1) / 2, -1, 1)))


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    OUT.mkdir(parents=True, exist_ok=True)
    write(OUT / "embryo_twin.h5", recordings(0, 12), "twelve embryos")
    write(
        OUT / "embryo_self.h5",
        recordings(0, 4, 8, FRAME_TIME, own_force=False),
        "four embryos, by the model of the fit",
    )


def write(path: Path, found: list[Recording], what: str) -> None:
    """Write recordings with what is true of them, in the layout of docs/cases/sphere.md."""
    knots, times, count = knot_force(), FRAME_TIME * np.arange(FRAMES), len(found)
    names = np.asarray([f"embryo_{e + 1:02d}" for e in range(count)], dtype=object), ""
    with h5py.File(path, "w") as file:
        file.attrs.update(
            title=f"noisy velocities of {what} that one force drives, of which a cap is missing",
            history="made by scripts/make_embryos.py of pdefit; NumPy " + np.__version__,
            license="CC0-1.0",
            source="scripts/make_embryos.py of pdefit",
        )
        theta, phi = knots.places
        _axes(file, experiment=names, time=(times, "min"), theta=(np.asarray(THETA), "rad"), phi=(np.asarray(PHI), "rad"),
              component=_COMPONENT, knot_time=(np.asarray(knots.times), "min"), knot_theta=(theta, "rad"),
              knot_phi=(phi, "rad"), axis=(np.arange(3), "1"))  # fmt: skip
        # ten bits of the fraction are more than the noise needs
        velocity = _rounded(np.stack([r.velocity for r in found]).astype(np.float32))
        data = file.create_dataset("velocity", data=velocity, compression="gzip", compression_opts=9, shuffle=True)
        _describe(file, data, "um/min", "velocity", ("experiment", "time", "theta", "phi", "component"))
        data = file.create_dataset("force", data=np.asarray(knots.values), compression="gzip", shuffle=True)
        _describe(file, data, "um/min^2", "true force at knots", ("knot_time", "knot_theta", "knot_phi", "component"))
        for name, values, unit, meaning, *more in (
            ("radius", [RADIUS] * count, "um", "radius"),
            ("frame_time", [FRAME_TIME] * count, "min", "time between frames"),
            ("sigma", [r.sigma for r in found], "um/min", "standard deviation of the noise"),
            ("delay", [r.delay for r in found], "min", "true time by which the force is later"),
            ("orientation", [r.orientation for r in found], "rad", "true axis times angle of the force", "axis"),
        ):
            stored = file.create_dataset(name, data=np.asarray(values, float))
            _describe(file, stored, unit, meaning, ("experiment", *more))


_COMPONENT = np.asarray(["theta", "phi"], dtype=object), ""


def _rounded(x: np.ndarray) -> np.ndarray:
    """Numbers with the last 13 bits of their fraction rounded to 0, which compress well."""
    bits = x.view(np.uint32)
    return np.where(np.isfinite(x), ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32), np.nan)


def _axes(file: h5py.File, **axes: tuple[np.ndarray, str]) -> None:
    """The dimensions of a file with their coordinates."""
    for name, (values, unit) in axes.items():
        kind = h5py.string_dtype() if values.dtype == object else None
        file.create_dataset(name, data=values, dtype=kind)
        file[name].make_scale(name)
        if unit:
            file[name].attrs["units"] = unit


def _describe(file: h5py.File, data: Any, unit: str, name: str, dims: tuple[str, ...] = ()) -> None:
    """The unit, the name and the dimensions of a variable."""
    data.attrs.update(units=unit, long_name=name)
    for i, dim in enumerate(dims):
        data.dims[i].attach_scale(file[dim])


if __name__ == "__main__":
    main()
