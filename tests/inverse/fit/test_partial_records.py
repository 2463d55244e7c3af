"""Stages that fit a part of the record: the first frames of one trajectory, every n-th window."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, fisher_functional, lines, planets_functional
from resumed import bits, run
from small_systems import Lorenz, State

import pdefit
from pdefit.inverse.fit import _fit_run as fit_run
from pdefit.inverse.fit.stages import same_windows, with_windows
from pdefit.inverse.objective.compiled import weighted

GRADIENT = eqx.filter_jit(pdefit.Functional.value_and_grad)
LM = pdefit.optimizers.LevenbergMarquardt()
FREE = {"y0": {"u": pdefit.transforms.Identity()}, "D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}
TIMES = np.linspace(0.0, 4.0, 9)


def front(controls=None, times=TIMES, **options):
    return fisher_functional(controls, noise=0.01, times=times, dt=0.1, **options)


def lorenz():
    """rho and the state it starts from, from ten time units with noise, in which a deviation grows by exp(9)."""
    truth, ts = Lorenz(), np.linspace(0.0, 10.0, 201)
    record = pdefit.simulate(truth, truth.init(None), ts, dt=0.01)
    data = pdefit.add_noise(record, 0.03, jax.random.key(0))
    problem = pdefit.Problem(Lorenz(rho=27.0), State(jnp.asarray(data.values["u"][0])))
    return pdefit.Functional(
        problem, data, {"rho": pdefit.transforms.Log(), "y0": {"u": pdefit.transforms.Identity()}}, dt=0.01
    )


@pytest.mark.parametrize("controls", [None, FREE], ids=["numbers", "a free state"])
def test_the_first_frames_are_those_of_a_shorter_record(controls):
    whole, short = front(controls), front(controls, times=TIMES[:4])
    # the noise is that of the whole record
    data = whole.observations.at(slice(0, 4))
    short = pdefit.Functional(
        short.problem, data, controls or {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}, dt=0.1
    )
    part = whole.reformulated(pdefit.formulations.Single(until=1.5), whole.theta0)
    assert part.theta0.size == whole.theta0.size and part.observed_values == short.observed_values == 4 * 64
    theta = whole.theta0 + 0.01
    for a, b in zip(GRADIENT(part, theta), GRADIENT(short, theta), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-10)


def test_every_nth_window_is_a_part_of_all():
    whole = planets_functional(length=0.5)
    some = whole.reformulated(pdefit.formulations.Segments(0.5, every=5), whole.theta0)
    assert whole.layout.segments == 12
    np.testing.assert_array_equal(some.layout.nodes, whole.layout.nodes[::5])
    squares = [weighted(f, f.theta0 + 0.01)["position"] ** 2 for f in (whole, some)]
    np.testing.assert_allclose(squares[1], squares[0][::5], rtol=1e-10)
    assert np.sum(squares[1]) > 0


def test_a_state_is_carried_on_from_part_to_whole(monkeypatch):
    for module in ("theta", "bound_control"):
        monkeypatch.setattr(f"pdefit.inverse.controls.{module}.FEW", 20)
    functional = front(FREE)
    parts = [
        pdefit.Stage(LM, 3, pdefit.formulations.Segments(1.0)),
        pdefit.Stage(LM, 4, pdefit.formulations.Single(until=1.5)),
    ]
    part, both = pdefit.fit(functional, parts), pdefit.fit(functional, [*parts, pdefit.Stage(LM, 5)])
    # a fit that ends with a part is judged by the whole
    for fit in (part, both):
        assert fit.theta.size == functional.theta0.size and fit.functional.observed_values == 9 * 64
        assert fit.loss == pytest.approx(float(VALUE(functional, jnp.asarray(fit.theta))), rel=1e-9)
    begin = next(r for r in both.history if r.stage == 3)
    assert begin.loss == pytest.approx(part.loss, rel=1e-9) and both.loss < part.loss
    assert not part.converged


def test_a_fit_that_is_stopped_in_a_part_is_judged_by_the_whole():
    functional = front(FREE)
    for part in (pdefit.formulations.Single(until=1.5), pdefit.formulations.Segments(0.5, every=3)):
        found = pdefit.fit(functional, [pdefit.Stage(LM, 5, part), pdefit.Stage(LM, 5)], max_iterations=2)
        assert found.iterations == 2 and found.functional.observed_values == 9 * 64 and not found.converged
        np.testing.assert_allclose(found.loss, VALUE(functional, jnp.asarray(found.theta)), rtol=1e-9)


def test_a_stage_after_a_part_has_the_whole_record():
    for part in (pdefit.formulations.Single(until=1.5), pdefit.formulations.Segments(0.5, every=3)):
        found = pdefit.fit(front(), [pdefit.Stage(LM, 3, part), pdefit.Stage(LM, 3)])
        assert found.functional.layout.segments == 1 and found.functional.observed_values == 9 * 64


def test_one_trajectory_follows_windows():
    near, whole = (pdefit.Stage(LM, 1, f) for f in (pdefit.formulations.Segments(1.0), pdefit.formulations.Single()))
    kept = pdefit.Stage(LM)
    assert "give it `window: whole` (`Single()` in Python)" in same_windows([near, kept], 1, 0)[0]
    assert same_windows([near, whole, kept], 2, 1) == ()
    one, free = lines(np.linspace(0.0, 2.0, 5))[0], lines(np.linspace(0.0, 4.0, 9))[0]
    both = pdefit.Recordings([one, free])
    windows = both.reformulated(near.formulation, both.theta0)
    assert [part.layout.segments for part, _ in windows.parts(both.theta0)] == [2, 4]
    whole = with_windows(both, whole.formulation)
    assert [part.layout.segments for part, _ in whole.parts(both.theta0)] == [1, 1]
    assert all(c.prior is None for c in whole.controls.items)


def test_it_is_resumed_from_any_state(monkeypatch):
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 2)
    stages = [
        pdefit.Stage(LM, 4, p)
        for p in (pdefit.formulations.Segments(1.0, every=2), pdefit.formulations.Single(until=1.5), None)
    ]
    functional = front(FREE)
    whole, rows, states = run(functional, stages)
    assert {s.numbers["stage"] for s in states} == {0, 1, 2}
    for state in states:
        found, later, _ = run(functional, stages, resume=state)
        assert bits(rows[: state.iterations] + later) == bits(rows)
        assert np.asarray(found.theta).tobytes() == np.asarray(whole.theta).tobytes()


def test_a_chaotic_record_is_followed_step_by_step():
    functional = lorenz()
    at_once = pdefit.fit(functional, [pdefit.Stage(LM, 100)])
    steps = [pdefit.Stage(LM, 20, pdefit.formulations.Single(until=t)) for t in (1.0, 2.0, 4.0, 7.0)]
    followed = pdefit.fit(functional, [*steps, pdefit.Stage(LM, 100)])
    values = functional.observed_values
    assert followed.converged and 0.8 < 2 * followed.loss / values < 1.2 and at_once.loss > 10 * followed.loss
    assert abs(float(followed.problem.system.rho) / 28 - 1) < 1e-3


class Logistic(pdefit.AbstractSystem):
    """u' = r u (1 - u / K), of which the beginning does not show K."""

    time_unit: ClassVar[str] = "s"
    r: jax.Array = pdefit.parameter(positive=True)
    K: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(self.r * y.u * (1 - y.u / self.K))

    def init(self, key):
        return State(jnp.array([1e-4]))


