"""Constant steps of members: chosen anew for a member that becomes stiff, beside its own fit."""

from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from small_systems import Hastening, State

import pdefit

LM = pdefit.optimizers.LevenbergMarquardt()
# close together while u falls, so that later steps of up to 0.1 s alone depend on the stability limit 2 / k
TS = np.append(np.linspace(0.0, 0.05, 11), [0.15, 0.25])
RATES = (40.0, 1.5)


class Pulled(pdefit.AbstractSystem, pdefit.capabilities.AbstractStable):
    """u' = -k (u - cos t) from u = 2."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(-self.k * (y.u - jnp.cos(t)))

    def init(self, key):
        return State(jnp.full(1, 2.0))

    def stable_step(self, y):
        return 2 / float(self.k)


def exact(k):
    """The solution: a fast fall onto a slow curve."""

    def slow(t):
        return (k**2 * np.cos(t) + k * np.sin(t)) / (k**2 + 1)

    return (slow(TS) + (2 - slow(0.0)) * np.exp(-k * TS))[:, None]


def test_a_member_whose_estimate_is_stiff_ends_where_its_own_fit_ends():
    system, functionals = Pulled(k=jnp.asarray(1.0)), []
    for k in RATES:
        data = pdefit.Observations.build(TS, {"u": exact(k)}, 0.05)
        problem = pdefit.Problem(system, system.init(None))
        functionals.append(pdefit.Functional(problem, data, {"k": pdefit.transforms.Log()}, solver=diffrax.Heun()))
    members, states, alone = pdefit.Members.of(functionals), [], pdefit.fit(functionals[0], [LM])
    assert any("steps renewed" in event for event in alone.events)
    found = pdefit.fit_members(members, [LM], callback=lambda progress: states.append(progress.state()))
    assert found.converged.all()
    np.testing.assert_allclose(found.theta[0], alone.theta, rtol=1e-5)
    # each with the steps that its estimate needs
    steps = [found.members.member(e).dt for e in (0, 1)]
    assert steps[0] * found.values["k"][0] < 2.0 and steps[1] == functionals[1].dt
    again = pdefit.fit_members(members, [LM], resume=states[-2])
    assert np.array_equal(again.theta, found.theta)


def test_members_take_steps_that_are_small_enough_for_their_whole_record():
    ts, k, functionals = np.linspace(0.0, 2.0, 5), np.array([1.0, 0.01]), []
    for rate, guess in zip(k, (1.3, 0.013), strict=True):
        system = Hastening(jnp.asarray(guess))
        data = pdefit.Observations.build(ts, {"y": np.exp(-ts / 2 - rate * ts**5 / 5)}, sigma={"y": 1e-4})
        problem = pdefit.Problem(system, system.init(None), pdefit.instruments.Select(("y",)))
        functionals.append(pdefit.Functional(problem, data, {"k": pdefit.transforms.Log()}))
    states = []
    found = pdefit.fit_members(
        pdefit.Members.of(functionals), [LM], callback=lambda progress: states.append(progress.state())
    )
    # half the step moves an estimate by less than 3 % of its standard error
    assert np.all(np.abs(found.values["k"] - k) < 0.03 * np.array([1.3e-4, 4.5e-5]))
    steps = [found.members.member(e).dt for e in (0, 1)]
    assert found.converged.all() and steps[0] < steps[1] <= functionals[1].dt
    again = pdefit.fit_members(pdefit.Members.of(functionals), [LM], resume=states[len(states) // 2])
    assert np.array_equal(again.theta, found.theta)
