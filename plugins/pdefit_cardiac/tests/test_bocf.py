"""Physics of BOCF: its action potential, its speed, its rest, and gradients on spiral waves."""

import dataclasses
import functools
import json
from pathlib import Path

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pdefit_data
import pytest
from omegaconf import OmegaConf
from pdefit_cardiac import BOCF, EPI, TUTORIAL, Stimulus
from pdefit_cardiac.bocf import State

import pdefit

CONTROLS = ("u_s", "u_so", "k_so", "tau_so1", "tau_si", "k_s", "u_u", "theta_v", "D", "tau_fi")
# the published start; s then relaxes to its target, 0.02
REST = State(u=0.0, v=1.0, w=1.0, s=0.0)
REFERENCE = json.loads((Path(pdefit_data.__file__).parent / "reference" / "bocf_epi_reference.json").read_text())


# the published current
STIMULUS = Stimulus(times=[0.0], duration=1.0, strength=0.4)


def tissue(grid, cell):
    return State(*(jnp.full(grid.shape, x) for x in cell))


@functools.cache
def action_potential(is_smooth):
    """u of a single cell every 0.01 ms."""
    grid = pdefit.CartesianGrid(shape=(2,), extent=(1.0,))
    cell = BOCF(grid, **EPI, is_smooth=is_smooth)
    ts = np.linspace(0, 350, 35001)
    y = pdefit.solve(cell, cell.rest(), ts, solver=pdefit.solvers.RK4(), dt=0.01, t0=0.0, args=STIMULUS)
    return np.asarray(y.u)[:, 0]


def duration(u):
    return 0.01 * np.count_nonzero(u >= 0.13)


def test_the_action_potential_of_epicardium():
    u = action_potential(is_smooth=False)
    np.testing.assert_allclose(u.max(), REFERENCE["peak_u"], atol=0.003)
    np.testing.assert_allclose(duration(u), REFERENCE["duration_above_0p13_ms"], atol=0.5)


def test_the_parameters_are_those_of_the_reference():
    assert EPI == REFERENCE["EPI"] | {"D": REFERENCE["D_cm2_per_ms"]}
    cell = BOCF(pdefit.CartesianGrid(shape=(3,), extent=(1.0,)), **EPI)
    assert {n: float(x[0]) for n, x in cell.rest()._asdict().items()} == REFERENCE["initial_state"]


def test_smooth_switches_change_the_action_potential_by_less_than_a_percent():
    hard, smooth = action_potential(is_smooth=False), action_potential(is_smooth=True)
    np.testing.assert_allclose(smooth.max(), hard.max(), rtol=0.01)
    np.testing.assert_allclose(duration(smooth), duration(hard), rtol=0.01)


def resting():
    return REST._replace(s=(1 - np.tanh(EPI["k_s"] * EPI["u_s"])) / 2)


def test_the_hard_resting_state_stands_still():
    grid = pdefit.CartesianGrid(shape=(4, 4), extent=(1.0, 1.0))
    still = BOCF(grid, **EPI, is_smooth=False)
    rates = jax.jit(lambda y: still.vector_field(0.0, y, None))(tissue(grid, resting()))
    np.testing.assert_allclose(np.stack(rates), 0.0, atol=1e-15)


def test_the_smooth_resting_state_is_within_a_percent():
    grid = pdefit.CartesianGrid(shape=(2,), extent=(1.0,))
    y0 = tissue(grid, resting())
    y = pdefit.solve(BOCF(grid, **EPI), y0, np.array([1000.0]), solver=pdefit.solvers.RK4(), dt=0.1, t0=0.0)
    np.testing.assert_allclose(np.stack(y)[:, 0], np.stack(y0), atol=0.01)


@functools.cache
def speed(is_smooth):
    """cm/s from the times at which u passes 0.5 at 1 and 2 cm of a cable."""
    grid = pdefit.CartesianGrid(shape=(100,), extent=(2.5,), length_unit="cm")
    cable = BOCF(grid, **EPI, is_smooth=is_smooth)
    y0 = tissue(grid, REST)
    y0 = y0._replace(u=y0.u.at[:8].set(1.0))
    ts = np.linspace(0, 40, 2001)
    u = np.asarray(pdefit.solve(cable, y0, ts, solver=diffrax.Euler(), dt=0.02, t0=0.0).u)
    passed = [np.interp(0.5, u[: np.argmax(u[:, i]), i], ts[: np.argmax(u[:, i])]) for i in (40, 80)]
    return 1000 * 40 * grid.spacing[0] / (passed[1] - passed[0])


def test_the_speed_along_a_cable():
    np.testing.assert_allclose(speed(is_smooth=False), 70.0, atol=1.0)


def test_smooth_switches_change_the_speed_by_less_than_a_percent():
    np.testing.assert_allclose(speed(is_smooth=True), speed(is_smooth=False), rtol=0.01)


