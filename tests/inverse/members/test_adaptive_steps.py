"""Adaptive steps, frozen and renewed, in stacks: recordings, members, starts and profiles, beside plain fits."""

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, decays

import pdefit

STEP_ERROR = eqx.filter_jit(lambda objective, theta: objective.step_error(theta))

LM = pdefit.optimizers.LevenbergMarquardt()
# far from the guess, so that steps are renewed on the way
STEPS = {"solver": diffrax.Bosh3(), "steps": pdefit.Adaptive(1e-4, 1e-6), "start": 40.0, "frames": 4}
SHARED = {"k": pdefit.transforms.Log()}


@pytest.fixture(scope="module")
def functionals():
    return decays(2, noise=0.02, **STEPS)


@pytest.fixture(scope="module")
def alone(functionals):
    return [pdefit.fit(functional, [LM]) for functional in functionals]


def test_a_member_takes_the_steps_of_its_own_fit(functionals, alone):
    found = pdefit.fit_members(pdefit.Members.of(functionals), [LM])
    for e, fit in enumerate(alone):
        assert any("steps renewed" in event for event in fit.events)
        assert found.converged[e] and found.evaluations[e] == fit.iterations
        np.testing.assert_allclose(found.theta[e], fit.theta, rtol=1e-12)
        np.testing.assert_allclose(found.loss[e], fit.loss, rtol=1e-12)
        count = found.members.time_grid.count[e]
        assert np.array_equal(count, fit.functional.time_grid.count)


def test_stopped_members_go_on_with_their_steps(functionals):
    members, states = pdefit.Members.of(functionals), []
    whole = pdefit.fit_members(members, [LM], callback=lambda progress: states.append(progress.state()))
    again = pdefit.fit_members(members, [LM], resume=states[len(states) // 2])
    assert np.array_equal(again.theta, whole.theta) and np.array_equal(again.evaluations, whole.evaluations)


@pytest.mark.quick
def test_recordings_have_the_sum_of_the_single_objectives_and_renew_each_by_itself(functionals):
    longer = decays(2, noise=0.02, **STEPS | {"frames": 6})[1]
    both = pdefit.Recordings([functionals[0], longer])
    theta = jnp.log(jnp.asarray([3.0]))
    renewed, parts = both.renewed(theta), [functionals[0].renewed(theta), longer.renewed(theta)]
    expected = sum(float(VALUE(part, theta)) for part in parts)
    np.testing.assert_allclose(float(VALUE(renewed, theta)), expected, rtol=1e-14)
    np.testing.assert_allclose(
        float(STEP_ERROR(renewed, theta)), max(float(STEP_ERROR(part, theta)) for part in parts), rtol=1e-12
    )
    for e, part in enumerate(parts):
        assert np.array_equal(renewed.part(e).time_grid.count, part.time_grid.count)


def test_a_fit_of_recordings_renews_its_steps_and_goes_on_where_it_was(functionals):
    both, states = pdefit.Recordings(functionals), []
    found = pdefit.fit(both, [LM], callback=lambda progress: states.append(progress.state()))
    assert any("steps renewed" in event for event in found.events) and found.converged
    fine = pdefit.Recordings(decays(2, noise=0.02, start=1.0, frames=4, dt=0.01))
    # ten steps, each with an error of up to a tolerance of 1e-4
    np.testing.assert_allclose(found.theta, pdefit.fit(fine, [LM]).theta, atol=1e-3)
    again = pdefit.fit(both, [LM], resume=states[len(states) // 2])
    assert np.array_equal(again.theta, found.theta) and again.loss == found.loss
    starts = pdefit.explore(both, pdefit.Starts(count=3, keep=0), [LM])
    np.testing.assert_allclose(starts.theta[starts.best], found.theta, atol=1e-3)


def test_profiles_and_repetitions_follow_with_adaptive_steps(functionals, alone):
    found = alone[0]
    span = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
    (profile,) = pdefit.profiles(found.functional, found.theta, sigma_stated=True)
    # one number of a nearly straight problem: the profile is that of the matrix
    np.testing.assert_allclose([profile.low, profile.high], [span.low[0], span.high[0]], rtol=2e-2)
    drawn = pdefit.bootstrap(found.functional, found.theta, pdefit.Bootstrap(count=4))
    assert drawn.failed == 0 and drawn.low[0] < float(jnp.exp(found.theta[0])) < drawn.high[0]
