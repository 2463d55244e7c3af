"""Steps end where inputs bend: which knots, and what becomes of trajectories and derivatives."""

from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit._util.trees import cast
from pdefit.integrate.forward_runs import Numerics, frames
from pdefit.integrate.loop.bends import bends, beside_jumps, passed_over
from pdefit.integrate.loop.time_grid import constant_grid, step_ends
from pdefit.inverse.objective.compiled import GRADIENT, VALUE, normal_equations
from pdefit.inverse.objective.passed_inputs import passed_inputs
from pdefit.inverse.objective.variants import shortened
from pdefit.systems.courses import courses


class State(NamedTuple):
    u: jax.Array


class Organ(pdefit.AbstractSystem):
    """u' = rate(t - delay) - k u, in a compartment."""

    time_unit = "h"
    k: jax.Array = pdefit.parameter(default=0.3, positive=True)
    delay: jax.Array = pdefit.parameter(default=0.0)

    def vector_field(self, t, y, args):
        return State(self.read(t, args) - self.k * y.u)

    def read(self, t, args):
        return args["rate"](t - self.delay)

    def init(self, key):
        return State(jnp.zeros(()))


class AtOnce(Organ):
    def read(self, t, args):
        return args["rate"](t)


class Daily(Organ):
    def read(self, t, args):
        return args["rate"](t % 8.0)


# two doses, whose ramps and plateaus lie between steps
KNOTS = np.add.outer([3.1, 11.3], [0.0, 0.02, 0.1, 0.12]).ravel()
LEVELS = np.tile([0.0, 40.0, 40.0, 0.0], 2)
TS = np.arange(0.0, 17.0, 2.0)


def doses(method="linear"):
    return {"rate": pdefit.TimeSeries(KNOTS, LEVELS, method)}


def exact(ts, k=0.3):
    """The response to straight lines between knots, from zero."""
    u, out, edges = 0.0, [], np.union1d(KNOTS, ts)
    rate = np.interp(edges, KNOTS, LEVELS)
    for h, a, b in zip(np.diff(edges, prepend=0.0), np.append(0.0, rate), rate, strict=False):
        slope = (b - a) / h if h else 0.0
        u = u * np.exp(-k * h) + (a - slope / k) * (1 - np.exp(-k * h)) / k + slope * h / k
        out.append(u)
    return np.asarray(out)[np.searchsorted(edges, ts)]


def inputs(rate, system=None, end=16.0):
    system = AtOnce() if system is None else system
    return courses(system, system.init(None), {"rate": rate}, 0.0, end)


# --- which knots -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [0.25, 1.0, np.inf])
def test_pulses_between_steps_are_ends(dt):
    np.testing.assert_array_equal(bends(TS, dt, inputs(doses()["rate"])), KNOTS)


def test_a_smooth_dense_series_keeps_its_steps():
    t = np.linspace(0.0, 16.0, 10_000)
    for method in ("linear", "cubic"):
        (course,) = inputs(pdefit.TimeSeries(t, np.sin(2 * t), method))
        assert not bends(TS, 0.25, [course]).size
        assert passed_over(step_ends(TS, 0.25), [course]).error < 1e-3


def test_a_little_noise_of_a_dense_series_is_passed_over_and_told():
    t, noise = np.linspace(0.0, 16.0, 10_000), np.random.default_rng(0).normal(size=10_000)
    (course,) = inputs(pdefit.TimeSeries(t, np.sin(t) + 0.02 * noise, "linear"))
    found = bends(TS, 0.25, [course])
    assert found.size <= 64
    (sentence,) = passed_over(step_ends(np.union1d(TS, found), 0.25), [course]).remarks
    assert "args.rate changes within steps" in sentence and "method: smooth" in sentence


def test_a_series_that_is_all_noise_is_followed():
    t = np.linspace(0.0, 16.0, 1000)
    (course,) = inputs(pdefit.TimeSeries(t, np.random.default_rng(0).normal(size=1000), "linear"))
    ends = step_ends(np.union1d(TS, bends(TS, 0.25, [course])), 0.25)
    assert ends.size > 4 * step_ends(TS, 0.25).size and passed_over(ends, [course]).error < 0.1


