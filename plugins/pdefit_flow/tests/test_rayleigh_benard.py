"""Invariants of the right-hand side of convection, its onset, order, budgets, and states from data."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_flow import RayleighBenard, SpinUp
from pdefit_flow.onset import critical_rayleigh
from pdefit_flow.operators import divergence

import pdefit
from pdefit.boundaries import Dirichlet, NoFlux, Periodic

PLATES = (Periodic(), Dirichlet())
RNG = np.random.default_rng(0)


def box(n=12, rayleigh=1e5, prandtl=0.7, length=2.0, units="diffusive"):
    grid = pdefit.CartesianGrid((n, n), (length, 1.0), boundary=PLATES)
    return RayleighBenard(grid, rayleigh, prandtl, units)


def random_state(system):
    y = jax.tree.map(lambda x: jnp.asarray(RNG.normal(size=x.shape)), system.background())
    return projected(system, y)


@eqx.filter_jit
def projected(system, y):
    return system.project(y)


@eqx.filter_jit
def drawn(system):
    return system.init(jax.random.key(0))


@eqx.filter_jit
def diagnostics(system, y):
    return system.diagnostics(0.0, y)


@eqx.filter_jit
def rate(system, y):
    return system.vector_field(jnp.zeros(()), y, None)


def gap(a, b):
    return max(np.max(np.abs(np.subtract(x, y))) for x, y in zip(a, b, strict=True))


@eqx.filter_jit
def no_divergence(system, y):
    return jnp.max(jnp.abs(divergence(system.grid, system.velocity(y))))


def test_conduction_decays_at_the_rate_of_the_discrete_laplacian():
    system = box()
    z, dz = system.grid.mesh()[1], system.grid.spacing[1]
    y = system.background()._replace(T=jnp.asarray(np.sin(np.pi * np.asarray(z))))
    found = rate(system, y)
    np.testing.assert_allclose(found.T, -(2 - 2 * np.cos(np.pi * dz)) / dz**2 * np.asarray(y.T), atol=1e-11)
    # any profile of the temperature is in hydrostatic balance
    layered = y._replace(T=jnp.asarray(np.broadcast_to(RNG.normal(size=12), (12, 12))))
    still = rate(system, layered)
    assert np.max(np.abs(still.u)) < 1e-10
    # beside a buoyancy of Ra Pr = 7e4
    assert np.max(np.abs(still.w)) < 1e-9


def test_mirrors_and_shifts_commute_with_the_rate():
    system = box()
    y = random_state(system)

    @jax.jit
    def mirrored(s):
        return type(s)(-s.T[:, ::-1], s.u[:, ::-1], -s.w[:, ::-1])

    @jax.jit
    def shifted(s):
        return jax.tree.map(lambda x: jnp.roll(x, 5, 0), s)

    for change in (mirrored, shifted):
        found = rate(system, change(y))
        assert no_divergence(system, found) < 1e-7
        assert gap(found, change(rate(system, y))) < 1e-9


@eqx.filter_jit
def work(system, y, rates):
    """Mean contributions of the rates to the kinetic and the thermal energy."""
    return system.mean(y.u * rates.u) + system.mean(y.w * rates.w), system.mean(y.T * rates.T)


@pytest.mark.parametrize("units", ["diffusive", "free_fall"])
def test_rates_close_the_budgets_of_the_diagnostics(units):
    system = box(units=units)
    y = random_state(system)
    found, say = rate(system, y), diagnostics(system, y)
    kinetic, thermal = work(system, y, found)
    scale = float(say["kinetic_dissipation"])
    np.testing.assert_allclose(kinetic, say["kinetic_production"] - say["kinetic_dissipation"], atol=1e-12 * scale)
    np.testing.assert_allclose(
        thermal, say["thermal_production"] - say["thermal_dissipation"], atol=1e-12 * float(say["thermal_dissipation"])
    )
    assert say["divergence"] < 1e-12
    np.testing.assert_allclose(2 * float(say["energy_kinetic"]), work(system, y, y)[0])


def test_both_units_are_the_same_flow():
    system, falling = box(), box(units="free_fall")
    y, speed = random_state(system), float(np.sqrt(0.7e5))
    slow, fast = rate(system, y._replace(u=speed * y.u, w=speed * y.w)), rate(falling, y)
    np.testing.assert_allclose(slow.T, speed * fast.T, atol=1e-8)
    np.testing.assert_allclose(slow.w, speed**2 * fast.w, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("cells", "critical"), [(8, 1587.97), (12, 1649.69), (16, 1674.03)])
def test_convection_begins_at_the_critical_rayleigh_number(cells, critical):
    np.testing.assert_allclose(critical_rayleigh(box(cells, length=2 * np.pi / 3.117)), critical, atol=5e-3)


def test_the_critical_rayleigh_number_of_a_square_box_converges():
    found = [critical_rayleigh(box(n, 1e4, length=1.0)) for n in (8, 16, 32)]
    extrapolated = [(4 * b - a) / 3 for a, b in zip(found[:-1], found[1:], strict=True)]
    np.testing.assert_allclose((16 * extrapolated[1] - extrapolated[0]) / 15, 3784.34, rtol=1e-4)


def test_solutions_converge_with_the_second_order():
    films = []
    for n in (16, 32, 64):
        system = box(n, 5e3, 0.71)
        x, z = system.grid.mesh()
        y0 = system.background()._replace(
            T=jnp.asarray(0.2 * np.sin(np.pi * np.asarray(z)) * np.cos(np.pi * np.asarray(x)))
        )
        step = 1.1 * system.stable_step(y0)
        y = pdefit.solve(system, y0, np.array([0.02]), solver=pdefit.solvers.RK4(), dt=step, t0=0.0)
        films.append(eqx.filter_jit(system.coarsen)(jax.tree.map(lambda v: jnp.asarray(np.asarray(v)[-1]), y), n // 8))
    for a, b, c in zip(*films, strict=True):
        order = np.log2(np.linalg.norm(np.subtract(a, b)) / np.linalg.norm(np.subtract(b, c)))
        assert 1.9 < order < 2.1


@pytest.mark.parametrize("factor", [2, 1.5])
def test_coarser_cells_keep_means_and_zero_divergence(factor):
    system = box(12)
    coarse = box(round(12 / factor))
    y = random_state(system)
    found = eqx.filter_jit(system.coarsen)(y, factor)
    assert [x.shape for x in found] == [x.shape for x in coarse.background()]
    assert no_divergence(coarse, found) < 1e-12
    np.testing.assert_allclose(np.mean(found.T), np.mean(y.T), atol=1e-14)
    with pytest.raises(ValueError, match="divisible by 5"):
        system.coarsen(y, 5)


def test_coordinates_are_those_of_centres_and_faces():
    found = box(4).coords()
    assert [found[name].dims for name in "Tuw"] == [("x", "z"), ("x_face", "z"), ("x", "z_face")]
    np.testing.assert_allclose(found["u"].coords["x_face"], [0, 0.5, 1, 1.5])
    np.testing.assert_allclose(found["w"].coords["z_face"], [0.25, 0.5, 0.75])
    assert (found["w"].vector, found["w"].component, found["T"].vector) == ("velocity", "z", "")


def test_a_state_from_data_is_a_mixed_fluid_with_a_projected_velocity():
    system = box(12, 1e6)
    y = random_state(system)
    measured = {name: np.stack([np.zeros(x.shape), x]) for name, x in (("u", y.u), ("w", np.asarray(y.w) + 0.1))}
    measured["u"][1, 3, 4] = np.nan
    found = projected(system, system.init_from_data(pdefit.Observations.build([0.0, 1.0], measured), 1))
    assert no_divergence(system, found) < 1e-12
    assert 0 < gap((found.u,), (y.u,)) < 3
    profile = np.asarray(found.T)[0]
    assert gap((found.T,), (np.broadcast_to(profile, (12, 12)),)) == 0
    np.testing.assert_allclose(profile, -profile[::-1], atol=1e-14)
    # isothermal in the middle: the total temperature 1/2 - z + T is 0 there
    np.testing.assert_allclose((profile + 0.5 - system.grid.axis(1))[5:7], 0, atol=2e-2)
    # the thickness of the layers follows the Nusselt number of the scaling
    fine = box(200, 1e6)
    slope = 2 * float(np.asarray(fine.well_mixed())[0]) / fine.grid.spacing[1]
    np.testing.assert_allclose(1 - slope, 0.138 * 1e6**0.285, rtol=0.03)
    assert np.max(np.abs(box(4, 1700.0).well_mixed())) == 0


def test_a_flow_spins_up_from_rest_without_divergence():
    system = box(12, 1e5)
    y = pdefit.prepare(SpinUp(0.1, 2), system, jax.random.key(0))
    assert np.max(np.abs(y.w)) > 5
    # in float32, of slopes of about 1e3
    assert no_divergence(system, y) < 0.05
    assert 1.5 < float(diagnostics(system, y)["nusselt_bottom"]) < 10


def test_what_does_not_fit_is_refused_in_a_sentence():
    grid = box().grid
    for rayleigh, prandtl, name in ((0.0, 1.0, "rayleigh"), (-1.0, 1.0, "rayleigh"), (1e4, 0.0, "prandtl")):
        with pytest.raises(ValueError, match=f"expects {name} above 0"):
            RayleighBenard(grid, rayleigh, prandtl)
    for boundary in (NoFlux(), (Periodic(), NoFlux()), (Periodic(), Dirichlet(1.0)), Periodic()):
        with pytest.raises(ValueError, match="periodic along x and dirichlet"):
            RayleighBenard(dataclasses.replace(grid, boundary=boundary), 1e4, 1.0)
    with pytest.raises(ValueError, match="height 1"):
        RayleighBenard(dataclasses.replace(grid, extent=(1.0, 2.0)), 1e4, 1.0)
    with pytest.raises(ValueError, match="a duration above 0"):
        SpinUp(0.0)


def test_temperature_and_velocity_are_seen_at_the_same_points():
    points = [[0.5, 0.5], [0.1, 1.0]]
    problem = pdefit.Problem(box(8), drawn(box(8)), pdefit.instruments.At(points=points))
    assert {name: x.shape for name, x in eqx.filter_jit(problem.observe)(0.0, problem.y0, None).items()} == {
        "T": (2,),
        "u": (2,),
        "w": (2,),
    }
    # three inner faces are too few for a cubic, but not for a field that needs none
    with pytest.raises(pdefit.PdefitError, match="w has"):
        pdefit.Problem(box(4), drawn(box(4)), pdefit.instruments.At(points=points))
    one = pdefit.Problem(box(4), drawn(box(4)), pdefit.instruments.At(points=points, fields="T"))
    assert eqx.filter_jit(one.observe)(0.0, one.y0, None)["T"].shape == (2,)
