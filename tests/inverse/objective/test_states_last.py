"""Initial states among the controls: they come last, windows prepare the others, and histories follow the numbers."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, fisher_functional

import pdefit

FREE = {"y0": {"u": pdefit.transforms.Identity()}, "D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}


@pytest.fixture
def small_fields(monkeypatch):
    """What is a field here would be numbers to histories and tables."""
    for module in ("theta", "bound_control"):
        monkeypatch.setattr(f"pdefit.inverse.controls.{module}.FEW", 20)


def front():
    times = np.linspace(0.0, 3.0, 7)
    return fisher_functional(FREE, noise=0.01, times=times, guess=(0.7, 1.3), dt=0.1)


def test_numbers_come_first_and_states_last_however_they_are_declared(small_fields):
    controls = front().controls
    assert [c.path for c in controls.items] == ["D", "r", "y0.u"]
    assert [c.path for c in controls.states.items] == ["y0.u"] and controls.states.size == 64
    assert [c.path for c in controls.without_states.items] == [c.path for c in controls.tabulated.items] == ["D", "r"]
    assert controls.names()[:3] == ["D", "r", "y0.u.0"]


def test_a_small_state_is_followed_like_numbers():
    controls = front().controls
    assert controls.tabulated.size == 66 and controls.without_states.size == 2


def test_windows_prepare_the_numbers_and_the_last_stage_has_the_state_free(small_fields):
    functional = front()
    short = pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 4, formulation=pdefit.formulations.Segments(1.0))
    last = pdefit.Stage(pdefit.optimizers.GaussNewtonCG(), 30)
    alone, both = (pdefit.fit(functional, stages) for stages in ([short], [short, last]))
    assert alone.functional.layout.segments == 3 and alone.theta.size == 2
    assert alone.functional.problem.nodes is not None
    assert both.functional.layout.segments == 1 and both.theta.size == 66 and both.functional.problem.nodes is None
    begin = next(r for r in both.history if r.stage == 2)
    # numbers are carried over, the state begins at its guess
    np.testing.assert_array_equal(begin.theta, alone.theta)
    at = jnp.concatenate([alone.theta, functional.theta0[2:]])
    assert begin.loss == pytest.approx(float(VALUE(functional, at)), rel=1e-9)
    assert {r.theta.size for r in both.history} == {2}
    # the last stage moved the state, and gained by it
    assert both.loss < 0.9 * begin.loss and np.max(np.abs(both.theta[2:] - functional.theta0[2:])) > 1e-3
    np.testing.assert_allclose([both.problem.system.D, both.problem.system.r], 1.0, atol=0.1)


def test_a_state_alone_has_nothing_to_prepare():
    functional = fisher_functional({"y0": {"u": pdefit.transforms.Identity()}}, dt=0.1)
    with pytest.raises(pdefit.PdefitError, match=r"a control that is no state; remove stage\.window"):
        functional.reformulated(pdefit.formulations.Segments(1.0), functional.theta0)
