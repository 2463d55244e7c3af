"""Combinations that cannot be fitted: refused before anything is built or compiled, and never after a fit is lost."""

import numpy as np
import pytest
from problems import decays
from rich.console import Console

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Job
from pdefit.cli.run import starts
from pdefit.cli.run.experiment import Experiment
from pdefit.inverse.members.bootstrap import Bootstrap, check_bootstrap
from pdefit.inverse.members.fit_members import plan_of
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


def test_a_finished_fit_outlives_starts_that_fail(compose, monkeypatch, tmp_path):
    def fails(*_):
        raise PdefitError("The model blows up from all starts")

    monkeypatch.setattr(starts, "from_starts", fails)
    found = pdefit.fit(decays(1)[0], [pdefit.Stage(LM, 3)])
    console = Console(record=True, quiet=False)
    job = Job(compose("experiment=reaction/fisher_front", "starts=auto"), tmp_path, "front", console)
    kept, explored = starts.tried_again(object.__new__(Experiment), found, job)
    assert explored is None and np.array_equal(kept.theta, found.theta)
    assert kept.events[-1] == "no other starts: The model blows up from all starts"
    assert "no other starts: The model blows up from all starts" in console.export_text()
