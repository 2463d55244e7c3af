"""Runge-Kutta-Chebyshev steps: order, stability, stages, adaptive steps, gradients."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import FisherKPP, GrayScott
from problems import GRID, central_difference, fisher, fisher_functional, stable
from small_systems import Decay, Swing

import pdefit
from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.loop.stable_step import choose_steps, real_stability
from pdefit.integrate.solvers.method import method_of
from pdefit.integrate.solvers.rkc import real_interval


def growth(stages, x):
    """y after one step of size 1 of y' = -x y from 1."""

    @jax.jit
    @jax.vmap
    def step(k):
        zero, one = jnp.zeros(()), jnp.ones(())
        return pdefit.solvers.RKC(stages).one_step(Decay(k=k), zero, one, Decay(k=k).init(None), None).u[0]

    return np.asarray(step(np.asarray(x)))


one_step = eqx.filter_jit(lambda solver, *args: solver.one_step(*args))


@pytest.mark.parametrize("stages", [2, 3, 5, 10, 50, 200])
def test_every_decay_in_the_interval_decays(stages):
    beta = real_stability(pdefit.solvers.RKC(stages))
    assert 0.64 * (stages**2 - 1) < beta < 0.67 * stages**2
    inside = growth(stages, np.linspace(1e-3 * beta, beta, 2000))
    # damped: no mode but the slowest stays
    assert np.all(np.abs(inside) <= 1) and np.all(np.abs(inside[200:]) < 0.97)
    # odd polynomials cross zero at the end, and last a little longer
    assert stages % 2 or abs(growth(stages, np.array([1.02 * beta]))[0]) > 1


def test_the_stages_are_the_fewest_that_are_stable():
    for x in (0.1, 2.0, 5.0, 37.0, 1e3, 1e5):
        stages = pdefit.solvers.RKC().settled(x).stages
        assert real_interval(stages) >= x and (stages == 2 or real_interval(stages - 1) < x)
    assert pdefit.solvers.RKC(7).settled(1e5).stages == 7
    with pytest.raises(pdefit.PdefitError, match="set dt smaller"):
        pdefit.solvers.RKC().settled(1e9)
    with pytest.raises(pdefit.PdefitError, match="2 to 1000 stages"):
        pdefit.solvers.RKC(1)


def test_stages_suit_the_step_and_the_guess():
    system = fisher()
    y0, euler = system.init(None), stable(system)
    solver, dt = choose_steps([(system, y0)], 20 * euler, pdefit.solvers.RKC())
    assert dt == 20 * euler and real_stability(solver) >= 40 > 0.8 * real_stability(
        pdefit.solvers.RKC(solver.stages - 1)
    )
    more, _ = choose_steps([(system, y0), (fisher(D=16.0), y0)], 20 * euler, pdefit.solvers.RKC())
    assert 3.2 < more.stages / solver.stages < 4.5
    with pytest.raises(pdefit.PdefitError, match="with RKC; set dt to at most"):
        choose_steps([(system, y0)], 20 * euler, pdefit.solvers.RKC(3))
    # none asked for: as for other solvers, 0.8 of what is stable
    solver, dt = choose_steps([(system, y0)], None, pdefit.solvers.RKC(9))
    np.testing.assert_allclose(dt, 0.8 * real_interval(9) / 2 * euler)
    functional = fisher_functional(
        {"D": pdefit.Control(pdefit.transforms.Log(), bounds=(0.1, 9.0)), "r": pdefit.transforms.Log()},
        solver=pdefit.solvers.RKC(),
        dt=0.4,
    )
    # of a fit with a margin, but not for its bounds
    asked = 2 * 0.4 / stable(fisher(0.6, 1.5))
    assert 1.5 * asked <= real_stability(functional.runner.solver) < 5 * asked < 2 * 0.4 / stable(fisher(9.0))


def test_a_step_far_beyond_that_of_runge_kutta_is_right():
    system, ts = fisher(), np.array([0.0, 4.0])
    y0 = system.init(None)
    fine = pdefit.simulate(system, y0, ts, solver=diffrax.Dopri8(), steps=pdefit.Adaptive(1e-10, 1e-12))
    dt = 10 * stable(system)
    with pytest.raises(pdefit.PdefitError, match="beyond the stability limit"):
        pdefit.simulate(system, y0, ts, dt=dt)
    found = pdefit.simulate(system, y0, ts, solver=pdefit.solvers.RKC(), dt=dt)
    np.testing.assert_allclose(found.values["u"], fine.values["u"], atol=0.05)
    # the same through solve, and through diffrax with the stages given
    again = pdefit.solve(system, y0, ts, solver=pdefit.solvers.RKC(), dt=dt, t0=0.0)
    np.testing.assert_allclose(again.u, found.values["u"], atol=1e-13)


