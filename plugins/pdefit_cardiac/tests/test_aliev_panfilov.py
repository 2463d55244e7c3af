"""Physics of Aliev-Panfilov: its front, its action potential, its rotating waves, and inference from u alone."""

import dataclasses
import functools
from pathlib import Path

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from omegaconf import OmegaConf
from pdefit_cardiac import ALIEV_PANFILOV, AlievPanfilov
from pdefit_cardiac.aliev_panfilov import State

import pdefit

rates = eqx.filter_jit(lambda system, y: system.vector_field(0.0, y, None))


@eqx.filter_jit
def initial(system):
    return system.init(None)


def film(system, y0, ts, dt):
    return pdefit.solve(system, y0, np.asarray(ts, float), solver=diffrax.Euler(), dt=dt, t0=0.0)


@pytest.mark.parametrize("a", [0.15, 0.3])
@pytest.mark.parametrize("k", [8.0, 4.0])
def test_a_front_into_resting_tissue_runs_at_its_speed(a, k):
    """Without recovery it is the front of Nagumo's equation, with a known speed."""
    grid = pdefit.CartesianGrid(shape=(400,), extent=(8.0,), length_unit="cm")
    system = AlievPanfilov(grid, **{**ALIEV_PANFILOV, "a": a, "k": k, "eps0": 0.0, "mu1": 0.0})
    u = np.asarray(film(system, initial(system), [200.0, 400.0], 0.1).u)
    place = [float(np.interp(-0.5, -profile, grid.axis(0))) for profile in u]
    exact = np.sqrt(k * system.D / (2 * system.time_scale)) * (1 - 2 * a)
    np.testing.assert_allclose((place[1] - place[0]) / 200, exact, rtol=0.01)


@functools.cache
def action_potential():
    cell = AlievPanfilov(pdefit.CartesianGrid(shape=(2,), extent=(1.0,)), **ALIEV_PANFILOV)
    y0 = cell.rest()
    return film(cell, y0._replace(u=y0.u + 0.4), np.arange(0.0, 600.0, 0.5), 0.05)


def test_the_action_potential():
    u = np.asarray(action_potential().u)[:, 0]
    assert 0.98 < u.max() < 1.0
    # 26.7 of the published time units
    np.testing.assert_allclose(0.5 * np.count_nonzero(u > 0.1), 345.0, atol=2.0)
    assert abs(u[-1]) < 1e-3


def test_rest_is_rest():
    system = AlievPanfilov(pdefit.CartesianGrid(shape=(4, 4), extent=(1.0, 1.0)), **ALIEV_PANFILOV)
    for rate in rates(system, system.rest()):
        np.testing.assert_array_equal(rate, 0.0)


def test_a_wave_turns_around_the_middle():
    """Four turns, each of which excites every place."""
    grid = pdefit.CartesianGrid(shape=(64, 64), extent=(12.8, 12.8), length_unit="cm")
    system = AlievPanfilov(grid, **{**ALIEV_PANFILOV, "D": 4e-3})
    u = np.asarray(film(system, initial(system), np.arange(0.0, 2001.0, 10.0), 0.5).u)
    excited = u > 0.5
    beats = np.count_nonzero(excited[1:] & ~excited[:-1], axis=0)
    assert beats[::63, ::63].min() >= 3 and beats.max() <= 8


def test_time_scale_is_a_unit_of_time():
    """Twice the unit, and the square root of two times the length at the same D: everything takes twice as long."""
    one = AlievPanfilov(pdefit.CartesianGrid(shape=(8, 8), extent=(1.0, 1.0)), **ALIEV_PANFILOV)
    two = AlievPanfilov(
        pdefit.CartesianGrid(shape=(8, 8), extent=(np.sqrt(2), np.sqrt(2))), **{**ALIEV_PANFILOV, "time_scale": 25.8}
    )
    y = initial(one)
    for a, b in zip(rates(one, y), rates(two, y), strict=True):
        np.testing.assert_allclose(a, 2 * np.asarray(b), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(2 * one.stable_step(y), two.stable_step(y), rtol=1e-12)


def test_the_voltage_alone_does_not_tell_the_time_scale():
    grid = pdefit.CartesianGrid(shape=(32,), extent=(2.0,))
    one = AlievPanfilov(grid, **ALIEV_PANFILOV)
    two = dataclasses.replace(one, time_scale=2 * one.time_scale, k=2 * one.k, eps0=2 * one.eps0)
    y = initial(one)._replace(v=jnp.asarray(np.full(grid.shape, 0.2)))
    a, b = (film(s, y0, [20.0], 0.05) for s, y0 in ((one, y), (two, y._replace(v=2 * y.v))))
    np.testing.assert_allclose(a.u, b.u, atol=1e-12)
    np.testing.assert_allclose(2 * np.asarray(a.v), b.v, atol=1e-12)


@pytest.mark.parametrize(("ahead", "stable"), [(0.95, True), (1.6, False)])
def test_the_stable_step_is_near_the_limit(ahead, stable):
    grid = pdefit.CartesianGrid(shape=(16, 16), extent=(0.4, 0.4))
    system = AlievPanfilov(grid, **ALIEV_PANFILOV)
    y = initial(system)
    rough = y._replace(u=y.u + 0.1 * np.random.default_rng(0).normal(size=grid.shape))
    dt = ahead * system.stable_step(rough)
    # within a trace a step is not compared with the limit
    end = jax.jit(lambda y: film(system, y, [300 * dt], dt))(rough)
    assert bool(np.max(np.abs(end.u)) < 2.0) is stable


def test_fields_are_named_and_averaged():
    system = AlievPanfilov.example(16).system
    assert list(system.coords()) == list(State._fields)
    y = initial(system)
    np.testing.assert_allclose(np.mean(eqx.filter_jit(system.coarsen)(y, 4).u), np.mean(y.u), rtol=1e-14)
    units = {n: i.unit for n, i in pdefit.parameters(AlievPanfilov).items() if i.unit != "1"}
    assert units == {"D": "length^2/time", "time_scale": "ms"}


def test_the_configuration_holds_the_published_numbers():
    file = Path(__file__).parents[1] / "conf" / "system" / "cardiac" / "aliev_panfilov.yaml"
    given = OmegaConf.to_container(OmegaConf.load(file))
    assert {n: given[n] for n in pdefit.parameters(AlievPanfilov)} == ALIEV_PANFILOV
