"""Known solutions of the Navier-Stokes equations: vortices, shear between walls, balances with a force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from pdefit_flow import KolmogorovForce, NavierStokes, SpinUp

import pdefit
from pdefit.boundaries import Dirichlet, Ends, Neumann, NoFlux, Periodic


def flow(n, boundary, length=1.0, **arguments):
    grid = pdefit.CartesianGrid((n, n), (length, length), boundary=boundary)
    return NavierStokes(grid, **{"viscosity": 0.1, **arguments})


@eqx.filter_jit
def rate(system, y):
    return system.vector_field(jnp.zeros(()), y, None)


@eqx.filter_jit
def diagnostics(system, y):
    return system.diagnostics(0.0, y)


# compiled whole, as the command line does it
drawn = eqx.filter_jit(lambda system, key: system.init(key))


@eqx.filter_jit
def work(system, y, force):
    """The mean work of a force on the velocity."""
    return system.mean(y.u * force.u) + system.mean(y.v * force.v)


def largest(y):
    return max(np.max(np.abs(x)) for x in jax.tree.leaves(y))


def on_faces(system, u, v):
    """A state from two functions of the coordinates."""
    parts = [np.meshgrid(*system.positions(i), indexing="ij") for i in range(2)]
    return system.background()._replace(u=jnp.asarray(u(*parts[0])), v=jnp.asarray(v(*parts[1])))


def test_moving_vortices_decay_with_the_second_order():
    """Taylor-Green vortices in a uniform flow."""
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
        errors.append([largest(np.asarray(a)[-1] - np.asarray(b)) for a, b in zip(found, end, strict=True)])
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 2.0, atol=0.1)


def test_a_wall_that_moves_drags_a_linear_profile():
    system = flow(8, (Periodic(), Ends(Dirichlet(0.0), Dirichlet(2.0))))
    y = on_faces(system, lambda x, y: 2 * y, lambda x, y: 0 * x)
    assert largest(rate(system, y)) < 1e-12
    # from rest the step allows for the speed of the wall
    assert system.stable_step(system.background()) < flow(8, (Periodic(), Dirichlet())).stable_step(system.background())


def test_a_lid_drives_the_vortex_of_the_literature():
    """Extreme velocities on the middle lines of a closed box at Reynolds number 100.

    Reference: O. Botella, R. Peyret (1998), doi:10.1016/S0045-7930(98)00002-4, and C. H. Marchi et al. (2009).
    """

    def peak(line):
        i = int(np.argmax(line))
        below, top, above = line[i - 1 : i + 2]
        return top + (above - below) ** 2 / (8 * (2 * top - below - above))

    found = []
    for n in (16, 32):
        system = flow(n, (Dirichlet(), Ends(Dirichlet(0.0), Dirichlet(1.0))), viscosity=0.01)
        step = 1.2 * system.stable_step(system.background())
        solver, ts = pdefit.solvers.RK4(), np.array([15.0])
        y = pdefit.solve(system, system.background(), ts, solver=solver, dt=step, t0=0.0)
        u, v = np.asarray(y.u)[-1, n // 2 - 1], np.asarray(y.v)[-1, :, n // 2 - 1]
        found.append(np.array([peak(-u), peak(v), peak(-v)]))
    np.testing.assert_allclose((4 * found[1] - found[0]) / 3, [0.214042, 0.179573, 0.253803], rtol=4e-3)


def test_shear_decays_at_the_rate_of_its_walls():
    n, h = 8, 1 / 8
    slip = flow(n, (Periodic(), NoFlux()), drag=0.5)
    y = on_faces(slip, lambda x, y: np.cos(np.pi * y), lambda x, y: 0 * x)
    expected = -(0.1 * (2 - 2 * np.cos(np.pi * h)) / h**2 + 0.5) * np.asarray(y.u)
    np.testing.assert_allclose(rate(slip, y).u, expected, atol=1e-12)
    stick = flow(n, (Periodic(), Dirichlet()))
    y = on_faces(stick, lambda x, y: np.sin(np.pi * y), lambda x, y: 0 * x)
    np.testing.assert_allclose(
        rate(stick, y).u, -0.1 * (2 - 2 * np.cos(np.pi * h)) / h**2 * np.asarray(y.u), atol=1e-12
    )


def test_laminar_flow_balances_the_kolmogorov_force():
    force = KolmogorovForce(2.0, 2, 1.0)
    system = flow(16, Periodic(), force=force, drag=0.3)
    decay = 0.1 * (2 - 2 * np.cos(4 * np.pi / 16)) * 16**2 + 0.3
    y = on_faces(system, lambda x, y: 2 / decay * np.sin(4 * np.pi * y), lambda x, y: 0 * x)
    assert largest(rate(system, y)) < 1e-12
    say = diagnostics(system, y)
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
    assert largest(rate(system, system.background())) < 1e-14


def test_budgets_close_with_walls_and_a_scalar():
    system = flow(9, (Dirichlet(), NoFlux()), scalar=True, force=KolmogorovForce(1.0, 1, 1.0), drag=0.2)
    y = drawn(system, jax.random.key(1))
    found, say = rate(system, y), diagnostics(system, y)
    gained = work(system, y, found)
    lost = say["kinetic_dissipation"] + say["kinetic_drag"]
    np.testing.assert_allclose(gained, say["kinetic_production"] - lost, atol=1e-12)
    # nothing of the scalar passes a wall
    np.testing.assert_allclose(np.sum(found.c), 0, atol=1e-11)
    assert float(say["energy_kinetic"]) == pytest.approx(0.5)


def test_the_work_of_a_moving_wall_is_no_diagnostic():
    system = flow(9, (Periodic(), Dirichlet(1.0)))
    y = drawn(system, jax.random.key(1))
    found, say = rate(system, y), diagnostics(system, y)
    gained = work(system, y, found)
    assert abs(float(gained + say["kinetic_dissipation"])) > 1e-3


def test_no_instrument_observes_the_pressure():
    system = flow(8, Periodic())
    y = drawn(system, jax.random.key(0))
    assert "pressure" in eqx.filter_jit(system.derived)(0.0, y)
    with pytest.raises(pdefit.PdefitError, match="'pressure'"):
        pdefit.instruments.Select("pressure")(0.0, y, None)


def test_a_flow_takes_explicit_steps_only():
    system = flow(8, Periodic())
    y = drawn(system, jax.random.key(0))
    for solver in (pdefit.solvers.IMEX(), pdefit.solvers.ETDRK4()):
        with pytest.raises(pdefit.PdefitError, match="NavierStokes"):
            pdefit.simulate(system, y, np.linspace(0.0, 0.1, 3), dt=0.01, solver=solver)


def test_the_force_can_be_inferred_and_the_flow_spins_up():
    system = flow(8, Periodic(), 2 * np.pi, force=KolmogorovForce(1.0, 1))
    slope = jax.jit(jax.grad(lambda a: jnp.sum(rate(_forced(system, a), system.background()).u ** 2)))(1.0)
    np.testing.assert_allclose(slope, 64.0, rtol=1e-12)
    y = pdefit.prepare(SpinUp(1.0, 2), system, jax.random.key(0))
    assert all(np.all(np.isfinite(x)) for x in y)


def _forced(system, amplitude):
    return NavierStokes(system.grid, system.viscosity, force=KolmogorovForce(amplitude, 1))


@pytest.mark.parametrize("speed", [(0.0, 0.0), (6.0, 0.0), (3.0, 4.0), (60.0, 10.0)])
def test_the_stable_step_is_the_limit_of_rk4_in_a_uniform_flow(speed):
    system = flow(8, Periodic(), viscosity=0.05, drag=0.1)
    y, unravel = ravel_pytree(on_faces(system, *(lambda x, y, s=s: s + 0 * x for s in speed)))
    rates = np.linalg.eigvals(jax.jit(jax.jacfwd(lambda flat: ravel_pytree(rate(system, unravel(flat)))[0]))(y))
    largest = []
    for factor in (1.0, 1.7):
        z = rates * system.stable_step(unravel(y)) * 2.785 / 2 * factor
        largest.append(np.max(np.abs(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24)))
    assert largest[0] < 1 + 1e-9 and largest[1] > 1.05


def test_an_unknown_force_interpolates_between_knots():
    knots = pdefit.Interpolant.zeros((4, 4), (1.0, 1.0), components=(2,), method="linear", periodic=True)
    force = eqx.tree_at(lambda f: f.values, knots, knots.values.at[1, :, 1].set(3.0))
    system = flow(8, Periodic(), force=force)
    # linear along x between knots at multiples of 1/4, at centres of cells of 1/8
    expected = np.asarray([0.75, 2.25, 2.25, 0.75, 0, 0, 0, 0])
    np.testing.assert_allclose(
        rate(system, system.background()).v, np.broadcast_to(expected[:, None], (8, 8)), atol=1e-13
    )
    with pytest.raises(ValueError, match=r"force of shape \(nx, ny, 2\), but \(8, 8\) points give \(8, 8\)"):
        flow(8, Periodic(), force=pdefit.Interpolant.zeros((4, 4), (1.0, 1.0)))


def test_walls_that_do_not_fit_are_refused():
    for boundary in (Neumann(1.0), (Periodic(), Dirichlet("lid")), (Ends(NoFlux(), Neumann(1.0)), Periodic())):
        with pytest.raises(ValueError, match="each axis periodic, dirichlet"):
            flow(4, boundary)
    with pytest.raises(ValueError, match="two axes"):
        NavierStokes(pdefit.CartesianGrid((4,), (1.0,)), 0.1)
