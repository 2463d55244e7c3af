"""Many starts of one fit, and the optima that they reach."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import State

import pdefit
from pdefit._util.errors import PdefitError
from pdefit._util.run_state import RunState
from pdefit.inverse.members.drop_weak_starts import Explorer
from pdefit.inverse.members.optima import find_optima

LM = pdefit.optimizers.LevenbergMarquardt()


class Turning(pdefit.AbstractSystem):
    """u' = w (-u2, u1): its phase after a while has many wrong minima in w."""

    time_unit = "s"
    w: jnp.ndarray = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(self.w * jnp.stack([-y.u[1], y.u[0]]))

    def init(self, key):
        return State(jnp.array([1.0, 0.0]))


def turning(guess=1.0, control=None, count=17, noise=0.01):
    """The angular velocity of a record of three turns."""
    ts = np.linspace(0.0, 3.0, count)
    phase, random = 2 * np.pi * ts, np.random.default_rng(1)
    values = np.stack([np.cos(phase), np.sin(phase)], axis=1) + noise * random.standard_normal((count, 2))
    data = pdefit.Observations.build(ts, {"u": values}, noise)
    system = Turning(w=jnp.asarray(guess))
    problem = pdefit.Problem(system, system.init(None))
    return pdefit.Functional(problem, data, {"w": control or pdefit.transforms.Log()}, dt=0.05)


@pytest.mark.parametrize("design", ["sobol", "latin_hypercube"])
def test_starts_fill_what_numbers_may_be(design):
    bounded = pdefit.Control(pdefit.transforms.Log(), bounds=(0.5, 50.0))
    functional = turning(control=bounded)
    points = np.exp(pdefit.Starts(33, design, "bounds").points(functional, seed=0))[:, 0]
    assert points[0] == pytest.approx(1.0) and np.all((points >= 0.5) & (points <= 50.0))
    # each eighth of the range of the logarithm holds its share
    counts = np.histogram(np.log(points[1:]), np.linspace(np.log(0.5), np.log(50.0), 9))[0]
    assert np.all((counts >= 3) & (counts <= 5))
    spread = np.exp(pdefit.Starts(33, design, factor=4.0).points(turning(), seed=0))[:, 0]
    assert 0.25 <= spread.min() < 0.3 and 3.5 < spread.max() <= 4.0
    normal = pdefit.Control(prior=pdefit.priors.Normal(6.0, 0.5))
    drawn = np.asarray(pdefit.Starts(65, design, "prior").points(turning(control=normal), seed=0))[1:, 0]
    assert abs(drawn.mean() - 6.0) < 0.05 and abs(drawn.std() - 0.5) < 0.05
    again = pdefit.Starts(33, design).points(turning(), seed=0)
    assert np.array_equal(again, pdefit.Starts(33, design).points(turning(), seed=0))
    assert not np.array_equal(again, pdefit.Starts(33, design).points(turning(), seed=1))


def test_the_best_of_many_starts_is_the_truth_where_one_fit_is_stuck():
    functional = turning(guess=1.0)
    alone = pdefit.fit(functional, [LM])
    found = pdefit.explore(functional, pdefit.Starts(24, keep=6), [LM])
    assert alone.loss > 100 * found.loss[found.best]
    assert np.exp(found.theta[found.best, 0]) == pytest.approx(2 * np.pi, rel=1e-3)
    assert (found.dropped < 0).sum() == 6 and np.all(np.isinf(found.loss[found.dropped >= 0]))
    assert np.all(found.evaluations >= 1) and found.optima.reached[0] == (found.optima.label == 0).sum()
    assert f"best of 24 starts, 18 of them dropped early, reached by {found.optima.reached[0]} of the 6" in str(found)
    # frames that were held out, which another optimum predicts better, choose that one
    few = pdefit.Starts(8, keep=0)
    found = pdefit.explore(functional, few, [LM])
    other = found.optima.best[1]
    phase = np.exp(found.theta[other, 0]) * functional.observations.ts
    values = {"u": jnp.asarray(np.stack([np.cos(phase), np.sin(phase)], axis=1))}
    judge = eqx.tree_at(lambda f: f.observations.values, functional, values)
    chosen = pdefit.explore(functional, few, [LM], judge=judge)
    assert chosen.best == other and chosen.loss[other] > found.loss[found.best]


def test_an_exploration_goes_on_with_the_same_bits():
    functional, states = turning(), []
    stages = [pdefit.Stage(LM, 30)]

    def explorer(callback=None):
        return Explorer(functional, stages, pdefit.Starts(8, keep=2), callback=callback)

    whole = explorer(lambda progress: states.append(progress.state())).explore()
    assert {s.numbers["rung"] for s in states} == {0, 1, 2}
    for state in states[1 :: len(states) // 2]:
        again = explorer()
        again.restore(state)
        found = again.explore()
        assert np.array_equal(found.theta, whole.theta) and np.array_equal(found.evaluations, whole.evaluations)
        assert np.array_equal(found.dropped, whole.dropped)
    other = Explorer(functional, stages, pdefit.Starts(9, keep=2))
    with pytest.raises(PdefitError, match="does not fit these starts .starts"):
        other.restore(states[0])


def test_starts_that_do_not_fit_into_memory_are_refused():
    with pytest.raises(
        PdefitError, match="1000000000000 starts of 1 unknowns take .* of memory; set starts.count smaller"
    ):
        pdefit.Starts(10**12).points(turning(), seed=0)


def test_a_saved_exploration_of_another_kind_is_one_sentence():
    state = Explorer(turning(), [pdefit.Stage(LM, 3)], pdefit.Starts(8, keep=2)).state()
    for numbers in ({}, {"rung": "x"}, {"rung": 9}, {"rung": 0, "under_way": True}):
        explorer = Explorer(turning(), [pdefit.Stage(LM, 3)], pdefit.Starts(8, keep=2))
        with pytest.raises(
            PdefitError, match=r"does not fit these (starts|members) \(.*\); .* start again in a new folder"
        ):
            explorer.restore(RunState(numbers, state.arrays))


def test_optima_are_told_apart_in_standard_errors():
    matrix = np.tile(np.diag([1e4, 1.0]), (4, 1, 1))
    # the second differs by half a standard error in each number, the third by many, the fourth blew up
    theta = np.array([[1.0, 1.0], [1.005, 1.5], [2.0, 1.0], [5.0, 5.0]])
    loss = np.array([50.0, 50.1, 60.0, np.inf])
    found = find_optima(theta, loss, matrix, np.ones(2), values=102)
    assert found.label.tolist() == [0, 0, 1, -1] and found.reached.tolist() == [2, 1] and found.best.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("given", "reason"),
    [({"count": 0}, "1 or more"), ({"factor": 1.0}, "above 1"), ({"keep": -1}, "0 for all")],
)
def test_starts_that_make_no_sense_are_refused(given, reason):
    with pytest.raises(PdefitError, match=reason):
        pdefit.Starts(**given)
