"""Derived quantities of a configuration: what is refused before a fit, and what is taken."""

import pytest

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.run.build import build_experiment

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[40]", "times.count=5")
PARTS = "recordings={a: {}, b: {}}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("+derive={R0: D / gamma}",), r"No scalar parameter \(derive.R0\) is called 'gamma'"),
        (("+derive={D: 2 * r}",), "derive.D has the name of a parameter"),
        (("+derive={R0: 'D /'}",), "The formula 'D /' cannot be read"),
        (("derive=D",), "derive expects names and formulas"),
        (("+derive={x: 2 * y0.u}", "+controls.y0={u: {}}"), r"No scalar parameter \(derive.x\) is called 'y0.u'"),
        (("+derive={x: 'r[2]'}", PARTS, "+controls.r.scope=experiment"), r"\(derive.x\) is called 'r\[2\]'"),
    ],
)  # fmt: skip
def test_formulas_are_refused_before_anything_is_evaluated(compose, monkeypatch, words, said):
    for evaluation in ("residuals", "value", "value_and_grad"):
        monkeypatch.setattr(pdefit.Functional, evaluation, None)
    with pytest.raises(PdefitError, match=said):
        build_experiment(compose(*FRONT, *words))


def test_recordings_and_a_known_parameter_are_taken(compose):
    words = ("+derive={x: 'r[1] / r[0]', y: D / r}", PARTS, "+controls.r.scope=experiment")
    assert [*build_experiment(compose(*FRONT, *words)).derive] == ["x", "y"]
    assert compose(*FRONT, "derive=null").derive == compose(*FRONT, "~derive").derive == {}
