"""Many fits in one program, beside fits one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, decays

import pdefit
from pdefit._util.errors import PdefitError

LOG = pdefit.transforms.Log()
LM = pdefit.optimizers.LevenbergMarquardt()


@pytest.fixture(scope="module")
def functionals():
    return decays(noise=0.02)


def test_what_differs_is_held_for_each_and_all_else_once(functionals):
    members = pdefit.Members.of(functionals)
    assert members.stack.own.observations.values["u"].shape[0] == 5 and len(jax.tree.leaves(members.stack.own)) == 1
    assert members.count == 5 and members.theta0.shape == (5, 1)
    for e, functional in enumerate(functionals):
        same = members.member(e)
        assert np.array_equal(same.observations.values["u"], functional.observations.values["u"])
        assert float(VALUE(same, same.theta0)) == float(VALUE(functional, functional.theta0))
    assert not jax.tree.leaves(pdefit.Members.from_points(functionals[0], jnp.zeros((7, 1))).stack.own)


def test_each_member_ends_where_its_own_fit_ends(functionals):
    found = pdefit.fit_members(pdefit.Members.of(functionals), [LM])
    spans = found.intervals(sigma_stated=True)
    for e, functional in enumerate(functionals):
        alone = pdefit.fit(functional, [LM])
        assert found.converged[e] and found.evaluations[e] == alone.iterations
        np.testing.assert_allclose(found.theta[e], alone.theta, rtol=1e-12)
        np.testing.assert_allclose(found.loss[e], alone.loss, rtol=1e-12)
        one = pdefit.intervals(alone.functional, alone.theta, sigma_stated=True, equations=alone.equations)
        np.testing.assert_allclose([spans.low[e, 0], spans.high[e, 0]], [one.low[0], one.high[0]], rtol=1e-9)
    np.testing.assert_allclose(found.chi2, 2 * found.loss)
    assert np.all(found.observed_values == 18) and found.values["k"].shape == (5,)


def test_batches_of_any_size_and_several_devices_give_the_same(functionals):
    members = pdefit.Members.of(functionals)
    whole = pdefit.fit_members(members, [LM])
    for at_once, devices in ((1, ()), (2, ()), (2, jax.devices()[:2])):
        some = pdefit.fit_members(members, [LM], at_once=at_once, devices=devices)
        np.testing.assert_allclose(some.theta, whole.theta, rtol=1e-12)
        assert np.array_equal(some.evaluations, whole.evaluations)


def test_stopped_fits_go_on_with_the_same_bits(functionals):
    members, states, latest = pdefit.Members.of(functionals), [], []
    stages = [pdefit.Stage(LM, 3, pdefit.formulations.Single(until=0.5)), LM]

    def fit(**given):
        return pdefit.fit_members(members, stages, at_once=2, **given)

    def callback(progress):
        states.append(progress.state())
        latest[:] = [progress.state]

    whole = fit(callback=callback)
    assert len(states) > 3
    # the last one is that after the end
    for state in (*states[:: len(states) // 3], latest[0]()):
        again = fit(resume=state)
        assert np.array_equal(again.theta, whole.theta) and np.array_equal(again.loss, whole.loss)
        assert np.array_equal(again.evaluations, whole.evaluations)
    other = pdefit.Members.of(functionals[:3])
    with pytest.raises(PdefitError, match="does not fit these members .members.theta"):
        pdefit.fit_members(other, stages, resume=states[0])


def test_windows_and_free_states_are_stages_of_members():
    free = {"k": LOG, "y0": {"u": pdefit.Control(guess=pdefit.guesses.FromData())}}
    functionals = decays(3, frames=9, noise=0.02, controls=free)
    stages = [
        pdefit.Stage(LM, 20, pdefit.formulations.Segments(0.25)),
        pdefit.Stage(LM, 40, pdefit.formulations.Single()),
    ]
    found = pdefit.fit_members(pdefit.Members.of(functionals), stages)
    for e, functional in enumerate(functionals):
        alone = pdefit.fit(functional, stages)
        np.testing.assert_allclose(found.theta[e], alone.theta, rtol=1e-9)


def test_records_of_different_lengths_are_members():
    functionals = [decays(2, frames=6)[0], decays(2, frames=9)[1]]
    stages = [
        pdefit.Stage(LM, 20, pdefit.formulations.Segments(0.4)),
        pdefit.Stage(LM, 40, pdefit.formulations.Single()),
    ]
    found = pdefit.fit_members(pdefit.Members.of(functionals), stages)
    np.testing.assert_allclose(found.values["k"], [0.5, 2.0], rtol=1e-6)
    assert found.observed_values.tolist() == [18, 27]


def test_a_member_that_blows_up_is_told_and_leaves_the_others_alone():
    functionals = decays(3)
    huge = pdefit.Members.of(functionals)
    start = huge.theta0.at[1].set(20.0)
    found = pdefit.fit_members(huge.starting_at(start), [LM])
    assert found.blown_up.tolist() == [False, True, False]
    np.testing.assert_allclose(found.values["k"][[0, 2]], [0.5, 2.0], rtol=1e-6)
    assert np.isnan(found.intervals().low[1]).all()
    # from other starts it ends where it should, and the others stay as they are
    members = huge.starting_at(start)
    again = pdefit.fit_members_again(members, found, [1], pdefit.Starts(count=5, factor=1e10), [LM])
    np.testing.assert_allclose(again.values["k"], [0.5, 1.25, 2.0], rtol=1e-6)
    assert again.start[1] > 0 and np.array_equal(again.theta[[0, 2]], found.theta[[0, 2]])
    assert again.evaluations[1] > found.evaluations[1]


def test_gradients_serve_many_fits_too():
    found = pdefit.fit_members(pdefit.Members.of(decays(3)), [pdefit.Stage(pdefit.optimizers.LBFGS(), 40)])
    np.testing.assert_allclose(found.values["k"], np.linspace(0.5, 2.0, 3), rtol=1e-5)


def test_transformations_of_optax_serve_many_fits_too():
    functionals, adam = decays(2, noise=0.02), pdefit.Stage(pdefit.optimizers.Adam(0.1), 12)
    found = pdefit.fit_members(pdefit.Members.of(functionals), [adam])
    alone = [pdefit.fit(functional, [adam]) for functional in functionals]
    np.testing.assert_allclose(found.theta, np.stack([f.theta for f in alone]), rtol=1e-12)
    assert found.evaluations.tolist() == [12, 12] and not found.converged.any()


def test_what_members_cannot_have_is_refused(functionals):
    with pytest.raises(PdefitError, match="one functional or more"):
        pdefit.Members.of([])
    stopping = pdefit.Stage(LM, stop=pdefit.stopping.Noise())
    with pytest.raises(PdefitError, match="without reweight and stop"):
        pdefit.fit_members(pdefit.Members.of(functionals), [stopping])
