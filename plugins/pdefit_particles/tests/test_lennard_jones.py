"""Physics of Lennard-Jones spheres: conservation, forces, walls, and recovered masses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_particles import LennardJones, State, random_spheres

import pdefit


def spheres():
    system = LennardJones.example(4).system
    return system, system.init(jax.random.key(0))


def test_forces_are_the_slope_of_the_energy():
    system, y = spheres()
    x, e = np.asarray(y.position) + 0.05 * np.asarray(y.velocity), 1e-6
    potential = jax.jit(lambda x: system.potential(x))
    force = np.asarray(jax.jit(lambda x: system.mass[:, None] * system.acceleration(0.0, x, None))(x))
    for i, a in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[i, a] = e
        slope = (float(potential(x + moved)) - float(potential(x - moved))) / (2 * e)
        assert force[i, a] == pytest.approx(-slope, rel=1e-6, abs=1e-6)


def test_momentum_changes_at_walls_only():
    system = LennardJones((40.0, 40.0), jnp.asarray([1.0, 3.0, 2.0]), jnp.asarray([0.3, 0.4, 0.5]))
    x = 20 + np.asarray([[0.0, 0.0], [0.9, 0.0], [0.2, 1.0]])
    momentum = jax.jit(lambda x: jnp.sum(system.mass[:, None] * system.acceleration(0.0, x, None), axis=0))(x)
    np.testing.assert_allclose(momentum, 0.0, atol=1e-12)


def test_a_sphere_is_thrown_back_by_a_wall():
    system = LennardJones((4.0,), jnp.asarray([2.0]), jnp.asarray([0.5]))
    y0 = State(jnp.asarray([[2.0]]), jnp.asarray([[-1.0]]))
    y = pdefit.solve(system, y0, np.array([3.0]), solver=pdefit.solvers.VelocityVerlet(), dt=1e-3, t0=0.0)
    assert float(y.velocity[-1, 0, 0]) == pytest.approx(1.0, abs=1e-3) and 0 < float(y.position[-1, 0, 0]) < 4


def test_guessed_radii_overlap_nowhere_and_reach_contacts():
    x = np.array([[[0.25, 2.0], [3.0, 2.0]], [[1.0, 2.0], [2.2, 2.0]]])
    system = LennardJones((4.0, 4.0), jnp.ones(2), jnp.ones(2))
    found = system.guess_from_data("radius", pdefit.Observations.build(np.arange(2.0), {"position": x}))
    # the first is bounded by a wall in frame 0, the second by the first in frame 1
    np.testing.assert_allclose(found, [0.25, 0.6], atol=1e-12)
    assert system.guess_from_data("mass", pdefit.Observations.build(np.arange(2.0), {"position": x})) is None


@pytest.mark.parametrize("seed", range(5))
def test_random_spheres_start_apart(seed):
    system = random_spheres(20, (8.0, 8.0), seed)
    x = np.asarray(system.init(jax.random.key(seed)).position)
    apart = np.linalg.norm(x[:, None] - x[None], axis=-1) + 9 * np.eye(20)
    radius, mass = np.asarray(system.radius), np.asarray(system.mass)
    assert np.all(apart > radius[:, None] + radius) and np.all(np.minimum(x, 8.0 - x) > radius[:, None])
    assert 0.2 <= radius.min() < 0.35 and 0.55 < radius.max() <= 0.7
    assert 1 <= mass.min() < 4 and 7 < mass.max() <= 10
    assert not np.allclose(mass, random_spheres(20, (8.0, 8.0), seed + 1).mass)


def test_masses_and_radii_are_found_despite_noise():
    truth = random_spheres(3, (3.2, 3.2))
    y0, ts, dt = truth.init(jax.random.key(0)), np.linspace(0.0, 4.0, 81), 4e-3
    exact = pdefit.simulate(truth, y0, ts, solver=pdefit.solvers.Yoshida4(), dt=dt / 2)
    noise = np.random.default_rng(0)
    values = {name: x + 3e-3 * noise.standard_normal(x.shape) for name, x in exact.values.items()}
    data = pdefit.Observations.build(ts, values, dict.fromkeys(values, 3e-3))
    log, identity, optimizer = (
        pdefit.transforms.Log(), pdefit.transforms.Identity(), pdefit.optimizers.LevenbergMarquardt(max_step=0.5)
    )  # fmt: skip
    controls = {
        "mass": pdefit.Control(log, pdefit.guesses.Value(3.0), bounds=(0.3, 30.0)),
        "radius": pdefit.Control(log, pdefit.guesses.FromData(), bounds=(0.1, 1.0), scale=0.1),
        "nodes": {name: pdefit.Control(identity) for name in values},
    }
    J = pdefit.Functional(
        pdefit.Problem(truth, y0), data, controls, solver=pdefit.solvers.VelocityVerlet(), dt=dt,
        formulation=pdefit.formulations.Segments(0.5, continuity=1e-4),
    )  # fmt: skip
    near = pdefit.Stage(optimizer, 60, pdefit.formulations.Segments(0.25))
    found = pdefit.fit(J, [near, pdefit.Stage(optimizer)])
    assert found.converged
    np.testing.assert_allclose(found.problem.system.mass, truth.mass, rtol=0.02)
    np.testing.assert_allclose(found.problem.system.radius, truth.radius, rtol=0.01)
