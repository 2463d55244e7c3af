"""Steps that an adaptive pass takes: how accurate, where they end, where they are small."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_particles import Gravity
from small_systems import Decay, State, Swing

import pdefit
from pdefit.integrate.adaptive.controller import adaptive_grid, step_error
from pdefit.integrate.loop.stepper import AbstractStepper, Stepper
from pdefit.integrate.loop.time_grid import frozen_grid
from pdefit.integrate.loop.time_loop import fold, store_all
from pdefit.integrate.solvers.method import method_of

TS = np.linspace(0.0, 2.0, 5)


def end_error(solver, rtol):
    """Of the decay, against its exact solution."""
    system = Decay(k=1.5)
    steps = pdefit.Adaptive(rtol, 1e-3 * rtol)
    found = pdefit.simulate(system, system.init(None), TS, solver=solver, steps=steps).values["u"][-1]
    return float(np.max(np.abs(found / system.exact(2.0).u - 1)))


def orbit(e=0.9):
    """A light body around a heavy one, from the far end of its ellipse; the period is 2 pi."""
    position = np.array([[0.0, 0.0], [1 + e, 0.0]])
    velocity = np.array([[0.0, 0.0], [0.0, np.sqrt((1 - e) / (1 + e))]])
    return Gravity(
        gm=np.array([1.0, 0.0]), names=("sun", "comet"), position=position, velocity=velocity, length_unit="1"
    )


@pytest.mark.parametrize("solver", [diffrax.Tsit5(), diffrax.Dopri8(), diffrax.Bosh3()])
def test_the_error_is_proportional_to_the_tolerance(solver):
    tolerances = np.array([1e-4, 1e-5, 1e-6, 1e-7])
    errors = np.array([end_error(solver, rtol) for rtol in tolerances])
    assert np.all(errors < 3 * tolerances), errors / tolerances
    # a decade of tolerance is a decade of error, give or take a third where steps are few
    slope = np.polyfit(np.log(tolerances), np.log(errors), 1)[0]
    assert 0.75 < slope < 1.35, (slope, errors)


def test_heun_keeps_a_coarse_tolerance():
    assert end_error(diffrax.Heun(), 1e-4) < 1e-3


@pytest.mark.parametrize("ts", [TS, np.array([0.0, 0.01, 0.3, 0.30001, 2.0]), np.array([0.5, 1.7])])
def test_steps_end_at_every_observation(ts):
    system = Decay(k=1.5)
    grid = adaptive_grid(
        system, system.init(None), ts, solver=diffrax.Tsit5(), steps=pdefit.Adaptive(1e-8, 1e-10), t0=0.0
    )
    edges = ts if ts[0] == 0 else np.concatenate([[0.0], ts])
    np.testing.assert_array_equal(grid.start, edges[:-1])
    np.testing.assert_allclose(grid.start + grid.step.sum(axis=1), edges[1:], rtol=1e-15)
    assert grid.observes_start == (ts[0] == 0)
    assert grid.length == 2 ** int(np.ceil(np.log2(grid.count.max())))
    # steps that are taken come first, and none is a splinter
    taken = np.arange(grid.length) < grid.count[:, None]
    assert np.all((grid.step > 0) == taken)
    assert np.all(grid.step.max(axis=1) < 30 * np.min(grid.step, axis=1, where=taken, initial=np.inf))


class Counted(AbstractStepper):
    """A state that counts its steps, whatever their size."""

    def init(self, t, y):
        return y, None

    def __call__(self, t, h, carry):
        return State(carry[0].u + 1), carry[1]


@pytest.mark.parametrize("loop", [store_all, fold])
def test_steps_that_pad_an_interval_are_not_taken(loop):
    steps = [np.full(n, 0.25) for n in (1, 5, 2)]
    grid = frozen_grid(np.array([0.0, 0.25, 1.5, 2.0]), steps, observes_start=False)
    assert grid.length == 8
    more = (np.zeros(3), jnp.zeros(())) if loop is fold else (np.zeros(3),)
    add = (lambda total, y, _: total + y.u) if loop is fold else (lambda y, _: y.u)
    end, seen = loop(Counted(), State(jnp.zeros(())), grid, add, *more)
    assert end.u == 8 and np.all(seen == (1 + 6 + 8 if loop is fold else np.array([1, 6, 8])))


def test_states_at_irregular_times_are_right():
    system, ts = Decay(k=1.5), np.array([0.0, 0.01, 0.3, 0.30001, 2.0])
    seen = pdefit.simulate(system, system.init(None), ts, solver=diffrax.Tsit5(), steps=pdefit.Adaptive(1e-8, 1e-10))
    expected = np.stack([system.exact(t).u for t in ts])
    np.testing.assert_allclose(seen.values["u"], expected, rtol=1e-7)


def test_a_close_encounter_takes_small_steps_there_only():
    system = orbit()
    y0, ts = system.init(None), np.linspace(0.0, 2 * np.pi, 9)
    solver, steps = diffrax.Dopri8(), pdefit.Adaptive(1e-9, 1e-9)
    grid = adaptive_grid(system, y0, ts, solver=solver, steps=steps, t0=0.0)
    begin = (grid.start[:, None] + np.cumsum(grid.step, axis=1) - grid.step)[grid.step > 0]
    sizes = grid.step[grid.step > 0]
    near = np.abs(begin - np.pi) < 0.1
    # Kepler's second law: the angle covered in a time goes as 1/r^2, here (1.9 / 0.1)^2
    assert sizes.min() == sizes[near].min() and sizes[~near].max() > 30 * sizes.min()
    found = pdefit.simulate(system, y0, ts, solver=solver, steps=steps).values["position"][-1, 1]
    np.testing.assert_allclose(found, [1.9, 0.0], atol=1e-6)
    # constant steps as accurate are many more
    end, dt = np.array([1.9, 0.0]), 2 * np.pi / (4 * grid.steps)
    constant = pdefit.simulate(system, y0, ts, solver=solver, dt=dt).values["position"][-1, 1]
    assert np.max(np.abs(constant - end)) > np.max(np.abs(found - end))


def test_the_embedded_method_shares_its_stages_with_the_step():
    system, y = Decay(k=1.5), State(jnp.array([1.0, 2.0, 3.0]))
    t, h = jnp.zeros(()), jnp.asarray(0.1)
    term = diffrax.ODETerm(lambda t, y, args: system.vector_field(t, y, args))

    @eqx.filter_jit
    def both(solver):
        theirs = solver.step(term, t, t + h, y, None, solver.init(term, t, t + h, y, None), made_jump=False)
        return method_of(solver).step_with_error(system, t, h, y, None), theirs[:2]

    for solver in (diffrax.Tsit5(), diffrax.Dopri8(), diffrax.Bosh3(), diffrax.Heun()):
        (after, error), (expected, own) = both(solver)
        np.testing.assert_allclose(after.u, expected.u, rtol=1e-14)
        np.testing.assert_allclose(np.abs(error.u), np.abs(own.u), rtol=1e-6, atol=1e-15)
        np.testing.assert_allclose(after.u, Stepper(system, solver)(t, h, (y, None))[0].u, rtol=1e-15)


def test_the_error_of_frozen_steps_is_that_of_the_pass_and_grows_with_the_rate():
    solver, steps = diffrax.Tsit5(), pdefit.Adaptive(1e-6, 1e-9)

    def of(k, grid):
        system = Decay(k=k)
        starts = jax.tree.map(lambda x: x[None], system.init(None))
        return float(step_error(Stepper(system, solver), starts, grid, steps))

    system = Decay(k=1.5)
    grid = adaptive_grid(system, system.init(None), TS, solver=solver, steps=steps, t0=0.0)
    batch = jax.tree.map(lambda x: x[None], grid)
    own = of(1.5, batch)
    assert 0.1 < own <= 0.5
    # the estimate of a fifth-order method falls as k^5, and a little less as y falls too
    assert 20 < of(3.0, batch) / own < 40 and 20 < own / of(0.75, batch) < 40


def test_a_largest_step_is_kept():
    system = Decay(k=1.5)
    steps = pdefit.Adaptive(1e-3, 1e-3, dtmax=0.05)
    grid = adaptive_grid(system, system.init(None), TS, solver=diffrax.Tsit5(), steps=steps, t0=0.0)
    assert grid.step.max() <= 0.05 * (1 + 1e-9)


def test_tolerances_of_fields():
    system = Swing(k=2.0)
    y0, solver = system.init(None), diffrax.Tsit5()

    def count(atol):
        return adaptive_grid(system, y0, TS, solver=solver, steps=pdefit.Adaptive(0.0, atol), t0=0.0).steps

    assert count({"x": 1e-6, "v": 1e-6}) == count(1e-6) > count({"x": 1e-3, "v": 1e-3})
    assert count({"x": 1e-9, "v": 1e3}) > count(1e-6)
    with pytest.raises(pdefit.PdefitError, match="add v"):
        count({"x": 1e-6})
    with pytest.raises(pdefit.PdefitError, match="'w'"):
        count({"x": 1e-6, "v": 1e-6, "w": 1.0})


@pytest.mark.parametrize(
    "solver", [pdefit.solvers.RK4(), diffrax.Euler(), pdefit.solvers.VelocityVerlet(), pdefit.solvers.Yoshida4()]
)
def test_solvers_without_an_estimate_are_refused(solver):
    system = Swing(k=2.0)
    with pytest.raises(pdefit.PdefitError, match=f"{type(solver).__name__} does not; use Tsit5"):
        pdefit.simulate(system, system.init(None), TS, solver=solver, steps=pdefit.Adaptive())


class Explosion(pdefit.AbstractSystem):
    """u' = k u^2, infinite at t = 1 / (k u)."""

    time_unit = "s"
    k: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return State(self.k * y.u**2)

    def init(self, key):
        return State(jnp.ones(1))


