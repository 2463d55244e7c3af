"""The pressure of flows against exact pressures."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_flow import KolmogorovForce, NavierStokes, RayleighBenard
from pdefit_flow.navier_stokes import Flow
from pdefit_flow.rayleigh_benard import State

import pdefit
from pdefit.boundaries import Dirichlet, Periodic


@eqx.filter_jit
def derived(system, y):
    return system.derived(jnp.zeros(()), y)


def vortices(n):
    """The Taylor-Green vortices u = sin x cos y, v = -cos x sin y, and their pressure (cos 2x + cos 2y) / 4."""
    grid = pdefit.CartesianGrid((n, n), (2 * np.pi,) * 2, boundary=Periodic())
    system = NavierStokes(grid, viscosity=jnp.asarray(0.1))
    (xu, yu), (xv, yv), (x, y) = (np.meshgrid(*system.positions(i), indexing="ij") for i in (0, 1, None))
    state = Flow(jnp.asarray(np.sin(xu) * np.cos(yu)), jnp.asarray(-np.cos(xv) * np.sin(yv)))
    return system, state, (np.cos(2 * x) + np.cos(2 * y)) / 4


def test_taylor_green_vortices_have_their_exact_pressure_to_second_order():
    def error(n):
        system, state, exact = vortices(n)
        return float(np.max(np.abs(derived(system, state)["pressure"] - exact)))

    assert 1.95 < np.log2(error(32) / error(64)) < 2.05


def test_a_resting_fluid_bears_its_weight():
    # dp/dz = buoyancy T(z), with p of zero mean
    grid = pdefit.CartesianGrid((4, 32), (1.0, 1.0), boundary=(Periodic(), Dirichlet()))
    for units, buoyancy in (("diffusive", 1e3 * 0.7), ("free_fall", 1.0)):
        system = RayleighBenard(grid, jnp.asarray(1e3), jnp.asarray(0.7), units=units)
        z = np.broadcast_to(grid.axis(1), (4, 32))
        rest = jax.tree.map(
            lambda x: jnp.asarray(np.zeros(x.shape)), eqx.filter_eval_shape(system.init, jax.random.key(0))
        )
        pressure = derived(system, State(jnp.asarray(2 * z - 1), rest.u, rest.w))["pressure"]
        np.testing.assert_allclose(pressure, buoyancy * ((z**2 - z) - np.mean(z**2 - z)), atol=1e-9 * buoyancy)


def test_the_pressure_is_what_the_projection_takes_away():
    system, state, _ = vortices(8)
    grid = dataclasses.replace(system.grid, length_unit="m")
    assert dataclasses.replace(system, grid=grid).derived_coords()["pressure"].unit.startswith("m^2")
    pressure = np.asarray(derived(system, state)["pressure"])
    rates, kept = eqx.filter_jit(lambda system, y: (system.rates(0.0, y), system.vector_field(0.0, y, None)))(
        system, state
    )
    slope = (pressure - np.roll(pressure, 1, 0)) / grid.spacing[0]
    np.testing.assert_allclose(np.asarray(rates[0]) - slope, kept.u, atol=1e-13)


def test_a_force_is_shown_on_the_faces_that_it_moves():
    system, state, _ = vortices(8)
    force = KolmogorovForce(amplitude=jnp.asarray(2.0), wavenumber=1)
    for compressible in (False, True):
        forced = dataclasses.replace(system, force=force, compressible=compressible)
        shown, coords = derived(forced, state), forced.derived_coords()
        assert ("pressure" in coords) is not compressible and shown.keys() == coords.keys()
        np.testing.assert_allclose(
            shown["force_x"], np.tile(2 * np.sin(coords["force_x"].coords["y"]), (8, 1)), atol=1e-15
        )
        assert not np.any(shown["force_y"]) and coords["force_y"].vector == "force"
