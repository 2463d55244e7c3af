import equinox as eqx
import jax
import numpy as np
import pytest
from problems import fisher_functional

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.holdout import held_frames, heldout_score, withhold
from pdefit.inverse.shooting.formulation import Segments, Single

TS = np.linspace(0.0, 10.0, 101)


@pytest.mark.parametrize("formulations", [[Single()], [Single(), Segments(1.0)], [Segments(0.2)]])
@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3])
def test_held_frames_are_spread_and_start_nothing(fraction, formulations):
    held = held_frames(TS, fraction, formulations)
    starts = np.concatenate([f.layout(TS, np.inf).nodes for f in formulations])
    assert held.size == round(fraction * 101) == np.unique(held).size
    assert not set(held) & {0, 100, *starts}
    gaps = np.diff(np.concatenate([[0], held, [100]]))
    assert gaps.max() <= 1.5 * 101 / (held.size + 0.5) + 2


def test_frames_are_counted_from_the_first_that_is_seen():
    assert held_frames(TS, [1, 98], [Single()], 1).tolist() == [2, 99]
    assert held_frames(TS[:6], 0.4, [Single()], 1).tolist() == [2, 4]
    for wrong in (0, 99):
        with pytest.raises(PdefitError, match="between 1 and 98"):
            held_frames(TS, [wrong], [Single()], 1)


def test_without_a_holdout_nothing_is_held():
    assert held_frames(TS, 0, [Single()]).size == 0


@pytest.mark.parametrize(
    ("fraction", "formulation", "words"),
    [
        (0.6, Single(), ("holdout", "0.5")),
        (-0.1, Single(), ("holdout", "-0.1")),
        (True, Single(), ("holdout", "True")),
        ("some", Single(), ("holdout", "some")),
        (float("nan"), Single(), ("holdout", "nan")),
        (0.1, Segments(0.1), ("10 of 101", "longer windows")),
    ],
)
def test_what_cannot_be_held_is_one_sentence(fraction, formulation, words):
    with pytest.raises(PdefitError) as error:
        held_frames(TS, fraction, [formulation])
    for word in words:
        assert word in str(error.value)


def test_held_frames_have_no_influence_and_are_scored_afterwards():
    functional = fisher_functional(noise=0.02, count=25)
    everything = functional.observations
    held = np.asarray([5, 11, 17])
    fitted = eqx.tree_at(lambda f: f.observations, functional, withhold(everything, held))
    assert fitted.observed_values == 22 * 64
    # whatever they hold
    spoilt = eqx.tree_at(lambda f: f.observations.values["u"], fitted, everything.values["u"].at[held].set(1e3))
    gradient = eqx.filter_jit(pdefit.Functional.value_and_grad)
    jax.tree.map(np.testing.assert_array_equal, gradient(fitted, fitted.theta0), gradient(spoilt, fitted.theta0))
    fit = pdefit.fit(fitted, [pdefit.optimizers.LevenbergMarquardt()])
    score, count = heldout_score(fit.functional, fit.theta, everything, held)
    assert count == 3 * 64 and score == pytest.approx(1.0, abs=4 * np.sqrt(2 / count))
    # the two parts are the whole
    both, _ = heldout_score(fit.functional, fit.theta, everything, np.arange(25))
    assert both * 25 * 64 == pytest.approx(2 * fit.loss + score * count)