def test_a_model_that_blows_up_is_named_with_the_time():
    system = Explosion(k=1.0)
    with pytest.raises(pdefit.PdefitError, match=r"Explosion collapses to .* at t = 1 s"):
        pdefit.simulate(system, system.init(None), TS, solver=diffrax.Tsit5(), steps=pdefit.Adaptive())


def test_too_many_steps_are_refused(monkeypatch):
    monkeypatch.setattr("pdefit.integrate.adaptive.controller.MOST_STEPS", 100)
    system = Decay(k=1.5)
    with pytest.raises(pdefit.PdefitError, match="set rtol and atol larger"):
        pdefit.simulate(system, system.init(None), TS, solver=diffrax.Bosh3(), steps=pdefit.Adaptive(1e-11, 1e-14))


@pytest.mark.parametrize("wrong", [{"rtol": -1.0}, {"atol": 0.0}, {"atol": {"u": -1.0}}, {"dtmax": 0.0}])
def test_impossible_tolerances_are_refused(wrong):
    with pytest.raises(pdefit.PdefitError, match="Adaptive expects"):
        pdefit.Adaptive(**wrong)


def test_long_passes_go_on_where_they_were(monkeypatch):
    system, solver, steps = Decay(k=1.5), diffrax.Bosh3(), pdefit.Adaptive(1e-9, 1e-12)
    grid = adaptive_grid(system, system.init(None), TS, solver=solver, steps=steps, t0=0.0)
    # more steps than one call of the compiled loop tries
    assert grid.steps > 1024
    assert end_error(solver, 1e-9) < 1e-8
