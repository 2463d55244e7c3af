"""Fits end to end: recovery, stages, budgets, interruption, events."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, fisher, fisher_functional, planets_functional, stable
from small_systems import Decay, Lines

import pdefit
from pdefit._util.trees import cast
from pdefit.inverse.fit.compiled_loop import first_carry
from pdefit.inverse.optimizers import levenberg_marquardt


@pytest.mark.parametrize(
    "optimizer", [pdefit.optimizers.LevenbergMarquardt(), pdefit.optimizers.LBFGS()], ids=lambda o: type(o).__name__
)
def test_a_twin_returns_its_parameters(optimizer):
    found = pdefit.fit(fisher_functional(), [optimizer])
    np.testing.assert_allclose([found.problem.system.D, found.problem.system.r], 1.0, rtol=1e-6)
    assert found.converged and found.status == "done"
    assert found.loss < 1e-12 < found.loss_initial


def test_a_fit_from_another_start_compiles_nothing(caplog):
    functional, stages = fisher_functional(), [pdefit.optimizers.LevenbergMarquardt()]
    first, second, theta = pdefit.fit(functional, stages), fisher_functional(), functional.theta0 + 0.1
    loss = float(VALUE(functional, theta))
    with jax.log_compiles():
        found = pdefit.fit(functional, stages, theta=theta)
        other = pdefit.fit(second, stages)
        assert "XLA compilation" not in caplog.text
        jax.jit(lambda x: 2 * x)(loss)
    assert "XLA compilation" in caplog.text
    np.testing.assert_allclose(found.theta, first.theta, atol=1e-6)
    assert found.loss_initial == pytest.approx(loss, rel=1e-12)
    assert np.array_equal(other.theta, first.theta)


def test_a_start_of_another_size_is_refused():
    with pytest.raises(pdefit.PdefitError, match="expects a start theta of 2 values, but got an array of shape .3,."):
        pdefit.fit(fisher_functional(), [pdefit.optimizers.LBFGS()], theta=np.zeros(3))


def test_masses_are_found_from_far_off():
    stages = [
        pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), formulation=pdefit.formulations.Segments(0.25)),
        pdefit.Stage(
            pdefit.optimizers.LevenbergMarquardt(tolerance=1e-14), formulation=pdefit.formulations.Segments(3.0)
        ),
    ]
    found = pdefit.fit(planets_functional(), stages)
    np.testing.assert_allclose(found.problem.system.gm, [1.0, 1e-3, 3e-3], rtol=1e-5)
    assert found.functional.layout.segments == 2
    assert {r.stage for r in found.history} == {1, 2}


def test_an_initial_field_is_found_by_a_sobolev_variable():
    truth = fisher()
    y0, ts = truth.init(None), np.linspace(0.0, 0.5, 6)
    data = pdefit.simulate(truth, y0, ts, dt=0.05)
    flat = pdefit.Problem(truth, type(y0)(jnp.full_like(y0.u, 0.4)))
    controls = {"y0": {"u": pdefit.Control(pdefit.transforms.Identity(), smoothing=1.0)}}
    functional = pdefit.Functional(flat, data, controls, dt=0.05)
    found = pdefit.fit(functional, [pdefit.optimizers.LBFGS()])
    error = np.linalg.norm(found.problem.y0.u - y0.u) / np.linalg.norm(y0.u)
    assert error < 1e-3


def test_the_budget_is_kept_and_every_evaluation_recorded():
    seen = []
    found = pdefit.fit(
        fisher_functional(), [pdefit.optimizers.Adam(0.01)], max_iterations=7, callback=lambda p: seen.extend(p.records)
    )
    assert [r.iteration for r in found.history] == list(range(1, 8)) == [r.iteration for r in seen]
    assert not found.converged
    assert found.loss == min(r.loss for r in found.history)


def test_the_best_point_is_kept_even_if_the_last_is_worse():
    found = pdefit.fit(fisher_functional(), [pdefit.optimizers.Adam(0.8)], max_iterations=30)
    losses = [r.loss for r in found.history]
    assert losses[-1] > min(losses) == found.loss
    np.testing.assert_allclose(VALUE(found.functional, jnp.asarray(found.theta)), found.loss, rtol=1e-12)


def test_an_interrupt_returns_the_best_so_far():
    def stop(progress):
        if progress.iteration >= 3:
            raise KeyboardInterrupt

    found = pdefit.fit(fisher_functional(), [pdefit.optimizers.Adam(0.01)], callback=stop)
    assert found.status == "interrupted" and len(found.history) >= 3
    assert found.loss == min(r.loss for r in found.history)


def test_a_blow_up_on_the_way_is_rejected_and_logged():
    functional = fisher_functional(
        controls={"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}, guess=(3.0, 0.05)
    )
    # so large a step that the explicit scheme explodes
    found = pdefit.fit(functional, [pdefit.Stage(pdefit.optimizers.Adam(3.0), 40)])
    assert any("not finite" in event for event in found.events)
    assert np.isfinite(found.loss) and found.loss <= found.loss_initial
    assert any(not r.accepted for r in found.history)


def test_a_first_guess_that_blows_up_is_an_error_with_a_remedy():
    functional = fisher_functional(guess=(1.0, 1.0), dt=0.2)
    theta = functional.theta0.at[0].set(5.0)
    blown = functional.reformulated(pdefit.formulations.Single(), theta)
    with pytest.raises(pdefit.PdefitError, match="use a smaller dt"):
        pdefit.fit(blown, [pdefit.optimizers.LevenbergMarquardt()])


def test_a_fit_without_stages_is_refused():
    with pytest.raises(pdefit.PdefitError, match="at least one stage"):
        pdefit.fit(fisher_functional(), [])


def test_a_fit_without_evaluations_is_refused():
    with pytest.raises(pdefit.PdefitError, match="max_iterations expects 1 or more, but got 0"):
        pdefit.fit(fisher_functional(), [pdefit.optimizers.LevenbergMarquardt()], max_iterations=0)


def test_stages_with_other_tolerances_share_the_program_of_their_optimizer(monkeypatch):
    traced, step = [], levenberg_marquardt._step
    monkeypatch.setattr(levenberg_marquardt, "_step", lambda *given: traced.append(1) or step(*given))
    stages = [pdefit.optimizers.LevenbergMarquardt(tolerance=x) for x in (1.1e-2, 1.2e-9)]
    found = pdefit.fit(fisher_functional(), stages)
    assert {r.stage for r in found.history} == {1, 2} and found.converged
    # another test may have compiled it
    assert len(traced) <= 1


def stage_two(progress):
    if progress.stage == 1:
        raise KeyboardInterrupt


def test_what_is_reported_belongs_to_the_last_functional():
    """Whether the budget ends in the first stage or the user interrupts the second."""
    stages = [
        pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), formulation=pdefit.formulations.Segments(0.25)),
        pdefit.Stage(pdefit.optimizers.Adam(1e-6), formulation=pdefit.formulations.Segments(3.0)),
    ]
    for options in ({"max_iterations": 2}, {"callback": stage_two}):
        found = pdefit.fit(planets_functional(), stages, **options)
        np.testing.assert_allclose(VALUE(found.functional, jnp.asarray(found.theta)), found.loss, rtol=1e-12)
        assert not found.converged
        assert found.loss < found.loss_initial


def test_a_stage_that_blows_up_leaves_the_stages_before_it():
    """A grown window that is not finite from the point reached is skipped and said so."""

    class Broken(pdefit.formulations.Single):
        def layout(self, ts, dt, *bends):
            layout = super().layout(ts, dt, *bends)
            return eqx.tree_at(lambda x: x.time_grid.step, layout, layout.time_grid.step * 1e6)

    stages = [
        pdefit.optimizers.LevenbergMarquardt(),
        pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), formulation=Broken()),
    ]
    found = pdefit.fit(fisher_functional(), stages)
    np.testing.assert_allclose(found.problem.system.D, 1.0, rtol=1e-6)
    assert any("stage skipped" in event for event in found.events)


def test_a_step_that_is_hardly_stable_at_the_estimate_is_mentioned():
    found = pdefit.fit(fisher_functional(dt=0.22, times=0.22 * np.arange(19)), [pdefit.optimizers.LevenbergMarquardt()])
    limit = stable(fisher()) * 2.785 / 2
    assert 0.8 * limit < 0.22 < limit
    assert any("close to the stability limit" in event for event in found.events)


@pytest.mark.parametrize("optimizer", ["LevenbergMarquardt", "GaussNewtonCG", "LBFGS"])
def test_a_minimum_is_recognised_in_float32(optimizer):
    """The round-off of J is measured: a step that promises less than it ends the search."""
    double = fisher_functional(noise=0.02)
    single = pdefit.Functional(
        cast(double.problem, jnp.float32),
        double.observations,
        dict.fromkeys(("D", "r"), pdefit.transforms.Log()),
        dt=0.05,
    )
    assert (
        0
        < float(first_carry(double, pdefit.optimizers.LevenbergMarquardt(), double.theta0).state.box.round_off)
        < 1e-13
    )
    assert (
        1e-8
        < float(first_carry(single, pdefit.optimizers.LevenbergMarquardt(), single.theta0).state.box.round_off)
        < 1e-3
    )
    found = pdefit.fit(single, [getattr(pdefit.optimizers, optimizer)()], max_iterations=60)
    exact = pdefit.fit(double, [pdefit.optimizers.LevenbergMarquardt()])
    error = pdefit.intervals(exact.functional, exact.theta, sigma_stated=True).error
    assert found.converged and np.all(np.abs(np.asarray(found.theta - exact.theta)) < 0.05 * error)


@pytest.mark.parametrize("transform", [pdefit.transforms.Identity(), pdefit.transforms.Scale(0.5)])
def test_numbers_of_any_size_are_reached_from_zero(transform):
    """u = a t + c t^2 / 2 with a of 3e4 W/m^2: a limit of two of its own unit would take 15000 steps."""
    ts = np.linspace(0.0, 2.0, 5)
    seen = pdefit.Observations.build(ts, {"u": 3e4 * ts, "v": 2 * ts}, 0.1)
    system = Lines(*np.zeros(3))
    controls = {"a": pdefit.Control(transform), "b": pdefit.Control(transform)}
    functional = pdefit.Functional(pdefit.Problem(system, system.init(None)), seen, controls, dt=0.5)
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    assert found.converged and found.iterations < 20
    np.testing.assert_allclose([found.problem.system.a, found.problem.system.b], [3e4, 2.0], rtol=1e-9)


# --- stages that lead away from a better guess ------------------------------------------------------------------------

LM = pdefit.optimizers.LevenbergMarquardt()
AWAY = [pdefit.Stage(LM, 10, pdefit.formulations.Single(until=0.3)), pdefit.Stage(LM, 1, pdefit.formulations.Single())]


def decay_from(guess, early):
    """A decay with the rate 0.7, of which the frames before 0.3 are read wrong by so much."""
    truth, ts = Decay(k=0.7), np.linspace(0.0, 3.0, 11)
    u = np.array(pdefit.simulate(truth, truth.init(None), ts, dt=0.1).values["u"])
    u[1] += early
    problem = pdefit.Problem(Decay(k=guess), truth.init(None))
    data = pdefit.Observations.build(ts, {"u": u}, sigma=0.1)
    return pdefit.Functional(problem, data, {"k": pdefit.transforms.Log()}, dt=0.1)


@pytest.mark.parametrize("join", [lambda f: f, lambda f: pdefit.Recordings([f, f])], ids=["one", "recordings"])
def test_a_stage_begins_at_the_guess_if_what_prepared_it_led_away(join):
    found = pdefit.fit(join(decay_from(0.72, 0.4)), AWAY)
    assert found.history[-1].loss == pytest.approx(found.loss_initial, rel=1e-12)
    assert any("stage 2: J is" in e and e.endswith("begun at the guess") for e in found.events)


def test_members_begin_at_their_guess_if_what_prepared_it_led_away():
    members = pdefit.Members.of([decay_from(0.72, 0.4), decay_from(2.0, 0.0)])
    found = pdefit.fit_members(members, AWAY)
    guess = [float(VALUE(members.member(e), x)) for e, x in enumerate(members.theta0)]
    assert found.loss[0] == pytest.approx(guess[0], rel=1e-12)
    # what the stages carried is the better start of the second
    assert found.loss[1] < 1e-3 * guess[1]
