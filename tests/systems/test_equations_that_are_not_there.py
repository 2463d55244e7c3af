"""Equations and events that are not there, and what stands for them: each test fails on the day that its limit falls."""

import inspect
from typing import ClassVar

import jax
import jax.numpy as jnp
import pytest

import pdefit
from pdefit.cli.run.trial import try_step


class Body(pdefit.AbstractSystem):
    """The amount of a drug that is given by a rate and eliminated."""

    time_unit: ClassVar[str] = "h"
    k: jax.Array = pdefit.parameter(unit="1/h", default=0.5)

    def vector_field(self, t, y, args):
        return -self.k * y + args(t)

    def init(self, key):
        return jnp.zeros(())


def test_rates_see_the_present_state_only():
    # no history of the state, from which a delayed one could be read
    assert [*inspect.signature(pdefit.AbstractSystem.vector_field).parameters] == ["self", "t", "y", "args"]


def test_an_event_has_a_stated_time():
    assert not {"when", "trigger", "condition"} & {*inspect.signature(pdefit.Event).parameters}


def test_equations_have_no_noise():
    assert not {"key", "seed", "noise"} & {*inspect.signature(pdefit.simulate).parameters}
    assert not hasattr(pdefit.AbstractSystem, "diffusion")


def test_a_field_without_a_rate_is_refused():
    class Algebraic(Body):
        def vector_field(self, t, y, args):
            return {"x": -self.k * y["x"], "z": None}

    state = {"x": jnp.ones(()), "z": jnp.ones(())}
    with pytest.raises(pdefit.PdefitError, match="The vector field of Algebraic is .*, but the state is"):
        try_step(Algebraic(), state, pdefit.solvers.RK4(), "solver")
