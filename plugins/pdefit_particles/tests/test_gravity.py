"""Physics of gravity: its reference solution, its invariants, its symmetries, two bodies."""

import csv
from functools import partial

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_particles import Gravity, RelativisticGravity, State, pleiades
from pdefit_particles.kepler import propagate

import pdefit
from pdefit.data.readers.locate import locate
from pdefit.data.readers.observations import read_arrays, read_observations


def test_pleiades_end_state_is_the_reference():
    system, y0 = pleiades(Gravity)
    end = pdefit.solve(system, y0, np.array([3.0]), solver=diffrax.Dopri8(), dt=2.5e-4, t0=0.0)
    with open(locate("reference/pleiades_reference.csv"), newline="") as file:
        rows = {r["component"]: float(r["t3_reference"]) for r in csv.DictReader(file)}
    for i in range(7):
        for field, prefix in (("position", ""), ("velocity", "v")):
            found = getattr(end, field)[-1, i]
            expected = [rows[f"{prefix}{axis}{i + 1}"] for axis in "xy"]
            np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize(
    ("solver", "order", "steps"),
    [
        (pdefit.solvers.VelocityVerlet(), 2, 40),
        (pdefit.solvers.Yoshida4(), 4, 40),
        (pdefit.solvers.RK4(), 4, 40),
        (diffrax.Dopri8(), 8, 6),
    ],
)
def test_energy_drift_falls_with_the_order(solver, order, steps):
    system, y0 = _ellipse()
    invariants = eqx.filter_jit(system.invariants)
    before = invariants(y0)
    drift = []
    for n in (steps, 2 * steps):
        end = pdefit.solve(system, y0, np.array([1.7]), solver=solver, dt=1.7 / n, t0=0.0)
        after = invariants(jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[-1]), end))
        drift.append(abs(float(after["energy"] / before["energy"]) - 1))
        np.testing.assert_allclose(after["momentum"], before["momentum"], atol=1e-13)
        if isinstance(solver, pdefit.solvers.VelocityVerlet | pdefit.solvers.Yoshida4):
            np.testing.assert_allclose(after["angular_momentum"], before["angular_momentum"], atol=1e-13)
    assert np.log2(drift[0] / drift[1]) > order - 0.3


def _ellipse():
    """A comet (eccentricity 0.3) about a heavy star."""
    position, velocity = np.array([[0.0, 0.0], [1.3, 0.0]]), np.array([[0.0, 0.0], [0.0, 0.75]])
    system = Gravity(gm=np.array([1.0, 1e-2]), position=position, velocity=velocity, length_unit="1")
    return system, system.init(None)


def test_the_kepler_baseline_solves_two_bodies_exactly():
    system, y0 = _ellipse()
    ts = np.linspace(0.5, 12.0, 6)
    numeric = pdefit.solve(system, y0, ts, solver=diffrax.Dopri8(), dt=1e-2, t0=0.0)
    forecast = system.baseline(0.0, y0, ts)
    np.testing.assert_allclose(forecast["position"], numeric.position, atol=1e-11)
    np.testing.assert_allclose(forecast["velocity"], numeric.velocity, atol=1e-11)


@pytest.mark.parametrize("speed", [0.2, 1.0, 1.3])
def test_an_orbit_closes_after_its_period(speed):
    r0, v0 = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, speed, 0.1])
    a = 1 / (2 - float(v0 @ v0))
    r, v = jax.jit(propagate)(jnp.asarray(1.0), r0, v0, jnp.asarray(2 * np.pi * a**1.5))
    np.testing.assert_allclose(r, r0, atol=1e-12)
    np.testing.assert_allclose(v, v0, atol=1e-12)


def test_symmetries(key):
    """Rotations and permutations act on the acceleration, translations and boosts do not; no net force."""
    keys = jax.random.split(key, 3)
    x, gm = jax.random.normal(keys[0], (6, 3)), jax.random.uniform(keys[1], (6,), minval=0.1)
    x, gm = np.asarray(x), np.asarray(gm)
    rotation = np.linalg.qr(jax.random.normal(keys[2], (3, 3)))[0]
    order = np.array([3, 1, 0, 5, 4, 2])

    @jax.jit
    def acceleration(gm, x):
        return Gravity(gm=gm).acceleration(0.0, x, None)

    a = np.asarray(acceleration(gm, x))
    np.testing.assert_allclose(acceleration(gm, x @ rotation.T), a @ rotation.T, rtol=1e-11)
    np.testing.assert_allclose(acceleration(gm, x + 7.0), a, rtol=1e-11)
    np.testing.assert_allclose(acceleration(gm[order], x[order]), a[order], rtol=1e-11)
    np.testing.assert_allclose(np.sum(gm[:, None] * a, axis=0), 0.0, atol=1e-12)


def test_two_bodies_by_the_relative_equation_of_the_first_order(key):
    """Kidder 1995, doi:10.1103/PhysRevD.52.821, equation 2.2b, for any mass ratio, in the centre-of-mass frame."""
    gm, c = np.array([0.3, 1.1]), 20.0
    x, v = np.asarray(jax.random.normal(key, (2, 3)))
    m, r = gm.sum(), np.linalg.norm(x)
    eta, n = gm[0] * gm[1] / m**2, x / r
    rate = n @ v
    first = n * (-2 * (2 + eta) * m / r + (1 + 3 * eta) * (v @ v) - 1.5 * eta * rate**2) - 2 * (2 - eta) * rate * v
    share = np.array([gm[1], -gm[0]])[:, None] / m
    found = RelativisticGravity(gm=gm, speed_of_light=c).vector_field(0.0, State(share * x, share * v), None).velocity
    np.testing.assert_allclose(found[0] - found[1], -m / r**2 * (n + first / c**2), rtol=1e-12)


