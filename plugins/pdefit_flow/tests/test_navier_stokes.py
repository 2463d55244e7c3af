"""Known solutions of the Navier-Stokes equations: vortices, shear between walls, balances with a force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_flow import KolmogorovForce, NavierStokes, SpinUp

import pdefit
from pdefit.boundaries import Dirichlet, Ends, Neumann, NoFlux, Periodic


def flow(n, boundary, length=1.0, **arguments):
    grid = pdefit.CartesianGrid((n, n), (length, length), boundary=boundary)
    return NavierStokes(grid, **{"viscosity": 0.1, **arguments})


def rate(system, y):
    return system.vector_field(jnp.zeros(()), y, None)


def on_faces(system, u, v):
    """The state of two functions of the coordinates."""
    parts = [np.meshgrid(*system.positions(i), indexing="ij") for i in range(2)]
    return system.background()._replace(u=jnp.asarray(u(*parts[0])), v=jnp.asarray(v(*parts[1])))


def test_moving_vortices_decay_with_the_second_order():
    """The vortices of Taylor and Green, carried by a uniform flow."""
    errors = []
    for n in (16, 32):
        system = flow(n, Periodic(), 2 * np.pi)

        def exact(t, system=system):
            decay = np.exp(-2 * 0.1 * t)
            return on_faces(
                system,
                lambda x, y: 1.0 + decay * np.sin(x - t) * np.cos(y - t),
                lambda x, y: 1.0 - decay * np.cos(x - t) * np.sin(y - t),
            )

        step = 1.1 * system.stable_step(exact(0.0))
        found = pdefit.solve(system, exact(0.0), np.array([0.5]), solver=pdefit.solvers.RK4(), dt=step, t0=0.0)
        end = exact(0.5)
        errors.append([float(jnp.max(jnp.abs(a[-1] - b))) for a, b in zip(found, end, strict=True)])
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 2.0, atol=0.1)


def test_a_wall_that_moves_drags_a_linear_profile():
    system = flow(8, (Periodic(), Ends(Dirichlet(0.0), Dirichlet(2.0))))
    y = on_faces(system, lambda x, y: 2 * y, lambda x, y: 0 * x)
    assert max(float(jnp.max(jnp.abs(x))) for x in rate(system, y)) < 1e-12
    # from rest the step allows for the speed of the wall
    assert system.stable_step(system.background()) < flow(8, (Periodic(), Dirichlet())).stable_step(system.background())


def test_shear_decays_at_the_rate_of_its_walls():
    n, h = 8, 1 / 8
    slip = flow(n, (Periodic(), NoFlux()), drag=0.5)
    y = on_faces(slip, lambda x, y: np.cos(np.pi * y), lambda x, y: 0 * x)
    expected = -(0.1 * (2 - 2 * np.cos(np.pi * h)) / h**2 + 0.5) * y.u
    np.testing.assert_allclose(rate(slip, y).u, expected, atol=1e-12)
    stick = flow(n, (Periodic(), Dirichlet()))
    y = on_faces(stick, lambda x, y: np.sin(np.pi * y), lambda x, y: 0 * x)
    np.testing.assert_allclose(rate(stick, y).u, -0.1 * (2 - 2 * np.cos(np.pi * h)) / h**2 * y.u, atol=1e-12)


def test_laminar_flow_balances_the_kolmogorov_force():
    force = KolmogorovForce(2.0, 2, 1.0)
    system = flow(16, Periodic(), force=force, drag=0.3)
    decay = 0.1 * (2 - 2 * np.cos(4 * np.pi / 16)) * 16**2 + 0.3
    y = on_faces(system, lambda x, y: 2 / decay * np.sin(4 * np.pi * y), lambda x, y: 0 * x)
    assert max(float(jnp.max(jnp.abs(x))) for x in rate(system, y)) < 1e-12
    say = system.diagnostics(y)
    np.testing.assert_allclose(say["kinetic_production"], say["kinetic_dissipation"] + say["kinetic_drag"])
    # the slope of a sine between the corners of cells
    slope = 2 / decay * 2 * 16 * np.sin(2 * np.pi / 16)
    np.testing.assert_allclose(say["enstrophy"], slope**2 / 4)


def test_the_gradient_part_of_a_force_is_pressure():
    def push(t, points):
        x, y = (jnp.asarray(p) for p in points)
        column, row = jnp.sin(2 * np.pi * x)[:, None], jnp.cos(2 * np.pi * y)[None]
        return jnp.stack([column + 0 * row, 0 * column + row], -1)

    class Gradient(KolmogorovForce):
        def __call__(self, t, points):
            return push(t, points)

    system = flow(8, Periodic(), force=Gradient(1.0, 1))
    assert max(float(jnp.max(jnp.abs(x))) for x in rate(system, system.background())) < 1e-14


def test_budgets_close_with_walls_and_a_scalar():
    system = flow(9, (Dirichlet(), NoFlux()), scalar=True, force=KolmogorovForce(1.0, 1, 1.0), drag=0.2)
    y = system.init(jax.random.key(1))
    found, say = rate(system, y), system.diagnostics(y)
    gained = system.mean(y.u * found.u) + system.mean(y.v * found.v)
    lost = say["kinetic_dissipation"] + say["kinetic_drag"]
    np.testing.assert_allclose(gained, say["kinetic_production"] - lost, atol=1e-12)
    # nothing of the scalar passes a wall
    np.testing.assert_allclose(jnp.sum(found.c), 0, atol=1e-11)
    assert float(say["energy_kinetic"]) == pytest.approx(0.5)


def test_the_force_can_be_inferred_and_the_flow_spins_up():
    system = flow(8, Periodic(), 2 * np.pi, force=KolmogorovForce(1.0, 1))
    slope = jax.grad(lambda a: jnp.sum(rate(_forced(system, a), system.background()).u ** 2))(jnp.asarray(1.0))
    np.testing.assert_allclose(slope, 64.0, rtol=1e-12)
    y = pdefit.prepare(SpinUp(1.0, 2), system, jax.random.key(0))
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in y)


def _forced(system, amplitude):
    return NavierStokes(system.grid, system.viscosity, force=KolmogorovForce(amplitude, 1))


def test_walls_that_do_not_fit_are_refused():
    for boundary in (Neumann(1.0), (Periodic(), Dirichlet("lid")), (Ends(NoFlux(), Neumann(1.0)), Periodic())):
        with pytest.raises(ValueError, match="each axis periodic, dirichlet"):
            flow(4, boundary)
    with pytest.raises(ValueError, match="two axes"):
        NavierStokes(pdefit.CartesianGrid((4,), (1.0,)), 0.1)
