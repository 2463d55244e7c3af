"""Blocks, and parameters that are fields, in every model of heart tissue."""

import dataclasses
import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_cardiac import ALIEV_PANFILOV, BOCF, EPI, TUTORIAL, AlievPanfilov, Ellipses, Patches, Stimulus
from pdefit_cardiac.tissue import spread

import pdefit
from pdefit.cli.config._reader import make

MODELS = {"bocf": (BOCF, TUTORIAL), "aliev_panfilov": (AlievPanfilov, ALIEV_PANFILOV)}
HOLE = Patches(1.0, [[[0.8, 1.2], [0.5, 1.9]]], 0.0)
WALL = Patches(1.0, [[[1.2, 1.3], [-1.0, 9.0]]], 0.0)


def square(n=48, extent=2.4, boundary=pdefit.boundaries.NoFlux()):  # noqa: B008
    return pdefit.CartesianGrid(shape=(n, n), extent=(extent, extent), boundary=boundary, length_unit="cm")


def built(name, grid, **changes):
    model, numbers = MODELS[name]
    return model(grid, **{**numbers, **changes})


@eqx.filter_jit
def rates(system, t, y, args=None):
    return system.vector_field(t, y, args)


@pytest.mark.parametrize("name", MODELS)
def test_nothing_happens_in_a_block(name):
    system = built(name, square(), tissue=HOLE)
    block = np.asarray(system.tissue) == 0
    assert block.sum() == 8 * 28
    y = jax.tree.map(lambda x: x + jax.random.uniform(jax.random.key(1), x.shape), system.init(None))
    current = Stimulus(times=[0.0], duration=1.0, strength=0.4)
    for rate in rates(system, 0.5, y, current):
        np.testing.assert_array_equal(np.asarray(rate)[block], 0.0)
    # nor do neighbours see what stands in it
    other = jax.tree.map(lambda x: jnp.where(system.tissue > 0, x, 7.0), y)
    for a, b in zip(rates(system, 0.5, y), rates(system, 0.5, other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_tissue_that_ends_at_a_mask_keeps_its_integral():
    """Diffusion with a variable diffusivity loses nothing through the border of a mask."""
    grid = square(24)
    mask = Ellipses(0.0, [[1.2, 1.2]], [[0.9, 0.7]], 1.0)
    system = built("aliev_panfilov", grid, tissue=mask, D=Ellipses(1e-3, [[1.2, 1.2]], [[0.4, 0.4]], 1e-4))
    inside = np.asarray(system.tissue) > 0
    assert 0.3 < inside.mean() < 0.4
    u = np.random.default_rng(0).uniform(size=grid.shape)
    out = np.asarray(eqx.filter_jit(spread)(system, system.D, u))
    np.testing.assert_array_equal(out[~inside], 0.0)
    assert abs(out[inside].sum()) < 1e-12 * np.abs(out).sum()


@pytest.mark.parametrize("name", MODELS)
def test_blocks_start_at_rest(name):
    system = built(name, square(), tissue=HOLE)
    block = np.asarray(system.tissue) == 0
    for x, resting in zip(system.init(None), system.rest(), strict=True):
        np.testing.assert_array_equal(np.asarray(x)[block], np.asarray(resting)[block])


@pytest.mark.parametrize("name", MODELS)
def test_tissue_everywhere_changes_nothing(name):
    grid = square(16)
    y = built(name, grid).init(None)
    for D in (1e-3, np.linspace(1e-3, 2e-3, 256).reshape(16, 16)):
        free, masked = (built(name, grid, D=D, tissue=mask) for mask in (None, np.ones(grid.shape)))
        for a, b in zip(rates(free, 0.0, y), rates(masked, 0.0, y), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@functools.cache
def voltage(tissue, boundary):
    """u of epicardium every millisecond; a wave starts at the lower end of the first axis."""
    system = BOCF(square(boundary=boundary), **EPI, tissue={"free": None, "hole": HOLE, "wall": WALL}[tissue])
    y0 = system.rest()
    y0 = y0._replace(u=y0.u.at[:4].set(1.0))
    return np.asarray(pdefit.solve(system, y0, np.arange(61.0), solver=diffrax.Euler(), dt=0.05, t0=0.0).u)


def arrival(u, i, j):
    passed = u[:, i, j] > 0.5
    return int(np.argmax(passed)) if passed.any() else None


def test_a_wave_goes_round_a_block_and_not_into_it():
    free, hole = voltage("free", pdefit.boundaries.NoFlux()), voltage("hole", pdefit.boundaries.NoFlux())
    np.testing.assert_array_equal(hole[:, 16:24, 10:38], 0.0)
    # in front and beside it nothing changes, behind it the wave comes late
    assert arrival(hole, 12, 24) == arrival(free, 12, 24)
    assert abs(arrival(hole, 20, 2) - arrival(free, 20, 2)) <= 1
    assert arrival(hole, 25, 24) > arrival(free, 25, 24) + 8
    assert arrival(hole, 25, 9) < arrival(hole, 25, 24)
    np.testing.assert_allclose(hole, hole[:, :, ::-1], atol=1e-9)


def test_a_wall_stops_a_wave_unless_the_tissue_is_a_ring():
    assert arrival(voltage("wall", pdefit.boundaries.NoFlux()), 46, 24) is None
    ring = voltage("wall", pdefit.boundaries.Periodic())
    assert arrival(ring, 46, 24) < 10
    assert arrival(ring, 26, 24) < 60
    np.testing.assert_array_equal(ring[:, 24:26], 0.0)


def test_half_a_cell_of_tissue_conducts():
    patches = Patches(1.0, [[[0.5, 2.0]]], 0.0)
    for cells, expected in ((2, [1, 0]), (4, [1, 0, 0, 0]), (3, [1, 0, 0])):
        grid = pdefit.CartesianGrid(shape=(cells,), extent=(2.0,))
        np.testing.assert_array_equal(built("bocf", grid, tissue=patches).tissue, expected)


FIELDS = {
    "bocf": ("D", "tau_fi", "theta_v", "theta_v_minus", "u_u", "tau_so1", "k_s", "w_inf_star"),
    "aliev_panfilov": ("D", "a", "k", "eps0", "time_scale"),
}


@pytest.mark.parametrize("name", MODELS)
def test_parameters_may_be_patches(name):
    grid, (model, numbers) = square(16), MODELS[name]
    patches = {n: Patches(numbers[n], [[[0.0, 1.2], [0.0, 9.0]]], 1.2 * numbers[n]) for n in FIELDS[name]}
    system = model(grid, **{**numbers, **patches})
    assert all(getattr(system, n).shape == grid.shape for n in FIELDS[name])
    rows = pdefit.broadcast_scalars(system, system.init(None).u)
    assert all(getattr(rows, n) is getattr(system, n) for n in FIELDS[name])
    # away from the border, each half is what the numbers of its own make it
    y = system.init(None)
    halves = [model(grid, **{**numbers, **{n: f * numbers[n] for n in FIELDS[name]}}) for f in (1.2, 1.0)]
    for mixed, left, right in zip(*(rates(s, 0.0, y) for s in (system, *halves)), strict=True):
        np.testing.assert_allclose(mixed[:7], left[:7], rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(mixed[9:], right[9:], rtol=1e-11, atol=1e-13)
    steps = [s.stable_step(y) for s in (system, *halves)]
    assert 0.8 * min(steps[1:]) < steps[0] <= max(steps[1:])


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_in_fields_is_right(name):
    grid, (model, numbers) = square(8), MODELS[name]
    truth = model(
        grid, **{**numbers, **{n: np.full(grid.shape, numbers[n]) for n in ("D", FIELDS[name][1])}}, tissue=HOLE
    )
    y0, ts = truth.init(None), np.linspace(0, 2, 5)
    data = pdefit.simulate(truth, y0, ts, solver=diffrax.Euler(), dt=0.05)
    fields = {n: getattr(truth, n) * (1 + 0.1 * np.cos(np.indices(grid.shape)[0])) for n in ("D", FIELDS[name][1])}
    problem = pdefit.Problem(dataclasses.replace(truth, **fields), y0)
    J = pdefit.Functional(
        problem, data, dict.fromkeys(fields, pdefit.transforms.Log()), solver=diffrax.Euler(), dt=0.05
    )
    direction = np.random.default_rng(0).normal(size=J.theta0.size)
    value, gradient = jax.jit(lambda x: J.value(x)), jax.jit(lambda x: J.value_and_grad(x)[1])(J.theta0)
    h = 1e-5
    slope = (value(J.theta0 + h * direction) - value(J.theta0 - h * direction)) / (2 * h)
    np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-6)
    # what a block holds leaves no trace
    inside = np.tile(np.asarray(truth.tissue).ravel() == 0, 2)
    np.testing.assert_array_equal(np.asarray(gradient)[inside], 0.0)
    assert np.count_nonzero(gradient) > 0.8 * np.count_nonzero(~inside)


@pytest.mark.parametrize("name", MODELS)
def test_a_field_of_another_shape_is_one_sentence(name):
    for argument in ("D", "tissue"):
        with pytest.raises(
            ValueError, match=rf"{argument} has shape \(3, 4\), but the grid has \(16, 16\); .*Patches"
        ) as e:
            built(name, square(16), **{argument: np.ones((3, 4))})
        assert "\n" not in str(e.value)
    with pytest.raises(ValueError, match=r"tissue has shape \(\)"):
        built(name, square(16), tissue=1.0)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_built_from_a_configuration(name):
    model, numbers = MODELS[name]
    patches = {
        "name": "cardiac/patches",
        "background": 1.0,
        "boxes": [[[0.8, 1.2], [0.5, 1.9]]],
        "values": 0.0,
    }
    grid = {"shape": [48, 48], "extent": [2.4, 2.4]}
    node = {"name": f"cardiac/{name}", "grid": grid, **numbers, "tissue": patches}
    system = make(node, "system", model)
    assert system.tissue.sum() == 48**2 - 8 * 28
    assert make(node | {"D": patches}, "system", model).D.shape == (48, 48)
    refined = make(node | {"grid": grid | {"shape": [96, 96]}}, "system", model)
    np.testing.assert_array_equal(refined.grid.coarsen(refined.tissue, 2), system.tissue)
    with pytest.raises(pdefit.PdefitError, match="boxes have 1 axes, but the grid has 2; a box is"):
        make(node | {"tissue": patches | {"boxes": [[[0.8, 1.2]]]}}, "system", model)
    with pytest.raises(pdefit.PdefitError, match="tissue has shape"):
        make(node | {"tissue": [[1, 0], [1, 1]]}, "system", model)


@pytest.mark.parametrize("name", MODELS)
def test_single_precision_stays_single(name):
    system = built(name, square(16), tissue=HOLE, D=Patches(1e-3, [[[0.0, 1.2], [0.0, 9.0]]], 2e-3))
    single = jax.tree.map(lambda x: x.astype("float32"), system)
    for y in (single.init(None), single.rest()):
        assert all(x.dtype == "float32" for x in rates(single, jnp.float32(0.0), y))
    assert eqx.tree_equal(single.tissue, dataclasses.replace(single, D=single.D).tissue)
