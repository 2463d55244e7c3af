"""The watch on the adjoint's growth: what it reports, and what a fit makes of it."""

from typing import ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.integrate.loop.time_loop import growth


class State(NamedTuple):
    u: jax.Array


class Decay(pdefit.AbstractSystem):
    """u' = -k u."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return State(-self.k * y.u)

    def init(self, key):
        return State(jnp.asarray([1.0, 0.5]))


class Pull(Decay):
    """u' = -k sin u: bounded whatever the step, but each step multiplies a perturbation by 1 - dt k cos u."""

    def vector_field(self, t, y, args):
        return State(-self.k * jnp.sin(y.u))


class Lorenz(Decay):
    """A perturbation grows by exp(0.9 t), whatever the step. Source: E. N. Lorenz (1963),
    doi:10.1175/1520-0469(1963)020<0130:DNF>2.0.CO;2."""

    def vector_field(self, t, y, args):
        x, y_, z = y.u
        return State(jnp.stack([10 * (y_ - x), x * (self.k - z) - y_, x * y_ - 8 / 3 * z]))

    def init(self, key):
        return State(jnp.asarray([1.0, 1.0, 20.0]))


def functional(cls, k, stop, dt, count=11, guess=1.01, solver=None, transform=None, **options):
    truth, ts = cls(k), np.linspace(0.0, stop, count)
    y0 = truth.init(None)
    data = pdefit.simulate(truth, y0, ts, dt=dt / 8)
    problem = pdefit.Problem(cls(k * guess), y0)
    return pdefit.Functional(
        problem, data, {"k": transform or pdefit.transforms.Log()}, dt=dt, solver=solver, **options
    )


@pytest.mark.parametrize("levels", [1, 3])
def test_an_adjoint_that_decays_never_exceeds_what_was_put_in(levels):
    J = functional(Decay, 1.0, 3.0, 0.05, adjoint=pdefit.adjoints.Checkpointed(levels))
    value, gradient, found = eqx.filter_jit(pdefit.Functional.watched_gradient)(J, J.theta0)
    expected = eqx.filter_jit(pdefit.Functional.value_and_grad)(J, J.theta0)
    assert value == expected[0] and gradient == expected[1]
    # what came in at the last observation has decayed by one interval
    assert 0.5 < found < 1


def test_the_growth_of_a_linear_system_is_known():
    J = functional(Decay, -2.0, 5.0, 0.01, count=2, guess=0.9, transform=pdefit.transforms.Identity())
    norms = jax.jit(jax.grad(lambda probes: J.value(J.theta0, probes)))(jnp.zeros((1, 2, 2)))
    np.testing.assert_allclose(growth(norms), np.exp(2.0 * 0.9 * 5.0), rtol=1e-6)


def test_a_step_too_large_for_the_linearised_equations_is_named():
    J = functional(Pull, 45.0, 10.0, 0.1, solver=diffrax.Euler())
    assert np.isfinite(eqx.filter_jit(pdefit.Functional.value)(J, J.theta0))
    with pytest.raises(pdefit.PdefitError, match=r"dt = 0.1 s is too large for the linearised equations; set dt=0.05"):
        pdefit.fit(J, [pdefit.optimizers.LBFGS()], max_iterations=5)


def test_its_certificate_names_the_step():
    J = functional(Pull, 45.0, 10.0, 0.1, solver=diffrax.Euler())
    found = pdefit.certify(J, J.theta0)
    assert not found.passed
    assert "dt = 0.1 s is too large for the linearised equations" in found.reason and "set dt=0.05" in found.reason


def test_a_sensitive_trajectory_is_no_error():
    J = functional(Lorenz, 28.0, 25.0, 0.005, count=51)
    found = pdefit.fit(J, [pdefit.optimizers.Adam(1e-6)], max_iterations=2)
    assert sum("whatever the step" in event for event in found.events) == 1


def test_nothing_is_said_of_an_ordinary_fit():
    found = pdefit.fit(functional(Decay, 1.0, 3.0, 0.05), [pdefit.optimizers.LBFGS()])
    assert not any("adjoint" in event for event in found.events)
    np.testing.assert_allclose(found.problem.system.k, 1.0, rtol=1e-6)
