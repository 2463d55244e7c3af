"""Flows on a sphere against exact solutions, symmetries and balances."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_sphere import HarmonicForce, KnotForce, NavierStokes, Raster, Sphere
from pdefit_sphere.flow import Velocity
from pdefit_sphere.rossby_haurwitz import damped_wave
from pdefit_sphere.rotations import rotated

import pdefit

SPHERE = Sphere(5, 1.5)
COUNT = 35


@eqx.filter_jit
def rates(system, y, t=0.0):
    return system.vector_field(jnp.asarray(t), y, None)


@eqx.filter_jit
def state(psi, chi, sphere=SPHERE):
    return Velocity(*sphere.tangent(sphere.unpack(jnp.asarray(psi)), sphere.unpack(jnp.asarray(chi))))


@eqx.filter_jit
def potentials(y, sphere=SPHERE):
    return sphere.potentials(*y)


@eqx.filter_jit
def packed(y, sphere=SPHERE):
    return [sphere.pack(x) for x in sphere.potentials(*y)]


@eqx.filter_jit
def projected(system, y):
    return system.project(y)


def drawn(seed=0, shape=(2, COUNT)):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


@eqx.filter_jit
def turned(y, vector, sphere=SPHERE):
    return state(*rotated(jnp.stack(packed(y, sphere), -1), jnp.asarray(vector)).T, sphere)


def rigid(vector):
    """A rigid rotation."""
    axis = np.asarray(vector, float)[[1, 2, 0]] * SPHERE.radius**2 * np.sqrt(4 * np.pi / 3)
    return state(np.zeros(3), -axis)


def close(a, b, scale=1.0, atol=1e-12):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=atol * scale)


def test_rigid_rotation():
    zero = jax.tree.map(jnp.zeros_like, rigid((0, 0, 1)))
    # around any axis it is steady with a pressure, as no viscosity acts on it
    close(rates(NavierStokes(SPHERE, 0.3, incompressible=True), rigid((0.4, -1.0, 0.7))), zero)
    # without one nothing holds it together
    theta = np.broadcast_to(SPHERE.theta[:, None], SPHERE.shape)
    spread = Velocity(0.7**2 * SPHERE.radius * np.sin(theta) * np.cos(theta), np.zeros(SPHERE.shape))
    close(rates(NavierStokes(SPHERE, 0.3), rigid((0, 0, 0.7))), spread)
    # the term without curvature damps it
    hodge = NavierStokes(SPHERE, 0.3, incompressible=True, hodge=True)
    y = rigid((0.4, -1.0, 0.7))
    close(rates(hodge, y), jax.tree.map(lambda u: -2 * 0.3 / SPHERE.radius**2 * np.asarray(u), y))


def test_small_flows_decay_as_their_viscosities_say():
    system, size = NavierStokes(SPHERE, 0.3, 0.2, 0.1), 1e-12
    psi, chi = np.asarray(drawn())
    solver = pdefit.solvers.ETDRK4()
    found = pdefit.solve(system, state(size * psi, size * chi), np.array([0.5]), t0=0.0, dt=0.1, solver=solver)
    after = packed([np.asarray(u)[0] for u in found])
    number = np.repeat(np.arange(1, 6), 2 * np.arange(1, 6) + 1)
    number, square = number * (number + 1), SPHERE.radius**2
    shear = 0.3 * (number - 2) / square + 0.1
    np.testing.assert_allclose(np.asarray(after[1]) / size, chi * np.exp(-0.5 * shear), rtol=1e-9)
    bulk = shear + 0.2 * number / square
    np.testing.assert_allclose(np.asarray(after[0]) / size, psi * np.exp(-0.5 * bulk), rtol=1e-9)


def test_inertia_is_that_of_a_field_in_space():
    # (u.grad) u of a polynomial field in space, whose tangent part is taken: another formula for the same
    sphere = Sphere(6)
    psi, chi = np.asarray(drawn(3, (2, 3)))
    theta, phi = np.meshgrid(sphere.theta, sphere.phi, indexing="ij")
    n = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1)
    e_theta = np.stack([np.cos(theta) * np.cos(phi), np.cos(theta) * np.sin(phi), -np.sin(theta)], -1)
    e_phi = np.stack([-np.sin(phi), np.cos(phi), 0 * phi], -1)
    a, w = (np.sqrt(3 / (4 * np.pi)) * np.asarray(x)[[2, 0, 1]] for x in (psi, chi))

    def u(x):
        return a - (x @ a) * x + jnp.cross(x, w)

    along = np.asarray(jax.jit(jax.vmap(lambda x: jax.jvp(u, (x,), (u(x),))[1]))(n.reshape(-1, 3))).reshape(n.shape)
    wanted = Velocity(-np.sum(along * e_theta, -1), -np.sum(along * e_phi, -1))
    close(rates(NavierStokes(sphere, 0.0), state(psi, chi, sphere)), wanted)


@pytest.mark.parametrize("incompressible", [False, True])
def test_rotations_commute_with_the_equations(incompressible):
    vector = np.array([0.5, -0.8, 1.1])
    force = HarmonicForce(5, 3, (0.0, 2.0), drawn(1, (3, COUNT, 2)))
    here = NavierStokes(SPHERE, 0.1, 0.05, 0.2, force=force, incompressible=incompressible)
    there = NavierStokes(SPHERE, 0.1, 0.05, 0.2, 0.0, force, vector, 0.0, incompressible)
    y = projected(here, state(*drawn()))
    wanted = turned(rates(here, y, 0.7), vector)
    scale = np.max(np.abs(wanted))
    close(rates(there, turned(y, vector), 0.7), wanted, scale, 1e-10)


def test_a_delay_acts_inside_the_force():
    force = HarmonicForce(5, 4, (0.0, 2.0), drawn(1, (4, COUNT, 2)))
    here, later = NavierStokes(SPHERE, 0.1, force=force), NavierStokes(SPHERE, 0.1, force=force, delay=0.4)
    y = state(*drawn())
    close(rates(later, y, 1.1), rates(here, y, 0.7))


def test_energy():
    y = state(*drawn())
    frame = NavierStokes(SPHERE, 0.0, rotation=0.8)
    divergence = eqx.filter_jit(SPHERE.divergence)(potentials(y)[0])

    mean = jax.jit(lambda y, rate: SPHERE.mean(y.u_theta * rate.u_theta + y.u_phi * rate.u_phi))

    def power(y, rate):
        return float(mean(y, rate))

    gained = float(mean(y, jax.tree.map(lambda u: np.asarray(u) / 2 * np.asarray(divergence), y)))
    assert power(y, rates(frame, y)) == pytest.approx(gained, rel=1e-12)
    held = NavierStokes(SPHERE, 0.0, rotation=0.8, incompressible=True)
    y = projected(held, y)
    assert abs(power(y, rates(held, y))) < 1e-12 * abs(gained)


def test_gradients_of_rotation_and_delay():
    """Gradients by reverse mode against differences, for a fluid driven from rest by the force alone."""
    force = KnotForce((4, 4, 6), (0.0, 1.0), values=drawn(2, (4, 4, 6, 2)))
    y0 = jax.tree.map(jnp.zeros_like, rigid((0, 0, 1)))
    weights = Velocity(*drawn(4, (2, *SPHERE.shape)))

    def total(p):
        system = NavierStokes(SPHERE, 0.1, force=force, orientation=p[:3], delay=p[3])
        end = pdefit.solve(system, y0, np.array([0.6]), t0=0.0, dt=0.2, solver=pdefit.solvers.RK4())
        return sum(jnp.vdot(w, u[0]) for w, u in zip(weights, end, strict=True))

    # the third is an orientation of 0, where an angle about an axis would have none
    points = jnp.asarray([[0.3, -0.5, 0.8, 0.1], [0.0, 0.0, 0.0, -0.2]])
    gradients = jax.jit(jax.vmap(jax.grad(total)))(points)
    steps = 1e-4 * jnp.eye(4)
    value = jax.jit(jax.vmap(jax.vmap(total)))
    up, down = (value(points[:, None] + s * steps[None]) for s in (1.0, -1.0))
    np.testing.assert_allclose(gradients, (up - down) / 2e-4, rtol=1e-6, atol=1e-6 * np.max(np.abs(gradients)))


def test_float32():
    system = NavierStokes(SPHERE, 0.1, force=KnotForce((3, 4, 6), (0.0, 1.0)), orientation=np.zeros(3), delay=0.1)
    y = state(*drawn())
    wanted = rates(system, y)
    system, y = jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, (system, y))
    found = rates(system, y)
    assert found.u_theta.dtype == jnp.float32
    close(found, wanted, np.max(np.abs(wanted.u_phi)), 1e-5)


def test_the_initial_state_of_a_record_with_holes():
    system = NavierStokes(SPHERE, 0.1)
    y = system.init(jax.random.key(1))
    values = {name: np.array(u)[None] for name, u in y._asdict().items()}
    cap = SPHERE.theta < 0.6
    for u in values.values():
        u[:, cap] = np.nan
    record = pdefit.Observations.build([0.0], values)
    found = system.init_from_data(record)
    close(found, y, atol=0.1)


@eqx.filter_jit
def observed(raster, y):
    return raster(0.0, y, None)


def test_a_raster_observes_at_its_angles():
    system, y = NavierStokes(SPHERE, 0.1), state(*drawn())
    found = observed(Raster([0.0, 1.0, 2.5], [0.5, 4.0]).on(system), y)
    theta, phi = (x.reshape(-1) for x in np.meshgrid([0.0, 1.0, 2.5], [0.5, 4.0], indexing="ij"))
    wanted = SPHERE.at(*potentials(y), theta, phi)
    close((found["u_theta"].reshape(-1), found["u_phi"].reshape(-1)), tuple(wanted.T))
    same = observed(Raster(SPHERE.theta, SPHERE.phi).on(system), y)
    close((same["u_theta"], same["u_phi"]), tuple(y))


def test_films_show_what_a_raster_observed_at_the_points_of_the_sphere():
    system = NavierStokes(SPHERE, 0.1)
    y = state(*drawn())
    coords = system.coords()
    theta, phi = np.linspace(0.0, np.pi, 61), np.linspace(0.0, 6.2, 120)
    raster = Raster(theta[:40], phi).on(system)
    found = raster.returned({name: np.asarray(x) for name, x in observed(raster, y).items()}, coords)
    seen = SPHERE.theta < theta[39]
    for name, wanted in y._asdict().items():
        size = np.max(np.abs(wanted))
        np.testing.assert_allclose(found[name][seen], wanted[seen], atol=0.02 * size)
        assert np.isnan(found[name][~seen]).all()


def test_refusals():
    with pytest.raises(ValueError, match="from 0 to pi"):
        Raster([-0.1], [0.0])
    with pytest.raises(ValueError, match="kinks"):
        KnotForce((3, 4, 6), (0.0, 1.0), method="linear")
    with pytest.raises(ValueError, match="give it one"):
        NavierStokes(SPHERE, 0.1, delay=0.1)
    with pytest.raises(ValueError, match="increasing times"):
        HarmonicForce(2, 3, (1.0, 0.0, 2.0))


def test_a_fixed_observer_sees_a_wave_turn_with_the_rotation():
    sphere, spin, viscosity = Sphere(6), 0.9, 0.05
    coefficients = np.concatenate([np.zeros(8), 0.4 * np.asarray(drawn(5, (7,))), np.zeros(33)])
    axis = np.concatenate([np.zeros(1), [-spin * np.sqrt(4 * np.pi / 3)], np.zeros(46)])
    turn = spin * (1 - 2 / 12)

    def flow(chi):
        return state(np.zeros(48), chi + axis, sphere)

    wanted = flow(jax.jit(damped_wave, static_argnums=1)(coefficients, 3, 1.0, viscosity, turn, 1.0))
    system, errors = NavierStokes(sphere, viscosity, incompressible=True), []
    for dt in (0.2, 0.1):
        solver = pdefit.solvers.ETDRK4()
        found = pdefit.solve(system, flow(coefficients), np.array([1.0]), t0=0.0, dt=dt, solver=solver)
        errors.append(np.max(np.abs(np.stack(found)[:, 0] - np.stack(wanted))))
    assert errors[1] < 1e-4 and abs(np.log2(errors[0] / errors[1]) - 4) < 0.2
