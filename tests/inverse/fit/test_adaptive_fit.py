"""Fits with adaptive steps: what is frozen, when it is renewed, and that both drivers and every resumption agree."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_particles import Gravity
from problems import VALUE, central_difference, fisher, fisher_functional, planets_functional
from resumed import bits, run

import pdefit
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.inverse.objective.variants import shortened

STEP_ERROR = eqx.filter_jit(lambda objective, theta: objective.step_error(theta))

FINE = pdefit.Adaptive(1e-7, 1e-9)
LM = [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 30)]


def front(**options):
    return fisher_functional(**{"dt": None, "solver": diffrax.Tsit5(), "steps": FINE, "noise": 0.02, **options})


def comet(factor=1.5, solver=None, steps=FINE, dt=None, length=None, e=0.8):
    """The mass that a comet falls around, from its positions over one turn."""
    position = np.array([[0.0, 0.0], [1 + e, 0.0]])
    velocity = np.array([[0.0, 0.0], [0.0, np.sqrt((1 - e) / (1 + e))]])
    make = {"names": ("sun", "comet"), "position": position, "velocity": velocity, "length_unit": "1"}
    truth, guess = Gravity(gm=np.array([1.0, 1e-3]), **make), Gravity(gm=np.array([factor, 1e-3]), **make)
    y0, ts = truth.init(None), np.linspace(0.0, 5.0, 11)
    data = pdefit.simulate(truth, y0, ts, solver=diffrax.Dopri8(), steps=pdefit.Adaptive(1e-12, 1e-13))
    return pdefit.Functional(
        pdefit.Problem(guess, y0, pdefit.instruments.Select("position")),
        pdefit.Observations.build(ts, data.values, 1e-2),
        {"gm": pdefit.Control(pdefit.transforms.Log())},
        solver=solver or diffrax.Dopri5(),
        steps=steps,
        dt=dt,
        formulation=None if length is None else pdefit.formulations.Segments(length),
    )


def windows(**options):
    """Multiple shooting of three planets with free velocities."""
    return planets_functional(
        {
            "gm": pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Perturb(0.8, 1.2)),
            "nodes": {"velocity": pdefit.transforms.Identity()},
        },
        **{"dt": None, "solver": diffrax.Tsit5(), "steps": FINE, **options},
    )


def test_the_value_is_that_of_fine_constant_steps():
    for adaptive, fine in ((front(), front(steps=None, dt=0.005)), (comet(), comet(steps=None, dt=5e-4))):
        found, expected = (float(VALUE(f, f.theta0)) for f in (adaptive, fine))
        assert abs(found / expected - 1) < 1e-5
        assert adaptive.layout.time_grid.steps < fine.layout.time_grid.steps / 5


@pytest.mark.parametrize("make", [front, windows])
def test_gradients_with_frozen_steps(make):
    functional = make()
    theta = functional.theta0
    _, gradient = eqx.filter_jit(pdefit.Functional.value_and_grad)(functional, theta)
    stored = eqx.tree_at(lambda f: f.runner.adjoint, functional, pdefit.adjoints.StoreAll())
    _, expected = eqx.filter_jit(pdefit.Functional.value_and_grad)(stored, theta)
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12 * float(jnp.max(jnp.abs(expected))))

    v = jax.random.normal(jax.random.key(3), theta.shape)
    v = v / jnp.linalg.norm(v)
    slope = float(jnp.vdot(gradient, v))
    assert abs(central_difference(functional, theta, v, 3e-4) / slope - 1) < 1e-7
    sizes = 1e-3 / 2.0 ** np.arange(4)
    base = float(VALUE(functional, theta))
    remainders = [abs(float(VALUE(functional, theta + e * v)) - base - e * slope) for e in sizes]
    rates = np.log2(np.asarray(remainders[:-1]) / np.asarray(remainders[1:]))
    assert np.all(np.abs(rates - 2.0) < 0.1), rates


def test_both_drivers_agree():
    functional = windows()
    theta = functional.theta0
    with_pieces = pdefit.drivers.Hosted("1 MB", "20 kB").functional(functional)
    for found, expected in zip(
        with_pieces.value_and_grad(theta),
        eqx.filter_jit(pdefit.Functional.value_and_grad)(functional, theta),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * float(jnp.max(jnp.abs(expected))))


def test_a_fit_is_the_same_piece_by_piece():
    functional = comet(1.3)
    traced = pdefit.fit(functional, LM)
    hosted = pdefit.fit(functional, LM, driver=pdefit.drivers.Hosted("1 MB", "20 kB"))
    # the logarithm of a number that is 1 but for round-off
    np.testing.assert_allclose(hosted.theta, traced.theta, rtol=1e-9, atol=1e-13)
    assert (hosted.iterations, len(hosted.events)) == (traced.iterations, len(traced.events))


def test_a_front_is_recovered_with_fewer_steps():
    constant = pdefit.fit(front(noise=0.0, steps=None, dt=0.05), LM)
    adaptive = pdefit.fit(front(noise=0.0, steps=pdefit.Adaptive(1e-5, 1e-7)), LM)
    system = adaptive.problem.system
    np.testing.assert_allclose([system.D, system.r], [1.0, 1.0], rtol=1e-4)
    assert adaptive.converged
    assert adaptive.functional.layout.time_grid.steps < constant.functional.layout.time_grid.steps / 2


def test_masses_of_planets_are_recovered():
    fit = pdefit.fit(planets_functional(dt=None, solver=diffrax.Tsit5(), steps=FINE), LM)
    np.testing.assert_allclose(fit.problem.system.gm, [1.0, 1e-3, 3e-3], rtol=1e-4)
    assert fit.functional.layout.time_grid.steps < planets_functional().layout.time_grid.steps / 2


def test_steps_are_renewed_where_the_guess_was_less_stiff():
    # three times lighter, the comet passes later and slower
    functional = comet(0.5)
    fit = pdefit.fit(functional, LM)
    np.testing.assert_allclose(fit.problem.system.gm, [1.0, 1e-3], rtol=1e-3)
    renewals = [e for e in fit.events if "steps renewed" in e]
    assert 1 <= len(renewals) <= sum(r.accepted for r in fit.history)
    assert fit.converged and np.isfinite(fit.loss_initial)
    # the last steps are right for the estimate, those of the guess were not
    assert 0.1 <= float(STEP_ERROR(fit.functional, fit.theta)) <= 1
    assert not 0.1 <= float(STEP_ERROR(functional, fit.theta)) <= 1
    # and the history tells
    errors = [r.step_error for r in fit.history if r.accepted]
    assert all(np.isfinite(e) for e in errors) and any(not 0.1 <= e <= 1 for e in errors)
    assert all(np.isnan(r.step_error) for r in fit.history if not r.accepted)


def test_steps_that_observations_keep_short_are_left_alone():
    fit = pdefit.fit(front(steps=pdefit.Adaptive(1e-2, 1e-2), noise=0.0, count=41), LM)
    assert fit.converged and not [e for e in fit.events if "renewed" in e]


def test_a_budget_bounds_renewed_fits_too():
    fit = pdefit.fit(comet(0.5), LM, max_iterations=5)
    assert fit.iterations == 5 and not fit.converged


@pytest.mark.parametrize(
    ("functional", "stages"),
    [
        (comet(0.5), LM),
        (comet(0.5), [pdefit.Stage(pdefit.optimizers.LBFGS(), 12)]),
        (
            comet(0.5, length=2.0),
            [
                pdefit.Stage(
                    pdefit.optimizers.LevenbergMarquardt(tolerance=1e-2), 6, pdefit.formulations.Segments(1.0)
                ),
                pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 8, reweight=pdefit.Reweight(rounds=2)),
            ],
        ),
    ],
    ids=["levenberg-marquardt", "lbfgs", "windows and weights"],
)
def test_states_lead_to_the_same_end(functional, stages):
    whole, rows, states = run(functional, stages)
    assert [s.iterations for s in states] == list(range(1, whole.iterations + 1))
    assert any("steps renewed" in e for e in whole.events)
    assert any("stage 2 goes on with the windows of stage 1; give it `window: whole`" in e for e in whole.events) == (
        len(stages) == 2
    )
    for state in {s.iterations: s for s in (*states[:2], *states[2::4], states[-1])}.values():
        found, later, _ = run(functional, stages, resume=state)
        assert np.asarray(found.theta).tobytes() == np.asarray(whole.theta).tobytes()
        assert bits(rows[: state.iterations] + later) == bits(rows)
        assert (found.loss, found.events) == (whole.loss, whole.events)
        assert found.functional.layout.time_grid.step.tobytes() == whole.functional.layout.time_grid.step.tobytes()


def test_a_finished_fit_is_extended():
    whole, rows, _ = run(comet(0.5), LM)
    for most in (2, whole.iterations - 1):
        _, first, states = run(comet(0.5), LM, most=most)
        found, later, _ = run(comet(0.5), LM, resume=states[-1])
        assert bits(first + later) == bits(rows)
        assert np.asarray(found.theta).tobytes() == np.asarray(whole.theta).tobytes()


@pytest.mark.parametrize("make", [front, windows])
def test_the_beginning_of_a_record_keeps_its_steps(make):
    functional = make()
    for count in (4, 7):
        short, _ = shortened(functional, functional.theta0, count)
        s, i = short.layout.time_grid.count.shape
        whole = functional.layout.time_grid
        taken = short.layout.time_grid.count > 0
        np.testing.assert_array_equal(short.layout.time_grid.count[taken], whole.count[:s, :i][taken])
        np.testing.assert_array_equal(short.layout.time_grid.step[taken], whole.step[:s, :i][taken])
        assert int(taken.sum()) == count - 1


def test_a_fingerprint_does_not_depend_on_the_steps_but_on_the_tolerance():
    functional = comet()
    assert fingerprint(functional) == fingerprint(functional.renewed(functional.theta0 - 0.3))
    assert fingerprint(functional) != fingerprint(comet(steps=pdefit.Adaptive(1e-6, 1e-9)))


def test_dt_and_adaptive_steps_exclude_each_other():
    with pytest.raises(pdefit.PdefitError, match="set dt=null"):
        comet(dt=0.1)
    with pytest.raises(pdefit.PdefitError, match="use Tsit5"):
        comet(solver=pdefit.solvers.RK4())
    with pytest.raises(pdefit.PdefitError, match="no tolerance"):
        functional = comet(steps=None, dt=0.1)
        STEP_ERROR(functional, functional.theta0)
    assert fisher().stable_step(fisher().init(None)) > 0


def test_half_the_steps_make_half_the_error_estimate():
    functional = front()
    halved = functional.with_time_grid(functional.layout.time_grid.halved())
    ratio = float(STEP_ERROR(functional, functional.theta0)) / float(STEP_ERROR(halved, functional.theta0))
    # of fifth order
    assert 16 < ratio < 64
    constant = front(steps=None, dt=0.05)
    assert constant.layout.time_grid.halved().steps == 2 * constant.layout.time_grid.steps
