"""Windows cut from a larger flow: an exact flow through the rim, rims from data, and their gradients."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_flow import MeasuredRim, NavierStokes
from pdefit_flow.operators import divergence
from pdefit_flow.projection import project
from pdefit_flow.rim import harmonic

import pdefit
from pdefit.boundaries import Dirichlet, Periodic

NU = 0.05
TIMES = np.linspace(0.0, 1.0, 11)


def vortices(t, x, y):
    """Decaying Taylor-Green vortices in a uniform flow."""
    decay = np.exp(-2 * NU * t)
    u = 0.7 + decay * np.sin(x - 0.7 * t) * np.cos(y - 0.3 * t)
    return u, 0.3 - decay * np.cos(x - 0.7 * t) * np.sin(y - 0.3 * t)


def window(n, **arguments):
    grid = pdefit.CartesianGrid((n, n), (2.0, 1.6), (0.4, 0.2), boundary=Dirichlet())
    return NavierStokes(grid, **{"viscosity": NU, "rim": MeasuredRim(), **arguments})


def vectors(system, noise=0.0, ts=TIMES):
    """The record of a raster of vectors at the corners of cells, including the rim."""
    grid = system.grid
    x, y = (c + h * np.arange(n + 1) for c, h, n in zip(grid.corner, grid.spacing, grid.shape, strict=True))
    u, v = np.moveaxis([vortices(t, *np.meshgrid(x, y, indexing="ij")) for t in ts], 1, 0)
    rough = noise * np.random.default_rng(0).normal(size=(2, *u.shape))
    return pdefit.Observations.build(ts, {"u": u + rough[0], "v": v + rough[1]}, noise or 1e-9)


def on_faces(system, t):
    parts = [np.meshgrid(*system.positions(i), indexing="ij") for i in range(2)]
    return system.background()._replace(
        u=jnp.asarray(vortices(t, *parts[0])[0]), v=jnp.asarray(vortices(t, *parts[1])[1])
    )


@eqx.filter_jit
def projected(system, y):
    return system.project(y)


@eqx.filter_jit
def edges_and_rates(system, t):
    return system.rim.edges(system.grid, t), system.rim.edge_rates(system.grid, t)


@eqx.filter_jit
def largest_divergence(system, y):
    return jnp.max(jnp.abs(divergence(system.grid, y, system.rim.edges(system.grid, 1.0))))


def driven(system, record, frames=None):
    return system.driven_by(record, np.arange(record.ts.size) if frames is None else np.asarray(frames))


def test_vortices_cross_the_rim_with_the_second_order():
    errors = []
    for n in (12, 24):
        system = driven(window(n), vectors(window(n)))[0]
        y0, dt = projected(system, on_faces(system, 0.0)), 0.5 / n
        y = pdefit.solve(system, y0, TIMES[1:], solver=pdefit.solvers.RK4(), dt=dt, t0=0.0)
        end, exact = jax.tree.map(lambda x: np.asarray(x)[-1], y), on_faces(system, 1.0)
        errors.append([np.max(np.abs(a - np.asarray(b))) for a, b in zip(end, exact, strict=True)])
        # the rim is a cubic polynomial between frames, which RK4 follows exactly
        assert largest_divergence(system, end) < 1e-12
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 2.0, atol=0.3)


def test_a_layer_without_pressure_spreads_as_the_exact_flow():
    """The flow x / (1 + t), whose acceleration is pure advection. It is linear in x, so that the scheme is exact."""
    system = window(6, compressible=True)
    grid = system.grid
    places = [c + h * np.arange(7) for c, h in zip(grid.corner, grid.spacing, strict=True)]
    x, y = np.meshgrid(*places, indexing="ij")
    ts = np.linspace(0.0, 0.2, 21)
    flow = {"u": np.stack([x / (1 + t) for t in ts]), "v": np.stack([y / (1 + t) for t in ts])}
    system = driven(system, pdefit.Observations.build(ts, flow, 1e-9))[0]
    start = system.background()._replace(
        u=jnp.asarray(np.meshgrid(*system.positions(0), indexing="ij")[0]),
        v=jnp.asarray(np.meshgrid(*system.positions(1), indexing="ij")[1]),
    )
    assert system.project(start) is start and system.derived_coords() == {}
    end = pdefit.solve(system, start, ts[-1:], solver=pdefit.solvers.RK4(), dt=0.01, t0=0.0)
    for found, begun in zip(end, start, strict=True):
        # the rim is interpolated between times
        np.testing.assert_allclose(np.asarray(found)[-1], np.asarray(begun) / 1.2, rtol=2e-7)


def test_what_flows_in_flows_out():
    system = driven(window(8), vectors(window(8), noise=0.1))[0]
    for edges in edges_and_rates(system, jnp.asarray(0.33)):
        (left, right), (bottom, top) = jax.tree.map(np.asarray, edges.through)
        hx, hy = system.grid.spacing
        assert abs(hy * np.sum(right - left) + hx * np.sum(top - bottom)) < 1e-13


def spoil(x):
    x[[4, 10]] = 1e6
    return jnp.asarray(x)


def test_a_rim_reads_no_frame_that_is_kept_out():
    system, record = window(8), vectors(window(8))
    spoiled = dataclasses.replace(record, values={n: spoil(np.array(x)) for n, x in record.values.items()})
    kept, _, _ = driven(system, record, [0, 1, 2, 3, 5, 6, 7, 8, 9])
    again, rest, remarks = driven(system, spoiled, [0, 1, 2, 3, 5, 6, 7, 8, 9])
    np.testing.assert_array_equal(kept.rim.u.values, again.rim.u.values)
    assert remarks == ()
    # the vectors on the rim count no second time
    u, v = np.asarray(rest.mask["u"]), np.asarray(rest.mask["v"])
    assert not np.any(u[:, 0]) and not np.any(v[:, :, -1]) and np.all(u[:, 1:-1, 1:-1])


def test_a_rim_goes_on_after_its_last_frame():
    record = vectors(window(8))
    hold, linear = (driven(window(8, rim=MeasuredRim(ahead)), record)[0].rim for ahead in ("hold", "linear"))
    grid = window(8).grid
    left = eqx.filter_jit(lambda rim, t: rim.edges(grid, t).through[0][0])
    last, before = (np.asarray(left(hold, jnp.asarray(t))) for t in (1.0, 0.9))
    np.testing.assert_allclose(left(hold, jnp.asarray(1.05)), last, atol=1e-12)
    np.testing.assert_allclose(left(linear, jnp.asarray(1.05)), last + (last - before) / 2, atol=1e-12)


def test_a_steady_rim_is_the_mean_of_its_frames():
    record = vectors(window(8), noise=0.1)
    sigma = {n: jnp.full(x.shape, 0.1).at[2].set(0.5) for n, x in record.values.items()}
    steady = driven(window(8, rim=MeasuredRim(steady=True)), dataclasses.replace(record, sigma=sigma))[0]
    early, late = (edges_and_rates(steady, jnp.asarray(t)) for t in (0.03, 1.4))
    jax.tree.map(np.testing.assert_array_equal, early[0], late[0])
    assert all(not np.any(rate) for rate in jax.tree.leaves(early[1]))
    # at corners of cells there are vectors: their mean, weighted by their noise
    weights = np.where(np.arange(TIMES.size) == 2, 0.04, 1.0)
    expected = np.average(np.asarray(record.values["u"])[:, 1:-1, 0], axis=0, weights=weights)
    np.testing.assert_allclose(early[0].corners[1][0][:, 0], expected, rtol=1e-12)


def test_missing_vectors_are_filled_and_weigh_little():
    system, record = window(8), vectors(window(8), noise=0.01)
    holes = {n: m.at[3, 0, 2:5].set(False) for n, m in record.mask.items()}
    rim = driven(system, dataclasses.replace(record, mask=holes))[0].rim
    whole = driven(system, record)[0].rim
    changed = np.flatnonzero(np.any(np.asarray(rim.u.values != whole.u.values), axis=0))
    # the left side is the last of four, and runs downward
    np.testing.assert_array_equal(changed, [28, 29, 30])
    assert np.all(np.abs(rim.u.values - whole.u.values) < 0.25) and np.all(rim.u.measured.sigma[3, changed] > 0.3)
    unread, _, remarks = driven(window(8, rim=MeasuredRim(read=False)), record)
    assert np.all(unread.rim.u.measured.sigma > 0.2) and remarks[0].startswith("704 of 704 components on the rim")


def test_a_harmonic_function_is_filled_exactly():
    x, y = np.meshgrid(np.arange(7.0), np.arange(6.0), indexing="ij")
    exact, mask = x * y - 2 * x + 1, np.ones((7, 6), bool)
    mask[2:5, 1:4] = False
    np.testing.assert_allclose(harmonic(np.where(mask, exact, 0), mask), exact, atol=1e-12)


def test_the_gradient_along_the_rim_is_that_of_differences():
    system, record, _ = driven(window(6), vectors(window(6), noise=0.02, ts=TIMES[:3]))
    rim = {name: {"values": pdefit.Control(prior=pdefit.priors.Measured())} for name in "uv"}
    problem = pdefit.Problem(system, projected(system, on_faces(system, 0.0)), pdefit.instruments.Corners())
    controls = {"viscosity": pdefit.transforms.Log(), "rim": rim}
    objective = pdefit.Functional(problem, record, controls, solver=pdefit.solvers.RK4(), dt=0.05)
    way = jnp.asarray(np.random.default_rng(1).normal(size=objective.theta0.size))
    h, value = 1e-4, eqx.filter_jit(lambda f, x: f.value(x))
    slope = float(eqx.filter_jit(lambda f, x: f.watched_gradient(x)[1])(objective, objective.theta0) @ way)
    ends = [float(value(objective, objective.theta0 + step * way)) for step in (-h, h)]
    assert slope == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-6)


def test_what_a_rim_cannot_be():
    record, system = vectors(window(8)), window(8)
    with pytest.raises(ValueError, match="with a rim expects a grid with boundary dirichlet"):
        NavierStokes(pdefit.CartesianGrid((8, 8), (1.0, 1.0), boundary=Periodic()), 0.1, rim=MeasuredRim())
    with pytest.raises(pdefit.PdefitError, match="expects data, of which it takes the outermost vectors"):
        system.project(system.background())
    with pytest.raises(pdefit.PdefitError, match="expects u and v on one raster"):
        driven(system, record.select(("u",)))
    with pytest.raises(pdefit.PdefitError, match="two frames or more"):
        driven(system, record, [0])
    with pytest.raises(pdefit.PdefitError, match="ahead as one of hold, linear"):
        driven(window(8, rim=MeasuredRim("on")), record)


@eqx.filter_jit
def diagnostics(system, start):
    y = system.with_velocity(start, project(system.grid, start, edges=system.edges(0.5)))
    return system.diagnostics(0.5, y)


def test_diagnostics_of_a_window_know_its_rim():
    """Averages of the exact flow in the window, to second order; treating the rim as walls would change them."""
    found = {}
    for n in (12, 24):
        system = driven(window(n), vectors(window(n)))[0]
        start = on_faces(system, 0.5)
        found[n] = diagnostics(system, start)
        assert float(found[n]["divergence"]) < 1e-12
    x, y = (np.linspace(low, high, 401) for low, high in ((0.4, 2.4), (0.2, 1.8)))
    x, y = x[:, None] - 0.35, y[None] - 0.15
    decay, (u, v) = np.exp(-2 * NU * 0.5), vortices(0.5, x + 0.35, y + 0.15)
    slope = 2 * decay**2 * (np.cos(x) ** 2 * np.cos(y) ** 2 + np.sin(x) ** 2 * np.sin(y) ** 2)
    spin = (2 * decay * np.sin(x) * np.sin(y)) ** 2 / 2
    exact = {"energy_kinetic": (u**2 + v**2) / 2, "kinetic_dissipation": NU * slope, "enstrophy": spin}
    for name, values in exact.items():
        mean = np.mean((values[1:, 1:] + values[:-1, 1:] + values[1:, :-1] + values[:-1, :-1]) / 4)
        off = [abs(float(found[n][name]) - mean) / mean for n in (12, 24)]
        # vorticity lies at the corners inside the rim
        assert off[1] < 0.6 * off[0] and off[1] < (0.04 if name == "enstrophy" else 0.02), (name, off)


def test_a_forecast_from_the_last_time_of_the_rim_keeps_no_divergence():
    system = driven(window(4), vectors(window(4)))[0]
    around = system.rim.edges(system.grid, 1.0)
    last = system.with_velocity(on_faces(system, 1.0), project(system.grid, on_faces(system, 1.0)[:2], edges=around))
    end = pdefit.solve(system, last, np.array([1.01]), solver=pdefit.solvers.RK4(), dt=0.01, t0=1.0)
    # the rim holds its last vectors
    assert largest_divergence(system, last) < 1e-12
    assert largest_divergence(system, jax.tree.map(lambda x: x[-1], end)) < 1e-12
