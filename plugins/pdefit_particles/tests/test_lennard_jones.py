"""What only Lennard-Jones spheres can know: conservation, forces, walls, and masses found again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_particles import LennardJones, State

import pdefit


def spheres():
    system = LennardJones.example(4).system
    return system, system.init(jax.random.key(0))


def test_energy_drift_falls_with_the_order():
    system, y0 = spheres()
    before, drift = system.invariants(y0)["energy"], []
    for dt in (2e-3, 1e-3):
        y = pdefit.solve(system, y0, np.linspace(0.02, 1.0, 50), solver=pdefit.solvers.VelocityVerlet(), dt=dt, t0=0.0)
        drift.append(float(jnp.max(jnp.abs(jax.vmap(system.invariants)(y)["energy"] / before - 1))))
    assert drift[0] < 1e-3 and np.log2(drift[0] / drift[1]) > 1.7


def test_forces_are_the_slope_of_the_energy():
    system, y = spheres()
    x, e = y.position + 0.05 * y.velocity, 1e-6
    force = system.mass[:, None] * system.acceleration(0.0, x, None)
    for i, a in np.ndindex(x.shape):
        slope = (system.potential(x.at[i, a].add(e)) - system.potential(x.at[i, a].add(-e))) / (2 * e)
        assert float(force[i, a]) == pytest.approx(-float(slope), rel=1e-6, abs=1e-6)


def test_momentum_changes_at_walls_only():
    system = LennardJones((40.0, 40.0), jnp.asarray([1.0, 3.0, 2.0]), jnp.asarray([0.3, 0.4, 0.5]))
    x = 20 + jnp.asarray([[0.0, 0.0], [0.9, 0.0], [0.2, 1.0]])
    momentum = jnp.sum(system.mass[:, None] * system.acceleration(0.0, x, None), axis=0)
    np.testing.assert_allclose(momentum, 0.0, atol=1e-12)


def test_a_sphere_is_thrown_back_by_a_wall():
    system = LennardJones((4.0,), jnp.asarray([2.0]), jnp.asarray([0.5]))
    y0 = State(jnp.asarray([[2.0]]), jnp.asarray([[-1.0]]))
    y = pdefit.solve(system, y0, np.array([3.0]), solver=pdefit.solvers.VelocityVerlet(), dt=1e-3, t0=0.0)
    assert float(y.velocity[-1, 0, 0]) == pytest.approx(1.0, abs=1e-3) and 0 < float(y.position[-1, 0, 0]) < 4


def test_masses_and_radii_are_found_again():
    truth, y0 = spheres()
    ts = np.linspace(0.0, 1.5, 31)
    data = pdefit.simulate(truth, y0, ts, solver=pdefit.solvers.VelocityVerlet(), dt=5e-3)
    start = {"mass": pdefit.guesses.Value(3.0), "radius": pdefit.guesses.FromData()}
    controls = {name: pdefit.Control(pdefit.transforms.Log(), guess) for name, guess in start.items()}
    J = pdefit.Functional(
        pdefit.Problem(truth, y0), data, controls, solver=pdefit.solvers.VelocityVerlet(), dt=5e-3,
        formulation=pdefit.formulations.Segments(0.25),
    )  # fmt: skip
    found = pdefit.fit(J, [pdefit.optimizers.LevenbergMarquardt()]).problem.system
    np.testing.assert_allclose(found.mass, truth.mass, rtol=1e-6)
    np.testing.assert_allclose(found.radius, truth.radius, rtol=1e-6)