def test_what_does_not_bend_between_steps_changes_nothing():
    for series in (pdefit.TimeSeries(TS, TS**2, "linear"), pdefit.TimeSeries([0.0, 7.3, 16.0], [2.0, 2.0, 2.0])):
        assert not bends(TS, 0.5, inputs(series)).size


def test_knots_are_found_whatever_the_time_at_which_they_are_read():
    late = Organ(delay=jnp.asarray(0.65))
    np.testing.assert_allclose(bends(TS, 1.0, inputs(doses()["rate"], late)), KNOTS + 0.65, rtol=1e-14)
    series = pdefit.TimeSeries(np.array([0.0, 3.0, 3.02, 3.1, 3.12]), np.array([0.0, 0, 40, 40, 0]), "linear")
    daily = inputs(series, Daily())
    ends = step_ends(np.union1d(TS, bends(TS, 1.0, daily)), 1.0)
    assert [np.sum((ends > a) & (ends < a + 0.12)) > 0 for a in (3.0, 11.0)] == [True, True]
    assert passed_over(ends, daily).error < 1e-3


def test_inputs_behind_a_compiled_field_and_of_boundaries_are_found():
    class Compiled(AtOnce):
        def vector_field(self, t, y, args):
            return jax.jit(lambda r, t, y: State(r(t) - y.u))(args["rate"], t, y)

    np.testing.assert_array_equal(bends(TS, 1.0, inputs(doses()["rate"], Compiled())), KNOTS)


def test_jumps_of_other_functions_are_not_seen():
    assert not inputs(lambda t: jnp.where((t > 3.1) & (t < 3.2), 40.0, 0.0))


# --- trajectories ----------------------------------------------------------------------------------------------------


def test_steps_end_at_bends_and_are_no_longer_than_dt():
    grid = constant_grid(0.0, TS, 0.7, KNOTS)
    ends = grid.start[:, None] + np.cumsum(grid.step, axis=1)
    assert np.all(np.min(np.abs(ends[..., None] - KNOTS), axis=(0, 1)) < 1e-14)
    assert grid.largest <= 0.7 and grid.steps == grid.count.sum() == np.sum(grid.step > 0)
    np.testing.assert_allclose(grid.step.sum(axis=1), 2.0, rtol=1e-14)


ADAPTIVE = {"steps": pdefit.Adaptive(rtol=1e-7, atol=1e-9)}


@pytest.mark.parametrize(
    ("solver", "given", "rtol"),
    [
        (pdefit.solvers.RK4(), {"dt": 1.0}, 1e-3),
        (diffrax.Kvaerno3(), {"dt": 0.5}, 1e-3),
        (diffrax.Tsit5(), ADAPTIVE, 1e-6),
    ],
)
def test_doses_between_steps_are_taken(solver, given, rtol):
    system = AtOnce()
    found = pdefit.simulate(system, system.init(None), TS, solver=solver, args=doses(), **given).values["u"]
    np.testing.assert_allclose(found, exact(TS), rtol=rtol, atol=1e-9)


def test_a_solver_that_looks_beyond_its_steps_is_refused():
    system = AtOnce()
    with pytest.raises(pdefit.PdefitError, match="Kvaerno5 reads inputs after the end of its steps"):
        pdefit.simulate(system, system.init(None), TS, solver=diffrax.Kvaerno5(), dt=1.0, args=doses())
    with pytest.raises(pdefit.PdefitError, match="Kvaerno5 reads inputs after the end of its steps"):
        functional(solver=diffrax.Kvaerno5())


def test_frames_in_blocks_are_those_of_one_solution():
    system, whole = AtOnce(), Numerics(pdefit.solvers.RK4(), 1.0, None, doses())
    found = [y.u for y in frames(system, system.init(None), TS, whole, t0=0.0, block=4)]
    np.testing.assert_allclose(found, exact(TS), rtol=1e-3)


# --- derivatives and fits --------------------------------------------------------------------------------------------


