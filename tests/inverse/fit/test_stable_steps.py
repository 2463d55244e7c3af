"""Constant steps that were left open: chosen for the guess, and again where the best point asks for smaller ones."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, fisher, fisher_functional, stable
from resumed import bits, run
from small_systems import Hastening, KdV, Late, Lorenz

import pdefit
from pdefit.inverse.fit import _fit_run as fit_run
from pdefit.inverse.fit.choose_solver import choose_solver
from pdefit.inverse.fit.renew_steps import StepWatch
from pdefit.inverse.fit.unstable_steps import (
    deciding_control,
    longer_than_frames,
    refuse_unstable,
    share_of_limit,
    step_choice,
)
from pdefit.inverse.objective.variants import stepped

# the stable step at the truth is a fifth of that here
FAR = (0.19, 0.22)
LM = [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 40)]
HALF = fisher(*FAR)


def front(guess=FAR, **options):
    return fisher_functional(guess=guess, **{"dt": None, "noise": 0.02, **options})


def renewals(fit):
    return [e for e in fit.events if "steps renewed" in e]


def test_the_step_is_chosen_for_the_guess_whatever_the_bounds():
    wide = {name: pdefit.Control(pdefit.transforms.Log(), bounds=(0.01, 100.0)) for name in ("D", "r")}
    functional, free = front(controls=wide), front()
    step = stable(HALF)
    np.testing.assert_allclose(functional.dt, 0.8 * step)
    assert functional.layout.time_grid.steps == free.layout.time_grid.steps == 8 * int(np.ceil(0.5 / (0.8 * step)))


def test_the_plan_says_which_control_decides():
    functional = front((0.6, 1.5))
    choice = step_choice(functional)
    limit = stable(functional.problem.system) * 2.785 / 2
    assert (choice.decided_by, choice.given) == ("D", False)
    np.testing.assert_allclose(choice.share, functional.layout.time_grid.largest / limit, rtol=1e-2)
    assert "of what is stable at the guess; decided by D (" in str(choice)
    # growth decides where diffusion is slow; a field that the limit does not depend on never does
    assert deciding_control(front((1e-3, 3.0)), front((1e-3, 3.0)).theta0) == "r"
    state = front(controls={"y0": {"u": pdefit.transforms.Identity()}})
    assert deciding_control(state, state.theta0) is None and "no control decides" in str(step_choice(state))
    assert "dt 0.05 s as given" in str(step_choice(front(dt=0.05))).replace(functional.problem.system.time_unit, "s")


def test_a_fit_that_needs_smaller_steps_than_its_guess():
    functional = front()
    assert 5 < stable(HALF) / stable(fisher()) < 6
    whole, rows, states = run(functional, LM)
    assert whole.converged
    # the truth is 1, 1
    np.testing.assert_allclose(whole.theta, 0.0, atol=0.03)
    found = renewals(whole)
    assert 1 <= len(found) <= 4 and "of the stability limit of dt = " in found[0]
    assert share_of_limit(whole.functional, whole.theta) <= 0.95 < share_of_limit(functional, whole.theta)

    hosted = pdefit.fit(functional, LM, driver=pdefit.drivers.Hosted("1 MB", "20 kB"))
    assert (hosted.iterations, hosted.events) == (whole.iterations, whole.events)
    np.testing.assert_allclose([r.theta for r in hosted.history], [r.theta for r in rows], rtol=1e-6)
    np.testing.assert_allclose(hosted.theta, whole.theta, rtol=1e-9)

    for state in states[::3]:
        again, later, _ = run(functional, LM, resume=state)
        assert np.asarray(again.theta).tobytes() == np.asarray(whole.theta).tobytes()
        # losses that are not finite are equal as texts
        assert repr(bits(rows[: state.iterations] + later)) == repr(bits(rows))
        assert (again.loss, again.events) == (whole.loss, whole.events)
        assert again.functional.layout.time_grid.step.tobytes() == whole.functional.layout.time_grid.step.tobytes()


def test_neither_the_clock_nor_the_next_windows_change_the_steps(monkeypatch):
    functional = front()
    windows = [pdefit.Stage(pdefit.optimizers.Adam(0.1), 32, pdefit.formulations.Segments(2.0)), *LM]
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 1)
    whole, rows, states = run(functional, windows)
    assert whole.converged and renewals(whole)
    # the second stage begins with the steps that the first ended with
    second = next(s for s in states if s.numbers["stage"] == 1)
    first = [s for s in states if s.numbers["stage"] == 0][-1]
    assert second.numbers["steps"]["stable"] == first.numbers["steps"]["stable"] is not None
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 64)
    fast, quick, fewer = run(functional, windows)
    assert len(fewer) < len(states)
    assert (fast.events, repr(bits(quick))) == (whole.events, repr(bits(rows)))
    again, later, _ = run(functional, windows, resume=second)
    assert (again.events, repr(bits(rows[: second.iterations] + later))) == (whole.events, repr(bits(rows)))


def test_a_given_step_stays_and_an_estimate_beyond_its_limit_is_named():
    # stable at the guess, and unstable at the truth of a record that is too short to blow up
    short = {"times": np.linspace(0.0, 0.5, 3), "noise": 1e-3}
    functional = front((0.6, 1.0), dt=0.25, **short)
    fit = pdefit.fit(functional, LM)
    assert fit.functional.dt == 0.25 and not renewals(fit)
    [event] = [e for e in fit.events if "beyond the stability limit" in e]
    assert "which D decides; set dt=0.2 or less" in event


def test_stages_that_were_left_open_are_counted_again():
    functional = front(solver=pdefit.solvers.RKC(), dt=0.25)
    fit = pdefit.fit(functional, LM)
    before, after = functional.runner.solver.stages, fit.functional.runner.solver.stages
    assert fit.converged and renewals(fit) and after > before
    assert fit.functional.dt == 0.25 and share_of_limit(fit.functional, fit.theta) <= 0.95


def test_recordings_take_the_step_that_all_of_them_need():
    own = {"D": pdefit.transforms.Log(), "r": pdefit.Control(pdefit.transforms.Log(), scope="experiment")}
    make = [front(guess, controls=own) for guess in ((0.3, 0.3), (0.3, 1.5))]
    together = pdefit.Recordings(make)
    assert make[0].dt > make[1].dt == together.part(1).dt
    fit = pdefit.fit(together, LM)
    assert fit.converged and renewals(fit)
    np.testing.assert_allclose(fit.theta[1:], fit.theta[1], atol=1e-2)
    assert fit.functional.part(0).dt == fit.functional.part(1).dt < make[1].dt


def test_backups_are_counted_again_for_other_steps():
    functional = front(adjoint=pdefit.adjoints.Backsolve())
    finer = stepped(functional, 0.02)
    assert finer.runner.adjoint.backups >= functional.runner.adjoint.backups
    expected = front(adjoint=pdefit.adjoints.Backsolve(), dt=finer.dt).runner.adjoint.backups
    assert finer.runner.adjoint.backups == expected
    given = stepped(front(adjoint=pdefit.adjoints.Backsolve(backups=1)), 0.02)
    assert given.runner.adjoint.backups == 1


def test_later_stages_take_larger_steps_again():
    functional, watch = front(), StepWatch()
    watch.stable = stable(HALF) / 6
    small = stepped(functional, watch.stable)
    again, event = watch.start(small, functional.theta0)
    assert again.dt == pytest.approx(6 * small.dt) and "steps renewed" in event
    # those that were made smaller because the model blew up are kept, and those that are hardly smaller
    watch.stable, watch.halved = stable(HALF) / 6, True
    assert watch.start(small, functional.theta0) == (small, "")
    watch.stable, watch.halved = stable(HALF) / 1.5, False
    assert watch.start(small, functional.theta0) == (small, "")


class Stiffening(pdefit.AbstractSystem):
    """x' = -k r^2 (x^3 - 1), r' = 1: the longer it runs, the smaller the steps must be."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        x, r = y
        return jnp.stack([-self.k * r**2 * (x**3 - 1), jnp.ones_like(r)])

    def init(self, key):
        return jnp.asarray([0.5, 1.0])


