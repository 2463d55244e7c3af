"""Choices that do not go together, by their types alone."""

import re

import equinox as eqx
import pytest
from problems import decays
from small_systems import Decay

import pdefit
from pdefit.inverse.fit.refused_combinations import Choices, refusal
from pdefit.inverse.fit.reweight import ByPrediction
from pdefit.inverse.members.bootstrap import Bootstrap, check_bootstrap

LM, BACK = pdefit.optimizers.LevenbergMarquardt(), pdefit.adjoints.Backsolve()
WINDOWS = pdefit.formulations.Segments(1.0)
CAMERA = pdefit.instruments.Camera


class Own(pdefit.instruments.AbstractObservationOperator):
    """An instrument that does not say whether it shows states."""

    def __call__(self, t, y, args):
        return {"u": y.u}


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (Choices(), "^$"),
        (Choices(solver=pdefit.solvers.RK4(), adaptive=True), "estimates its error, which RK4 does not"),
        (Choices(adaptive=True), "^$"),
        (Choices(adjoint=BACK, stages=(pdefit.Stage(LM),)), "has no tangents"),
        (Choices(adjoint=BACK, stages=(pdefit.Stage(pdefit.optimizers.GaussNewtonCG()),)), "has no tangents"),
        (Choices(adjoint=BACK, stages=(pdefit.Stage(pdefit.optimizers.LBFGS()),)), "^$"),
        (Choices(adjoint=BACK, open_steps=True, solver=pdefit.solvers.RKC()), "steps of RKC that are left open are long"),
        (Choices(adjoint=BACK, solver=pdefit.solvers.RKC()), "^$"),
        (Choices(adjoint=BACK, open_steps=True, solver=pdefit.solvers.RK4()), "^$"),
        (Choices(frozenset({"bootstrap"}), adjoint=BACK), "has no tangents"),
        (Choices(adjoint=BACK, events=True), "^Backsolve solves the adjoint equation without events"),
        (Choices(stages=(pdefit.Stage(pdefit.optimizers.Collocation()),), events=True), "expects a solution without events"),
        (Choices(frozenset({"bootstrap", "members"})), "^A bootstrap expects one fit; set members=null"),
        (Choices(frozenset({"profile", "members"})), "^Profiles expect one fit; set members=null"),
        (Choices(frozenset({"bootstrap", "recordings"}), "parametric"), "kind recordings, and no other"),
        (Choices(frozenset({"bootstrap", "recordings"}), "recordings"), "^$"),
        (Choices(frozenset({"profile"}), formulation=WINDOWS), "^Profiles expect one trajectory"),
        (Choices(frozenset({"recordings"}), driver=pdefit.drivers.Hosted()), "^Hosted evaluates one recording"),
        (Choices(frozenset({"processes", "starts"})), "^starts=always runs in one task yet"),
        (Choices(frozenset({"processes", "starts", "members"})), "^$"),
        (Choices(frozenset({"processes", "starts if needed"})), "^$"),
        (Choices(adjoint=BACK, driver=pdefit.drivers.Traced(memory="1 GB")), "expects adjoint=checkpointed; Backsolve runs"),
        (Choices(frozenset({"members"}), stages=(pdefit.Stage(LM, reweight=ByPrediction({})),)), "without reweight"),
        (Choices(formulation=WINDOWS, states=frozenset({"initial"})), "y0 has no influence"),
        (Choices(stages=(pdefit.Stage(LM, 4, pdefit.formulations.Single(nudge=0.1)),),
                 observe=pdefit.instruments.At()), "which At does not show"),
        (Choices(formulation=WINDOWS, system=Decay, observe=Own()), "^Windows start from states in the data, which Own"),
        (Choices(stages=(pdefit.Stage(LM, 4, WINDOWS),), system=Decay, observe=Own()), "which Own does not show"),
        (Choices(formulation=WINDOWS, observe=Own(), states=frozenset({"node"})), "^$"),
        (Choices(formulation=WINDOWS, system=Decay, observe=CAMERA(blur=0.1)), "which Camera does not show"),
        (Choices(formulation=WINDOWS, system=Decay, observe=CAMERA(exposure=0.1)), "which Camera does not show"),
        (Choices(formulation=WINDOWS, system=Decay, observe=pdefit.instruments.Average(3.0)), "which Average does not show"),
        (Choices(formulation=WINDOWS, observe=CAMERA(gain=2.0)), "^$"),
        (Choices(formulation=WINDOWS,
                 observe=pdefit.instruments.Compose((CAMERA(), pdefit.instruments.Logarithm("u")))), "^$"),
    ],
)  # fmt: skip
def test_a_sentence_says_why_and_nothing_is_said_where_they_go_together(choices, said):
    assert re.search(said, refusal(choices))


def test_what_has_no_tangents_is_refused_before_a_fit_evaluates_anything(monkeypatch):
    functional = eqx.tree_at(lambda f: f.runner.adjoint, decays(1)[0], BACK)
    for evaluation in ("residuals", "value", "value_and_grad", "watched_gradient"):
        monkeypatch.setattr(pdefit.Functional, evaluation, None)
    with pytest.raises(pdefit.PdefitError, match="has no tangents"):
        pdefit.fit(functional, [LM])
    with pytest.raises(pdefit.PdefitError, match="has no tangents"):
        check_bootstrap(functional, Bootstrap())