def functional(system=None, controls=None, args=None, **given):
    system = AtOnce(jnp.asarray(0.4)) if system is None else system
    data = pdefit.Observations.build(TS, {"u": exact(TS)}, sigma=0.02)
    problem = pdefit.Problem(system, system.init(None), args=doses() if args is None else args)
    return pdefit.Functional(problem, data, controls or {"k": pdefit.transforms.Log()}, dt=1.0, **given)


def test_derivatives_with_such_steps():
    one, h = functional(adjoint=pdefit.adjoints.Checkpointed()), 1e-5
    theta = one.theta0
    gradient = GRADIENT(one, theta)[1]
    difference = (VALUE(one, theta + h) - VALUE(one, theta - h)) / (2 * h)
    np.testing.assert_allclose(gradient[0], difference, rtol=1e-7)
    np.testing.assert_allclose(gradient, GRADIENT(functional(adjoint=pdefit.adjoints.StoreAll()), theta)[1], rtol=1e-13)
    np.testing.assert_allclose(gradient, normal_equations(one, theta)[1], rtol=1e-10)


def test_knots_that_move_with_an_unknown_are_no_ends_and_are_told():
    one = functional(Organ(delay=jnp.asarray(0.05)), {"delay": pdefit.transforms.Identity()})
    assert not one.layout.time_grid.frozen
    (sentence,) = passed_inputs(one, one.theta0)
    assert sentence.startswith("args.rate changes within steps") and "may move with an unknown" in sentence
    assert not passed_inputs(functional(), jnp.zeros(1))


def test_a_fit_finds_a_delay_with_adaptive_steps_that_see_every_dose():
    args, at = {"rate": pdefit.TimeSeries(np.r_[0, KNOTS], np.r_[0, LEVELS], "smooth")}, [0.0, 0.05]
    systems = [Organ(delay=jnp.asarray(d)) for d in at]
    clean = pdefit.simulate(systems[0], systems[0].init(None), TS, dt=0.01, args=args)
    data = pdefit.Observations.build(TS, clean.values, sigma=0.02)
    problem = pdefit.Problem(systems[1], systems[1].init(None), args=args)
    controls = {"delay": pdefit.transforms.Identity()}
    found = pdefit.fit(pdefit.Functional(problem, data, controls, solver=diffrax.Tsit5(), steps=pdefit.Adaptive()))
    assert abs(float(found.theta[0])) < 1e-3, found


def test_every_knot_of_unknown_values_is_an_end():
    series = pdefit.TimeSeries(np.array([0.0, 3.3, 7.7, 16.0]), np.zeros(4), "linear")
    one = functional(controls={"args": {"rate": {"values": pdefit.transforms.Identity()}}}, args={"rate": series})
    (ends,) = one.layout.time_grid.ends()
    assert np.all(np.min(np.abs(ends[:, None] - series.times), axis=0) < 1e-12)


def test_recordings_have_steps_for_doses_of_their_own():
    late = {"rate": pdefit.TimeSeries(KNOTS + 0.2, LEVELS, "linear")}
    none = {"rate": pdefit.TimeSeries(KNOTS, np.zeros(KNOTS.size), "linear")}
    each = [functional(), functional(args=late), functional(args=none)]
    assert [f.layout.time_grid.frozen for f in each] == [True, True, False]
    whole = pdefit.Recordings(each)
    alone = sum(float(VALUE(f, f.theta0)) for f in each)
    np.testing.assert_allclose(VALUE(whole, whole.theta0), alone, rtol=1e-12)


class Field(NamedTuple):
    u: jax.Array = pdefit.field(diffusivity="D")


class Layer(pdefit.ReactionDiffusion):
    """The same organ in every cell of a ring, whose diffusion changes nothing."""

    time_unit = "h"
    D: jax.Array = pdefit.parameter(default=0.01)
    rate: pdefit.TimeSeries = pdefit.parameter(default=None)

    def reaction(self, t, y, args):
        return Field(self.rate(t) - 0.3 * y.u)

    def init(self, key):
        return Field(jnp.zeros(4))