def stiffening(dt):
    truth, ts = Stiffening(1.0), np.linspace(0.0, 2.0, 5)
    data = pdefit.simulate(truth, truth.init(None), ts, dt=0.01)
    problem = pdefit.Problem(Stiffening(1.2), truth.init(None))
    return pdefit.Functional(problem, data, {"k": pdefit.transforms.Log()}, dt=dt)


def test_a_model_that_blows_up_at_the_guess_takes_smaller_steps():
    functional = stiffening(None)
    assert not np.isfinite(VALUE(functional, functional.theta0))
    whole, rows, states = run(functional, LM)
    assert "the model blows up at the guess with dt = " in whole.events[1] and whole.functional.dt < functional.dt
    assert np.isfinite(whole.loss) and whole.loss < whole.loss_initial
    again, later, _ = run(functional, LM, resume=states[0])
    assert repr(bits(rows[:1] + later)) == repr(bits(rows)) and again.functional.dt == whole.functional.dt
    with pytest.raises(
        pdefit.PdefitError, match=r"blows up at the guess with dt = .* s; set dt=0\.\d+ or less"
    ) as error:
        pdefit.fit(stiffening(functional.dt), LM)
    named = float(str(error.value).split("set dt=")[1].split()[0])
    assert np.isfinite(pdefit.fit(stiffening(named), LM, max_iterations=1).loss)


