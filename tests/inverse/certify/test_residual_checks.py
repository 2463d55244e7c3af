"""Kinks of inputs in time: right derivatives at a point that lies on one, and faults that a kink does not excuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from small_systems import State

import pdefit

IDENTITY = pdefit.transforms.Identity()
TANGENTS = [pdefit.optimizers.LevenbergMarquardt()]
KNOTS = np.linspace(0.0, 1.0, 5)
VALUES = {"args": {"flux": {"values": IDENTITY}}, "k": IDENTITY}


class Heated(pdefit.AbstractSystem):
    """u' = flux(t - delay) - k u, of which a part of k may be hidden from derivatives."""

    time_unit = "s"
    delay: jax.Array = pdefit.parameter()
    k: jax.Array = pdefit.parameter()
    hidden: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        k = self.k + self.hidden * (lax.stop_gradient(self.k) - self.k)
        return State(args.flux(t - self.delay) - k * y.u)

    def init(self, key):
        return State(jnp.ones(1))


def certified(method, values, controls, hidden=0.0):
    """The certificate at no delay, where steps end at the knots, and at these values."""
    system = Heated(delay=jnp.zeros(()), k=jnp.ones(()), hidden=jnp.asarray(hidden))
    args = pdefit.Inputs(flux=pdefit.TimeSeries(KNOTS, jnp.asarray(values), method))
    data = pdefit.Observations.build(KNOTS, {"u": np.linspace(1.0, 2.0, 5)[:, None]}, 0.1)
    functional = pdefit.Functional(pdefit.Problem(system, system.init(None), args=args), data, controls, dt=0.25)
    return pdefit.certify(functional, functional.theta0, optimizers=TANGENTS)


@pytest.mark.parametrize(
    ("method", "values", "controls"),
    [
        ("cubic", np.zeros(5), VALUES),
        ("linear", KNOTS**2, {"delay": IDENTITY}),
    ],
)
def test_a_point_at_a_kink_of_an_input_passes_and_the_input_is_named(method, values, controls):
    found = certified(method, values, controls)
    assert found.passed, found.reason
    assert "kink of the input flux" in found.checks[0].note and "method: smooth" in found.checks[0].note


def test_a_kink_excuses_no_wrong_derivative():
    found = certified("cubic", np.zeros(5), VALUES, hidden=0.01)
    failed = [check.name for check in found.checks if not check.passed]
    assert "k: tangent against differences" in failed and "args.flux.values: tangent against differences" not in failed
    assert "stop_gradient" in found.reason