def test_traced_values_choose_no_steps_and_given_stages_need_none():
    y0, ts = fisher().init(None), np.array([0.0, 0.4])

    def last(D, run=pdefit.solve, **method):
        after = run(fisher(D=D), y0, ts, **method)
        return jnp.sum((after if run is pdefit.solve else after.values["u"]).u[-1] ** 2)

    method = {"solver": pdefit.solvers.RKC(8), "dt": 0.2, "t0": 0.0}
    rate = jax.jit(jax.grad(lambda D: last(D, **method)))(1.0)
    np.testing.assert_allclose(rate, (last(1.001, **method) - last(0.999, **method)) / 2e-3, rtol=1e-5)
    asked = [
        method | {"solver": pdefit.solvers.RKC()},
        method | {"solver": pdefit.solvers.RKC(8), "steps": pdefit.Adaptive(1e-3, 1e-3)},
        {"run": pdefit.simulate},
        {"run": pdefit.simulate, "dt": 0.01},
    ]
    for options in asked:
        with pytest.raises(pdefit.PdefitError, match="is traced .* call pdefit.solve with constant steps"):
            jax.jit(lambda D, options=options: last(D, **options))(1.0)


def test_diffrax_can_use_it():
    system, y0 = fisher(), fisher().init(None)
    term = diffrax.ODETerm(lambda t, y, args: system.vector_field(t, y, args))
    theirs = eqx.filter_jit(diffrax.diffeqsolve)(term, pdefit.solvers.RKC(8), 0.0, 2.0, 0.2, y0).ys.u
    ours = pdefit.solve(system, y0, np.array([2.0]), solver=pdefit.solvers.RKC(8), dt=0.2, t0=0.0).u
    np.testing.assert_allclose(ours, theirs, atol=1e-13)


def test_a_step_of_zero_length_is_none():
    system, y0 = fisher(), fisher().init(None)
    zero = jnp.zeros(())
    np.testing.assert_array_equal(one_step(pdefit.solvers.RKC(12), system, zero, zero, y0, None).u, y0.u)


@pytest.mark.parametrize("stages", [None, 4])
def test_the_error_of_adaptive_steps_follows_the_tolerance(stages):
    system, ts = fisher(), np.linspace(0.0, 4.0, 3)
    y0 = system.init(None)
    fine = pdefit.simulate(system, y0, ts, solver=diffrax.Dopri8(), steps=pdefit.Adaptive(1e-11, 1e-13)).values["u"]
    errors, tolerances = [], (1e-3, 1e-4, 1e-5, 1e-6)
    for rtol in tolerances:
        found = pdefit.simulate(system, y0, ts, solver=pdefit.solvers.RKC(stages), steps=pdefit.Adaptive(rtol, rtol))
        errors.append(float(np.max(np.abs(found.values["u"] - fine))))
    assert np.all(np.diff(errors) < 0) and errors[-1] < 2e-4, errors
    if stages != 4:
        # accuracy, not stability, sets the step: its error falls as the third power of it, the solution's as the second
        slope = np.polyfit(np.log(tolerances), np.log(errors), 1)[0]
        assert 0.5 < slope < 1.1, (slope, errors)


def test_adaptive_steps_are_kept_stable():
    system, ts = fisher(), np.array([0.0, 40.0])
    solver, steps = pdefit.solvers.RKC(4), pdefit.Adaptive(0.1, 0.1)
    limit = real_interval(4) / 2 * stable(system)
    # the front has left: nothing but stability bounds a step
    grid = adaptive_grid(system, system.init(None), ts, solver=solver, steps=steps, t0=0.0)
    assert 0.9 * limit < grid.step.max() < limit


def test_the_estimate_is_of_third_order():
    method, y, t = method_of(pdefit.solvers.RKC(5)), Swing(k=2.0).init(None), jnp.zeros(())

    @jax.jit
    def estimate(h):
        return jnp.abs(method.step_with_error(Swing(k=2.0), t, h, y, None)[1].v[1])

    np.testing.assert_allclose(np.log2(estimate(0.02) / estimate(0.01)), 3.0, atol=0.2)


@pytest.mark.parametrize("options", [{"dt": 0.4}, {"dt": None, "steps": pdefit.Adaptive(1e-4, 1e-5)}])
def test_gradients_are_right_and_do_not_depend_on_the_adjoint(options):
    functional, v = fisher_functional(solver=pdefit.solvers.RKC(), **options), np.array([0.6, -0.8])
    assert functional.runner.solver.stages is not None
    gradient = eqx.filter_jit(lambda f, t: f.value_and_grad(t)[1])
    found = [
        gradient(eqx.tree_at(lambda f: f.runner.adjoint, functional, a), functional.theta0)
        for a in (pdefit.adjoints.StoreAll(), pdefit.adjoints.Checkpointed(3))
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    assert abs(central_difference(functional, functional.theta0, v, 3e-4) / float(found[0] @ v) - 1) < 1e-7


def test_a_batch_is_each_alone():
    zero, h, y0 = jnp.zeros(()), jnp.asarray(0.1), fisher().init(None)

    @jax.jit
    @jax.vmap
    def stepped(D):
        return pdefit.solvers.RKC(6).one_step(FisherKPP(GRID, D=D, r=1.0, front=-5.0), zero, h, y0, None).u

    alone = one_step(pdefit.solvers.RKC(6), fisher(), zero, h, y0, None).u
    np.testing.assert_allclose(np.asarray(stepped(np.asarray([0.5, 1.0])))[1], alone, atol=1e-14)


def test_a_dimensionless_time_has_no_unit_in_messages():
    example = GrayScott.example(4)
    with pytest.raises(pdefit.PdefitError, match=r"dt = 9999 is beyond the stability limit [\d.]+ of GrayScott"):
        choose_steps([(example.system, example.y0)], 9999.0, diffrax.Euler())
