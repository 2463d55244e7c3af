"""A fit that goes on from a saved state does what it would have done, to the last bit."""

import numpy as np
import pytest
from problems import fisher_functional, planets_functional
from resumed import bits, resumed_alike, run

import pdefit
from pdefit._util.errors import PdefitError
from pdefit._util.run_state import RunState
from pdefit.inverse.fit import _fit_run as fit_run


def short_chunks(monkeypatch):
    """Save after every second evaluation, however fast they are."""
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 2)


ADAM = [pdefit.Stage(pdefit.optimizers.Adam(0.05), 12)]
LBFGS = [pdefit.Stage(pdefit.optimizers.LBFGS(), 12)]
GROWING = [
    pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(tolerance=1e-3), 6, pdefit.formulations.Segments(0.5)),
    pdefit.Stage(
        pdefit.optimizers.LevenbergMarquardt(),
        8,
        pdefit.formulations.Segments(1.5),
        pdefit.Reweight(axes=(0,), rounds=3),
    ),
]


@pytest.mark.parametrize(
    ("functional", "stages"),
    [
        (fisher_functional(noise=0.02), ADAM),
        (planets_functional(length=0.5), GROWING),
    ],
    ids=["adam", "windows and weights"],
)
def test_every_state_leads_to_the_same_end(functional, stages, monkeypatch):
    short_chunks(monkeypatch)
    whole, rows, states = run(functional, stages)
    assert len(states) >= 5
    for found in resumed_alike(functional, stages, whole, rows, states):
        assert found.loss == whole.loss
        assert found.functional.layout.segments == whole.functional.layout.segments


def test_a_finished_fit_is_extended(monkeypatch):
    short_chunks(monkeypatch)
    functional = fisher_functional(noise=0.02)
    whole, rows, _ = run(functional, ADAM)
    part, first, states = run(functional, ADAM, most=5)
    assert part.iterations == 5
    found, later, _ = run(functional, ADAM, resume=states[-1])
    assert bits(first + later) == bits(rows)
    assert np.asarray(found.theta).tobytes() == np.asarray(whole.theta).tobytes()


def test_chunks_end_at_absolute_iterations(monkeypatch):
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 4)
    _, _, states = run(fisher_functional(noise=0.02), ADAM)
    assert [s.iterations for s in states] == [1, 4, 8, 12]
    _, _, states = run(fisher_functional(noise=0.02), ADAM, resume=states[0])
    assert [s.iterations for s in states] == [2, 4, 8, 12]


def test_the_state_of_another_problem_is_refused(monkeypatch):
    short_chunks(monkeypatch)
    _, _, states = run(fisher_functional(noise=0.02), ADAM)
    with pytest.raises(PdefitError, match="does not fit this experiment .* or another state of pdefit wrote this run"):
        run(fisher_functional({"D": pdefit.transforms.Log()}), ADAM, resume=states[0])
    with pytest.raises(PdefitError, match="does not fit this experiment .* or another state of pdefit wrote this run"):
        run(fisher_functional(noise=0.02), LBFGS, resume=states[0])
    # nor one that somebody has edited
    numbers, arrays = states[0].numbers, states[0].arrays
    for wrong in (
        {"stage": 7}, {"stage": -1}, {"stage": "0"}, {"iterations": -3}, {"events": "none"}, {"driver": 3}, {"steps": {}},
        {"seconds": {"compile": 0.0}}, {"count": 1.5},
    ):  # fmt: skip
        with pytest.raises(
            PdefitError, match="does not fit this experiment .* or another state of pdefit wrote this run"
        ):
            run(fisher_functional(noise=0.02), ADAM, resume=RunState({**numbers, **wrong}, arrays))
    state = next(name for name in arrays if name.startswith("carry.state"))
    for name, value in (
        ("theta", np.full(2, np.nan)), ("theta_before", np.ones((5, 1))), ("carry.best_theta", np.full(2, np.inf)),
        ("loss", np.ones(3)), ("sigma['u']", np.asarray("rm")), ("sigma_before['u']", np.ones(7)), (state, np.ones((9, 9))),
    ):  # fmt: skip
        assert name in arrays
        with pytest.raises(
            PdefitError, match="does not fit this experiment .* or another state of pdefit wrote this run"
        ):
            run(fisher_functional(noise=0.02), ADAM, resume=RunState(numbers, {**arrays, name: value}))


def test_free_node_states_go_on_too(monkeypatch):
    short_chunks(monkeypatch)
    functional = planets_functional(
        {
            "gm": pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Perturb(0.5, 2.0)),
            "nodes": {"velocity": pdefit.transforms.Identity()},
        }
    )
    stages = [
        pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(tolerance=0.5), 4, pdefit.formulations.Segments(0.5)),
        pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 6),
    ]
    whole, rows, states = run(functional, stages)
    assert {s.numbers["windows"] for s in states} == {0, -1}
    for state in states:
        found, later, _ = run(functional, stages, resume=state)
        assert np.asarray(found.theta).tobytes() == np.asarray(whole.theta).tobytes()
        assert bits(rows[: state.iterations] + later) == bits(rows)
