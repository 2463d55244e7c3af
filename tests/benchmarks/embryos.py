"""Twelve embryos, one force: errors of the force, of orientations and of delays in twins, with cost and coverage.

    ./run python tests/benchmarks/embryos.py [--seeds 0 1 2] [--recordings 4] [--truth self independent] [--posterior]

Each twin is fitted with the model of `experiment=sphere/embryos`: degree 8, one step of RK4 a frame, a force of 16 x 11 x 15
knots. The data of `self` are of this model. Those of `independent` are of degree 14, with three steps a frame and the force of
the formulas.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import pdefit

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import make_embryos as make  # noqa: E402
from make_embryos import FILM, Recording, knot_force, recordings  # noqa: E402
from pdefit_sphere import KnotForce, NavierStokes, Raster, Sphere  # noqa: E402
from pdefit_sphere.flow import Velocity  # noqa: E402
from pdefit_sphere.rotations import matrix  # noqa: E402

DEGREE = 8
# of the force: the length in radians, the time in min, the order, and the amplitude in um/min^2
PRIOR = pdefit.Smoothing(length=0.4, time=20.0, order=1.5, amplitude=0.25)
# of the initial velocity, in um/min
START = pdefit.Smoothing(length=1e-3, amplitude=2.0)


def functional(
    seen: Recording, prior: pdefit.Smoothing | None = PRIOR, dtype: str = "float64", **options
) -> pdefit.Functional:
    """The functional of a recording, from a force of zero, a fluid at rest, no rotation and no delay."""
    sphere = Sphere(DEGREE, make.RADIUS, "um")
    system = NavierStokes(
        sphere, jnp.asarray(make.VISCOSITY), drag=jnp.asarray(make.DRAG), force=KnotForce(make.KNOTS, make.TIMES),
        orientation=jnp.zeros(3), delay=jnp.zeros(()),
    )  # fmt: skip
    zeros = jnp.zeros(sphere.shape)
    problem = pdefit.Problem(system, Velocity(zeros, zeros), Raster(make.THETA, make.PHI).on(system))
    values = {"u_theta": seen.velocity[..., 0], "u_phi": seen.velocity[..., 1]}
    data = pdefit.Observations.build(make.FRAME_TIME * np.arange(make.FRAMES), values, seen.sigma)
    start = pdefit.Control(smoothing=START, scope="experiment")
    controls = {
        "force": {"values": pdefit.Control(smoothing=prior)},
        "orientation": pdefit.Control(scope="experiment", scale=0.01),
        "delay": pdefit.Control(scope="experiment", scale=0.2),
        "y0": {"u_theta": start, "u_phi": start},
    }
    if dtype != "float64":
        from pdefit._util.trees import cast

        problem = cast(problem, dtype)
    return pdefit.Functional(problem, data, controls, dt=make.FRAME_TIME, solver=pdefit.solvers.RK4(), **options)


def places() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Colatitudes and longitudes at which forces are compared, and their areas, (n_theta, n_phi)."""
    sphere = Sphere(16)
    return sphere.theta, sphere.phi, np.broadcast_to(sphere.weights, sphere.shape)


def observed(seen: Sequence[Recording]) -> np.ndarray:
    """Whether a place of the embryo was seen in any recording, on the raster of `places`."""
    theta, phi, _ = places()
    there, around = np.meshgrid(theta, phi, indexing="ij")
    place = np.stack([np.sin(there) * np.cos(around), np.sin(there) * np.sin(around), np.cos(there)], -1)
    lowest = -np.cos(make.CAP)
    # a place x of the force is seen at R x
    heights = [place @ np.asarray(matrix(jnp.asarray(r.orientation)))[2] for r in seen]
    return np.any(np.stack(heights) > lowest, axis=0)


@jax.jit
def _on_raster(found: KnotForce, ts: jax.Array) -> jax.Array:
    sphere = Sphere(found.degree)
    theta, phi, _ = places()

    def at(t: jax.Array) -> jax.Array:
        c = found.potentials(t)
        return jnp.stack(sphere.on_raster(sphere.unpack(c[:, 0]), sphere.unpack(c[:, 1]), tuple(theta), tuple(phi)), -1)

    return jax.lax.map(at, ts)


def force_error(found: KnotForce, seen: Sequence[Recording], truth: str) -> float:
    """The relative L2 error of a force over the observed region and the film."""
    theta, phi, area = places()
    ts = np.linspace(0.0, FILM, 60)
    here = np.asarray(_on_raster(found, jnp.asarray(ts)))
    there = (
        make.force(ts[:, None, None], theta[:, None], phi)
        if truth == "independent"
        else np.asarray(_on_raster(knot_force(), jnp.asarray(ts)))
    )
    weight = (area * observed(seen))[..., None]
    return float(np.sqrt(np.sum(weight * (here - there) ** 2) / np.sum(weight * there**2)))


def twin(seed: int, count: int, truth: str) -> list[Recording]:
    """The recordings of a twin."""
    if truth == "self":
        return recordings(seed, count, DEGREE, make.FRAME_TIME, own_force=False)
    return recordings(seed, count)