@functools.cache
def spirals(is_smooth):
    """A functional of all fields over 5 ms of a spiral wave, with parameters wrong by a few percent."""
    grid = pdefit.CartesianGrid(shape=(64, 64), extent=(6.4, 6.4), length_unit="cm")
    truth = BOCF(grid, **TUTORIAL)
    # the turning wave, once its fronts have formed
    start = pdefit.solve(truth, truth.init(None), np.array([20.0]), solver=diffrax.Euler(), dt=0.05, t0=0.0)
    y0 = jax.tree.map(lambda x: x[-1], start)
    ts = np.linspace(0, 5, 6)
    data = pdefit.simulate(truth, y0, ts, solver=diffrax.Euler(), dt=0.05)
    values = {n: TUTORIAL[n] * (1.03 if i % 2 else 0.97) for i, n in enumerate(CONTROLS)}
    model = dataclasses.replace(truth, is_smooth=is_smooth, **values)
    controls = {n: pdefit.transforms.Log() for n in CONTROLS} | {"y0": {n: pdefit.Control() for n in State._fields}}
    problem = pdefit.Problem(model, y0)
    return pdefit.Functional(problem, data, controls, solver=diffrax.Euler(), dt=0.05)


@functools.cache
def compiled(is_smooth):
    J = spirals(is_smooth)
    value = jax.jit(lambda theta: J.value(theta))
    return value, np.asarray(jax.jit(lambda theta: J.value_and_grad(theta)[1])(J.theta0))


def discrepancy(is_smooth, direction, smallest=1e-6):
    """The smallest relative difference between AD and central differences over a sweep of steps."""
    theta = spirals(is_smooth).theta0
    value, gradient = compiled(is_smooth)
    slope = float(gradient @ direction)
    steps = smallest * 10.0 ** np.arange(0.0, 2.5, 0.5)
    differences = [float(value(theta + h * direction) - value(theta - h * direction)) / (2 * h) for h in steps]
    return min(abs(d - slope) / abs(slope) for d in differences)


def direction_of(name):
    J = spirals(True)
    if name in CONTROLS:
        return np.eye(1, J.theta0.size, CONTROLS.index(name))[0]
    direction = np.random.default_rng(0).normal(size=J.theta0.size)
    direction[: len(CONTROLS)] = 0
    return direction / np.linalg.norm(direction) * 10


@pytest.mark.parametrize("name", [*CONTROLS, "fields"])
def test_gradients_on_spiral_waves_are_right(name):
    assert discrepancy(True, direction_of(name)) < 1e-6


@pytest.mark.parametrize("name", ["theta_v", "D", "fields"])
def test_gradients_of_hard_switches_are_wrong(name):
    """A cell then crosses a threshold a time step earlier or later. Smaller steps of theta agree, but show nothing."""
    assert discrepancy(False, direction_of(name), smallest=1e-4) > 3e-4
    assert discrepancy(True, direction_of(name), smallest=1e-4) < 1e-6


def test_the_sharpness_stays_while_a_threshold_is_fitted():
    grid = pdefit.CartesianGrid(shape=(4,), extent=(0.1,))
    system = BOCF(grid, **EPI)
    np.testing.assert_allclose(system.sharpness, (50.0, 50.0, 500.0, 500.0))
    moved = dataclasses.replace(system, theta_v_minus=0.01)
    np.testing.assert_array_equal(moved.sharpness, system.sharpness)
    assert dataclasses.replace(system, is_smooth=False).smoothed().is_smooth


def test_one_sharpness_for_all_switches_is_refused():
    grid, one = pdefit.CartesianGrid(shape=(4,), extent=(0.1,)), [50.0] * 4
    with pytest.raises(
        ValueError, match=r"sharpness of 50 leaks: .* theta_v_minus = 0.006 is 35% on.*give at least 500"
    ):
        BOCF(grid, **EPI, sharpness=one)
    hard = BOCF(grid, **EPI, sharpness=one, is_smooth=False)
    with pytest.raises(ValueError, match="leaks"):
        hard.smoothed()
    # a fit may start from half of every threshold
    halves = {n: EPI[n] / 2 for n in ("theta_v", "theta_w", "theta_v_minus", "theta_o")}
    dataclasses.replace(BOCF(grid, **EPI), **halves)


def test_a_parameter_may_be_a_field():
    grid = pdefit.CartesianGrid(shape=(6, 4), extent=(0.2, 0.1))
    system = BOCF(grid, **TUTORIAL)
    y = system.init(None)
    fields = dataclasses.replace(system, **{n: np.full(grid.shape, TUTORIAL[n]) for n in CONTROLS})
    one, many = (jax.jit(lambda y, s=s: s.vector_field(0.0, y, None))(y) for s in (system, fields))
    for a, b in zip(one, many, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert fields.stable_step(y) == system.stable_step(y)


def test_a_step_of_a_tenth_is_too_long_for_tissue():
    """dt = 0.1 ms with cells of 0.025 cm looks fine forward and explodes backward."""
    system = BOCF(pdefit.CartesianGrid(shape=(8, 8), extent=(0.2, 0.2)), **EPI)
    assert 0.05 < system.stable_step(system.init(None)) < 0.1


@pytest.mark.parametrize(("name", "numbers"), [("bocf_epi", EPI), ("bocf_tutorial", TUTORIAL)])
def test_the_configurations_hold_the_published_numbers(name, numbers):
    file = Path(__file__).parents[1] / "conf" / "system" / "cardiac" / f"{name}.yaml"
    given = OmegaConf.to_container(OmegaConf.load(file))
    assert {n: given[n] for n in pdefit.parameters(BOCF)} == numbers