def test_a_number_that_the_beginning_does_not_show_stays_near_its_guess():
    """Its logarithm drifted until no later stage felt it: noise of the beginning likes growth without end."""
    truth, ts = Logistic(r=1.0, K=1.0), np.linspace(0.0, 16.0, 33)
    record = pdefit.simulate(truth, truth.init(None), ts, dt=0.1)
    data = pdefit.add_noise(record, 0.01, jax.random.key(3))
    problem = pdefit.Problem(Logistic(r=1.2, K=0.8), truth.init(None))
    functional = pdefit.Functional(problem, data, {n: pdefit.transforms.Log() for n in ("r", "K")}, dt=0.1)
    beginning = pdefit.Stage(LM, 20, pdefit.formulations.Single(until=5.0))
    seen = []
    found = pdefit.fit(functional, [beginning, pdefit.Stage(LM, 20)], callback=seen.append)
    before = np.exp([p.theta for p in seen if p.stage == 0][-1])
    assert abs(np.log(before[1] / 0.8)) < 1.5
    assert found.converged and np.allclose(found.theta, 0.0, atol=0.02)


def test_what_cannot_be():
    functional = front()
    with pytest.raises(pdefit.PdefitError, match=r"until = 0\.2 ends before the second time of the record, 0\.5"):
        functional.reformulated(pdefit.formulations.Single(until=0.2), functional.theta0)
    assert functional.reformulated(pdefit.formulations.Single(until=99.0), functional.theta0).observed_values == 9 * 64
    for every in (0, -1):
        with pytest.raises(ValueError, match="every to be at least 1"):
            pdefit.formulations.Segments(1.0, every=every)
    with pytest.raises(pdefit.PdefitError, match="of which only one in 2 is run have no jumps between them"):
        planets = planets_functional()
        pdefit.Functional(
            planets.problem, planets.observations, {"nodes": {"velocity": pdefit.transforms.Identity()}},
            formulation=pdefit.formulations.Segments(1.5, every=2), dt=0.02,
        )  # fmt: skip
