"""Fits that are stopped and go on: what tests of it share."""

import json

import numpy as np

import pdefit
from pdefit._util.run_state import RunState


def through_a_file(state):
    return RunState(json.loads(json.dumps(state.numbers)), {k: np.array(v) for k, v in state.arrays.items()})


def run(functional, stages, resume=None, most=None):
    """The fit, its rows of history and the states after each chunk."""
    states, rows = [], []

    def callback(p):
        rows.extend(p.records)
        states.append(through_a_file(p.state()))

    return pdefit.fit(functional, stages, callback=callback, resume=resume, max_iterations=most), rows, states


def bits(rows):
    return [(r.iteration, r.stage, r.loss, r.gradient_norm, r.accepted, r.theta.tobytes()) for r in rows]


def resumed_alike(functional, stages, whole, rows, states):
    """The fits that go on from every state of a whole one, each after its bits were compared with it."""
    for state in states:
        found, later, _ = run(functional, stages, resume=state)
        assert np.asarray(found.theta).tobytes() == np.asarray(whole.theta).tobytes()
        assert bits(rows[: state.iterations] + later) == bits(rows)
        assert (found.iterations, found.events) == (whole.iterations, whole.events)
        yield found
