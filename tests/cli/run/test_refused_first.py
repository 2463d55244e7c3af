"""Combinations that cannot be fitted: refused before anything is built or compiled, and never after a fit is lost."""

import numpy as np
import pytest
from problems import decays

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.run import starts
from pdefit.inverse.members.bootstrap import Bootstrap, check_bootstrap
from pdefit.inverse.members.fit_members import plan_of
from pdefit.inverse.members.from_starts import from_starts
from pdefit.inverse.optimizers.collocation import Collocation

LM = pdefit.optimizers.LevenbergMarquardt()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda s: starts.check_many(decays(1)[0], [pdefit.Stage(Collocation())], s), "Collocation works on one fit"),
        (lambda s: plan_of(pdefit.Members.of(decays(2)), [pdefit.Stage(LM, reweight=pdefit.Reweight())]), "without reweight"),
        (lambda s: check_bootstrap(decays(1)[0], Bootstrap(kind="recordings")), "fit of many recordings"),
        (lambda s: starts.check_many(states(), [pdefit.Stage(LM)], s), "^starts vary nothing: states and smooth fields keep"),
    ],
    ids=["starts and collocation", "members", "kind", "states"],
)  # fmt: skip
def test_what_stages_forbid_is_refused_before_a_compilation(compose, monkeypatch, ask, said):
    settings = compose("experiment=reaction/fisher_front", "starts=sobol", "starts.count=4")
    for evaluation in ("residuals", "value", "value_and_grad"):
        monkeypatch.setattr(pdefit.Functional, evaluation, None)
    with pytest.raises(PdefitError, match=said):
        ask(settings)


def states():
    return decays(1, controls={"y0": {"u": pdefit.transforms.Identity()}})[0]


def test_starts_that_vary_something_are_taken(compose):
    settings = compose("experiment=reaction/fisher_front", "starts=sobol", "starts.count=4")
    starts.check_many(decays(1)[0], [pdefit.Stage(LM)], settings)
    with pytest.raises(PdefitError, match="one start is the guess itself"):
        pdefit.Starts(count=1).points(decays(1)[0], 0)


def test_a_finished_fit_outlives_starts_that_fail():
    def fails():
        raise PdefitError("The model blows up from all starts")

    found, functional, stages = pdefit.fit(decays(1)[0], [pdefit.Stage(LM, 3)]), decays(1)[0], [pdefit.Stage(LM, 3)]
    kept, ends = from_starts(functional, stages, fails, lambda *_: found, lambda _: True)
    assert ends is None and np.array_equal(kept.theta, found.theta)
    assert kept.events[-1] == "no other starts: The model blows up from all starts"
    with pytest.raises(PdefitError, match="blows up from all starts"):
        from_starts(functional, stages, fails, lambda *_: found)
