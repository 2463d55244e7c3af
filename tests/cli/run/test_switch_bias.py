"""What is said of smooth tangents at the end of a fit."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from small_systems import Relay

import pdefit
from pdefit.cli.run import switch_bias as module
from pdefit.cli.run.switch_bias import switch_bias


@pytest.fixture(scope="module")
def found():
    """The speed of a relay, from a noisy path, with the tangents of its smooth twin."""
    truth = Relay(k=jnp.asarray(1.0))
    y0, ts = truth.init(None), np.linspace(0.0, 1.2, 13)
    data = pdefit.add_noise(pdefit.simulate(truth, y0, ts, dt=0.02), 0.02, jax.random.key(0))
    problem = pdefit.Problem(Relay(k=jnp.asarray(1.3)), y0)
    functional = pdefit.Functional(problem, data, {"k": pdefit.transforms.Log()}, dt=0.02, smooth_tangents=True)
    return pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])


def said(found, known=None):
    console = Console(record=True, width=400)
    return switch_bias(found, known, console), console.export_text()


def test_a_way_down_is_told_in_standard_errors(found, monkeypatch):
    monkeypatch.setattr(module, "value_of", lambda functional, theta: found.loss - 1.0)
    known = pdefit.intervals(found.functional, found.theta)
    told, line = said(found, known)
    assert told["k"]["standard_error"] == known.error[0] and "standard errors" in line and "(k)" in line


def test_a_step_that_does_not_lower_the_loss_tells_nothing(found, monkeypatch):
    """The polishing step is tried on J itself."""
    monkeypatch.setattr(module, "inexact_bias", lambda functional, theta: np.array([0.5]))
    told, line = said(found)
    assert told is None and "the distance to the minimum is unknown" in line and "a smaller dt" in line


def test_exact_tangents_have_nothing_to_tell(found):
    exact = eqx.tree_at(lambda f: f.smooth_tangents, found.functional, False)
    told, line = said(dataclasses.replace(found, functional=exact))
    assert told is None and line == ""