@pytest.mark.parametrize(("solver", "dt"), [(pdefit.solvers.ETDRK4(), 0.25), (pdefit.solvers.IMEX(), 0.1)])
def test_solvers_that_prepare_their_steps_take_doses_too(solver, dt):
    system = Layer(rate=doses()["rate"], grid=pdefit.CartesianGrid((4,), (1.0,), boundary=pdefit.boundaries.Periodic()))
    found = pdefit.simulate(system, system.init(None), TS, solver=solver, dt=dt).values["u"]
    np.testing.assert_allclose(found, np.repeat(exact(TS)[:, None], 4, axis=1), rtol=1e-3, atol=1e-9)


class Switched(Layer):
    """The same ring under a rate that jumps from 1 to 3 at 0.7."""

    def reaction(self, t, y, args):
        return Field(jnp.where(t < 0.7, 1.0, 3.0) * jnp.ones_like(y.u))


def switched(cls=Switched, dtype=float):
    grid = pdefit.CartesianGrid((4,), (1.0,), boundary=pdefit.boundaries.Periodic())
    return cast(cls(rate=doses()["rate"], grid=grid), dtype), Field(jnp.zeros(4, dtype))


SIDES = np.array([0.0, 0.7, 1.4])


@pytest.mark.parametrize(
    ("solver", "given"),
    [
        (pdefit.solvers.RK4(), {"dt": 0.35}),
        (pdefit.solvers.RKC(3), {"dt": 0.35}),
        (pdefit.solvers.IMEX(), {"dt": 0.35}),
        (pdefit.solvers.ETDRK4(), {"dt": 0.35}),
        (diffrax.Kvaerno3(), {"dt": 0.35}),
        (diffrax.Tsit5(), ADAPTIVE),
    ],
    ids=lambda x: type(x).__name__,
)
def test_steps_beside_a_jump_see_one_side(solver, given):
    system, y0 = switched()
    found = pdefit.simulate(system, y0, SIDES, solver=solver, **given).values["u"][:, 0]
    np.testing.assert_allclose(found, [0.0, 0.7, 2.8], rtol=1e-13)


def test_steps_beside_a_jump_see_one_side_in_single_precision_and_windows():
    system, y0 = switched(dtype="float32")
    found = pdefit.simulate(system, y0, SIDES, dt=0.35).values["u"][:, 0]
    np.testing.assert_allclose(found, [0.0, 0.7, 2.8], rtol=2e-6)
    system, y0 = switched()
    data = pdefit.Observations.build(SIDES, {"u": np.outer([0.0, 0.7, 2.8], np.ones(4))}, sigma=1.0)
    windows = pdefit.formulations.Segments(0.7)
    one = pdefit.Functional(
        pdefit.Problem(system, y0), data, {"D": pdefit.transforms.Log()}, dt=0.35, formulation=windows
    )
    assert float(VALUE(one, one.theta0)) < 1e-25


def test_rates_without_jumps_at_ends_keep_their_steps():
    system, y0 = switched()
    assert not beside_jumps(system, y0, None, np.array([0.0, 1.0, 1.4])).size
    # an interpolated input has kinks, which are no jumps of the rates
    assert not beside_jumps(*switched(Layer), None, np.union1d(TS, KNOTS)).size
    # 0.7 is rounded up in single precision
    assert beside_jumps(*switched(dtype="float32"), None, SIDES).size == beside_jumps(system, y0, None, SIDES).size == 2


def test_windows_and_beginnings_have_the_same_ends():
    one = functional()
    (whole,) = one.layout.time_grid.ends()
    windows = functional(formulation=pdefit.formulations.Segments(4.0)).layout.time_grid
    assert windows.frozen and windows.count.shape == (4, 2)
    np.testing.assert_allclose(np.unique(np.concatenate(windows.ends()).round(9)), whole.round(9))
    short = shortened(one, one.theta0, 4)[0].layout.time_grid
    np.testing.assert_array_equal(short.ends()[0], whole[whole <= TS[3]])