def test_momentum_of_the_first_order_is_kept_to_the_second():
    """Seven bodies, so that three-body terms contribute (Einstein, Infeld and Hoffmann)."""

    def left(c):
        system, y = pleiades(partial(RelativisticGravity, speed_of_light=c))

        def momentum(y):
            x, v, gm = y.position, y.velocity, system.gm
            apart = x[None] - x[:, None] + jnp.eye(7)[..., None]
            r = jnp.linalg.norm(apart, axis=-1)
            weight = gm[:, None] * gm[None, :] / r * (1 - jnp.eye(7))
            along = jnp.einsum("ijd,id->ij", apart, v) / r
            first = gm[:, None] * v * jnp.sum(v**2, axis=1)[:, None] - jnp.sum(weight, axis=1)[:, None] * v
            return jnp.sum(gm[:, None] * v, 0) + jnp.sum(
                first - jnp.einsum("ij,ijd->id", weight * along / r, apart), 0
            ) / (2 * c**2)

        y = State(y.position, y.velocity + jnp.sin(jnp.arange(14.0).reshape(7, 2)))
        return jnp.linalg.norm(jax.jvp(momentum, (y,), (system.vector_field(0.0, y, None),))[1])

    assert left(20.0) / left(40.0) == pytest.approx(16, rel=1e-6)


def test_mercury_leaves_the_trace_that_decides_the_precision():
    """1 % of Mercury's mass moves a body by about 1e-7 au in 600 days, which needs float64 and a fine step."""
    path = locate("solar_system/planets_1970_2040_20d.h5")
    gm = read_arrays(path, {"gm": "gm"})["gm"]
    data = read_observations(path, {"position": "position", "velocity": "velocity"}, stop=600.0)
    y0 = Gravity(gm=gm).init_from_data(data)

    def end(gm, dt):
        return pdefit.solve(Gravity(gm=gm), y0, np.array([600.0]), solver=diffrax.Dopri8(), dt=dt, t0=0.0).position[-1]

    heavier = gm * np.where(np.arange(9) == 1, 1.01, 1.0)
    others = np.delete(np.linalg.norm(np.asarray(end(heavier, 2.0) - end(gm, 2.0)), axis=1), 1)
    assert 3e-8 < others.max() < 1e-6
    assert np.max(np.abs(end(gm, 2.5) - end(gm, 0.5))) < 1e-7


def test_states_come_from_data_or_not_at_all():
    data = pdefit.Observations.build([0.0, 1.0], {"position": np.ones((2, 3, 2))})
    with pytest.raises(pdefit.PdefitError, match="three whole frames"):
        Gravity(gm=np.ones(3)).init_from_data(data)
    with pytest.raises(pdefit.PdefitError, match="lack position"):
        Gravity(gm=np.ones(3)).init_from_data(pdefit.Observations.build([0.0], {"velocity": np.ones((1, 3, 2))}))
    with pytest.raises(ValueError, match="no initial state"):
        Gravity(gm=np.ones(3)).init(None)
    with pytest.raises(ValueError, match="a name for each"):
        Gravity(gm=np.ones(3), names=("a",))
    hole = np.ones((2, 3, 2))
    hole[0, 1] = np.nan
    with pytest.raises(pdefit.PdefitError, match="position is missing in frame 0"):
        Gravity(gm=np.ones(3)).init_from_data(
            pdefit.Observations.build([0.0, 1.0], {"position": hole, "velocity": np.ones((2, 3, 2))})
        )
    both = pdefit.Observations.build([0.0, 1.0], {n: np.ones((2, 3, 2)) for n in State._fields})
    assert Gravity(gm=np.ones(3)).init_from_data(both).velocity.shape == (3, 2)


@pytest.mark.parametrize("index", [0, 1, 300, -1])
def test_velocities_come_from_positions_where_differences_fail(index):
    """20 days are a quarter of Mercury's year; wrong masses must not matter, since they are unknown."""
    path = locate("solar_system/planets_1970_2040_20d.h5")
    data = read_observations(path, {"position": "position", "velocity": "velocity"}, stop=14610.0)
    index %= data.ts.size
    truth = np.asarray(data.values["velocity"][index])
    found = Gravity(gm=np.ones(9)).init_from_data(data.select(("position",)), index)
    np.testing.assert_array_equal(found.position, data.values["position"][index])
    error = np.linalg.norm(found.velocity - truth, axis=1) / np.linalg.norm(truth, axis=1)
    # the Sun's own velocity is a millionth of a planet's
    assert error[0] < 2e-3 and np.all(error[1:] < 5e-5), error
    assert index in (0, data.ts.size - 1) or np.all(error[1:] < 3e-6)


def test_a_body_without_an_orbit_moves_on_a_parabola():
    """A uniform motion has no curvature, so no ellipse goes through it; the remaining bodies keep their ellipses."""
    system, y0 = _ellipse()
    ts = 0.1 * np.arange(5.0)
    exact = pdefit.solve(system, y0, ts[1:], solver=diffrax.Dopri8(), dt=1e-2, t0=0.0)
    seen = np.concatenate([y0.position[None], exact.position])
    straight = seen[:, :1] + np.array([2.0, 1.0]) + ts[:, None, None] * np.array([1.0, 2.0])
    data = pdefit.Observations.build(ts, {"position": np.concatenate([seen, straight], axis=1)})
    found = Gravity(gm=np.ones(3)).init_from_data(data, 2)
    np.testing.assert_allclose(found.velocity[2] - found.velocity[0], [1.0, 2.0], atol=1e-10)
    np.testing.assert_allclose(
        found.velocity[1] - found.velocity[0], exact.velocity[1, 1] - exact.velocity[1, 0], atol=1e-4
    )
