"""Twelve embryos, one force: errors of the force, of orientations and of delays in twins, with cost and coverage.

    ./run python tests/benchmarks/embryos.py [--seeds 0 1 2] [--recordings 4] [--truth self independent] [--posterior]

Each twin is fitted with the model of `experiment=sphere/embryo_twin`: degree 8, one step of RK4 a frame, and a force of
16 x 11 x 15 knots. The data of `self` are of this model. Those of `independent` are of degree 14, with three steps a frame
and the force of the formulas.
"""

import argparse
import sys
import time
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
# a prior of the size only
SMALL = pdefit.Smoothing(length=1e-3, time=1e-3, order=1.0, amplitude=0.25)
# orientations and delays are relative to those of the first recording
GAUGE = {"orientation": 0, "delay": 0}
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


def observed(seen: Sequence[Recording], theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """Whether places of the embryo, on a raster of angles, were seen in any recording."""
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
    weight = (area * observed(seen, theta, phi))[..., None]
    return float(np.sqrt(np.sum(weight * (here - there) ** 2) / np.sum(weight * there**2)))


def twin(seed: int, count: int, truth: str) -> list[Recording]:
    """The recordings of a twin."""
    if truth == "self":
        return recordings(seed, count, DEGREE, make.FRAME_TIME, own_force=False)
    return recordings(seed, count)


def fit(seen: Sequence[Recording], **options) -> tuple[pdefit.Fit, KnotForce]:
    """The fit of recordings, and its force."""
    batch = pdefit.batches.Loop() if len(seen) > 4 else pdefit.batches.Vmap()
    joint = pdefit.Recordings(
        [functional(r, adjoint=pdefit.adjoints.StoreAll(), **options) for r in seen], batch=batch, gauge=GAUGE
    )
    step = pdefit.optimizers.GaussNewtonCG(products=40, tolerance=1e-5)
    # at a force of zero orientations have no curvature: the second stage measures it again
    found = pdefit.fit(joint, [pdefit.Stage(step, 5), pdefit.Stage(step, 25)])
    return found, jax.tree.map(lambda x: x[0], found.problem.system.force)


def coverage(found: pdefit.Fit, seen: Sequence[Recording], truth: str, draws: int = 100) -> tuple[float, float, str]:
    """The part of the force in the 95 % band, where it was observed and elsewhere, and a remark."""
    posterior = pdefit.field_posterior(found.functional, found.theta, rank=400, sigma_stated=True)
    values = posterior.samples(draws, jax.random.key(0))["force.values"]
    deviation = jnp.asarray(np.std(values, axis=0))
    force = jax.tree.map(lambda x: x[0], found.problem.system.force)
    theta, phi = force.places
    ts = np.asarray(force.times)
    inside = (ts >= 0) & (ts <= FILM)
    true = make.force(ts[:, None, None], theta[:, None], phi)
    within = np.abs(np.asarray(force.values) - true) <= 1.96 * np.asarray(deviation)
    area = np.broadcast_to(np.sin(theta)[:, None, None], within.shape[1:])
    watched = observed(seen, theta, phi)[..., None]

    def mean(where: np.ndarray) -> float:
        return float(np.sum(within[inside] * area * where) / np.sum(inside) / np.sum(area * where))

    return mean(watched), mean(~watched), posterior.remark


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--recordings", type=int, default=4)
    parser.add_argument("--truth", nargs="*", default=["self", "independent"])
    parser.add_argument("--without-smoothness", action="store_true", help="also the fit whose force is kept small only")
    parser.add_argument("--posterior", action="store_true")
    asked = parser.parse_args()
    for truth in asked.truth:
        for seed in asked.seeds:
            seen = twin(seed, asked.recordings, truth)
            kinds = {"smooth": PRIOR}
            if asked.without_smoothness:
                kinds["small"] = SMALL
            for name, prior in kinds.items():
                begin = time.perf_counter()
                found, driving = fit(seen, prior=prior)
                seconds, system = time.perf_counter() - begin, found.problem.system
                both = list(zip(system.orientation, system.delay, seen, strict=True))
                turn = max(make.angle_between(np.asarray(a), r.orientation) for a, _, r in both)
                late = max(abs(float(d) - r.delay) / FILM for _, d, r in both)
                error = force_error(driving, seen, truth)
                print(
                    f"{truth} {seed} {name}: force {error:.2%}, orientation {turn:.4f} rad, delay {late:.3%} of the film, "
                    f"chi2 {2 * found.loss / found.functional.observed_values:.4f}, {seconds:.0f} s, "
                    f"{'converged' if found.converged else 'not converged'}",
                    flush=True,
                )
                if asked.posterior and name == "smooth":
                    here, elsewhere, remark = coverage(found, seen, truth)
                    print(f"    95 % band holds {here:.1%} where seen, {elsewhere:.1%} elsewhere. {remark}", flush=True)


if __name__ == "__main__":
    main()
