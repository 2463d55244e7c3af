"""Stopping rules from a configuration."""

import numpy as np
import pytest

import pdefit
from pdefit.cli.run.build import build_experiment

NOISY = ("experiment=reaction/fisher_front", "twin=self", "twin.noise=0.02", "system.grid.shape=[40]")
CHOSEN = "stages=lbfgs"


def test_rules_have_names_and_numbers(compose):
    (stage,) = compose(*NOISY, CHOSEN, "+stages.main.stop=noise").stages.stages
    assert stage.stop == pdefit.stopping.Noise(1.0)
    (stage,) = compose(*NOISY, CHOSEN, "+stages.main.stop={noise: 1.1}").stages.stages
    assert stage.stop == pdefit.stopping.Noise(1.1)
    (stage,) = compose(*NOISY, CHOSEN, "+stages.main.stop={holdout: 4}").stages.stages
    assert stage.stop == pdefit.stopping.Holdout(None, 4)


@pytest.mark.parametrize("chosen", [CHOSEN, "stages=auto"])
def test_an_experiment_knows_what_was_held_out(compose, chosen):
    made = build_experiment(compose(*NOISY, chosen, "holdout=0.2", "+stages.main.stop=holdout"))
    rule = made.stages[-1].stop
    assert isinstance(rule, pdefit.stopping.Holdout) and rule.patience == 10
    held = np.asarray(rule.judged(made.functional).observations.mask["u"]).any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(held), made.held)
    assert made.held.size > 0


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["twin.noise=0", "+stages.main.stop=noise"], "expects sigma to be the noise"),
        (["+stages.main.stop=holdout"], "set holdout=0.1, or remove stop"),
        (["+stages.main.stop={noise: low}"], "factor expects"),
        (["+stages.main.stop={holdout: 1.5}"], "patience expects a whole number"),
    ],
)
def test_rules_that_the_data_or_the_words_refuse(compose, overrides, words):
    with pytest.raises(pdefit.PdefitError, match=words):
        build_experiment(compose(*NOISY, CHOSEN, *overrides))