def hastening(guess=1.3, dt=None):
    ts, system = np.linspace(0.0, 2.0, 5), Hastening(jnp.asarray(guess))
    data = pdefit.Observations.build(ts, {"y": np.exp(-ts / 2 - ts**5 / 5)}, sigma={"y": 1e-4})
    problem = pdefit.Problem(system, system.init(None), pdefit.instruments.Select(("y",)))
    return pdefit.Functional(problem, data, {"k": pdefit.transforms.Log()}, dt=dt)


def test_steps_that_were_judged_at_the_start_become_small_enough_for_the_whole_record():
    functional = hastening()
    whole, rows, states = run(functional, LM)
    # half the step moves the estimate by less than 3 % of its standard error, which is 1.3e-4
    np.testing.assert_allclose(np.exp(whole.theta), 1.0, rtol=0.03 * 1.3e-4)
    halvings = [e for e in whole.events if "half the step would move the residuals" in e]
    assert whole.functional.dt < functional.dt / 8 and len(halvings) > 1
    again, later, _ = run(functional, LM, resume=states[len(states) // 2])
    assert repr(bits(rows[: len(rows) - len(later)] + later)) == repr(bits(rows))
    assert again.functional.dt == whole.functional.dt and np.array_equal(again.theta, whole.theta)
    # a given step stays, and so does an estimate that is off by many standard errors
    given = pdefit.fit(hastening(dt=0.5), LM)
    assert given.functional.dt == 0.5 and abs(np.exp(given.theta[0]) - 1) > 1e-2


def test_what_no_step_resolves_is_named():
    # round-off decides in so long a record
    system, ts = Lorenz(), np.linspace(0.0, 100.0, 11)
    data = pdefit.Observations.build(ts, {"u": np.zeros((11, 3))}, sigma={"u": 1.0})
    functional = pdefit.Functional(pdefit.Problem(system, system.init(None)), data, {"rho": pdefit.transforms.Log()})
    fit = pdefit.fit(functional, LM, max_iterations=2)
    assert sum("something happens within a step; use steps=adaptive, or state its time" in e for e in fit.events) == 1


def test_the_absolute_tolerance_follows_the_size_of_the_state():
    slow, fast = (choose_solver(Reaction(jnp.asarray(1e9)), Late(*jnp.array([x, x])), 1.0) for x in (1.0, 1e-8))
    assert slow.steps is not None and fast.steps is not None
    assert (slow.steps.atol, fast.steps.atol) == (1e-8, 1e-8 * 1e-8)


class Reaction(Hastening):
    """A stiff decay of concentrations of any size."""

    def vector_field(self, t, y, args):
        return Late(-self.k * y.x, self.k * y.x - y.y)


def waves(dt, count=5):
    truth, ts = KdV(), np.linspace(0.0, 0.2, count)
    data = pdefit.simulate(truth, truth.init(None), ts, dt=0.001)
    problem = pdefit.Problem(KdV(l1=1.1), truth.init(None))
    return pdefit.Functional(problem, data, {"l1": pdefit.transforms.Log()}, dt=dt)


def test_a_given_step_beyond_the_region_of_the_solver_is_refused():
    # RK4 on waves is stable up to 2.83 / 2320 = 0.00122
    refuse_unstable(waves(0.00119))
    with pytest.raises(
        pdefit.PdefitError, match="dt = 0.0014.* is unstable for KdV with RK4: in 140 steps noise"
    ) as error:
        refuse_unstable(waves(0.00143))
    named = float(str(error.value).split("set dt=")[1].split()[0])
    assert 0.0008 < named <= 0.00122
    refuse_unstable(waves(named))
    # a chosen one is stable
    chosen = waves(None)
    assert 0.5 / 2330 / 1.3 <= chosen.dt <= 0.5 / 2310 and "fastest time" in str(step_choice(chosen))


def test_a_step_longer_than_the_intervals_of_the_record_is_named():
    (remark,) = longer_than_frames(front(dt=0.7))
    assert "dt = 0.7 s is longer than the 0.5 s between observations" in remark
    assert longer_than_frames(front(dt=0.5)) == longer_than_frames(front()) == ()
