"""Fits that are stopped and go on: what tests of it share."""

import json

import numpy as np

import pdefit
from pdefit.inverse.fit.result import RunState


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
