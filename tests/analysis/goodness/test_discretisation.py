"""Shifts of an estimate with finer steps and cells: what is tried, and what is said."""

import numpy as np
import pytest

import pdefit
from pdefit.analysis.goodness.discretisation import FINER, discretisation


def _front(*overrides):
    return pdefit.load_experiment("reaction/fisher_front", ["system.grid.shape=[40]", "times.count=13", *overrides])


def _unfitted(functional):
    found = pdefit.Fit(functional, functional.theta0, 1.0, 1.0, [], 1, "done", True, {}, [])
    # no run
    found.__dict__["residuals"] = {}
    return found


@pytest.fixture
def unmeasured(monkeypatch):
    """Shifts of one half width, and no run."""
    monkeypatch.setattr(
        "pdefit.analysis.goodness.discretisation.first_order_shift", lambda f, *_: np.ones(f.controls.size)
    )
    monkeypatch.setattr("pdefit.analysis.goodness.discretisation.residual_changes", lambda *_: [])
    monkeypatch.setattr("pdefit.analysis.goodness.discretisation._refuse_dear", lambda *_: None)
    half, none, nothing = np.full(2, 0.01), np.zeros((2, 2)), np.zeros(2)
    parts = "", none, half, half, half, half, half, 9, none, nothing, (), ("D", "r"), ("", "")
    return pdefit.Intervals(*parts, pdefit.load_experiment("reaction/fisher_front").functional.controls, half > 0)


def test_intervals_of_data_without_noise_measure_no_shift(unmeasured):
    """The effect of finer steps is then relative to the estimate."""
    exp = _front("twin=self", "noise=0.0")
    found = _unfitted(exp.first)
    moved = discretisation(found, unmeasured, noiseless=exp.known.noiseless)
    assert moved.shifts == {} and str(moved) == "" and not moved.decides and len(moved.unchecked) == 2
    # both are logarithms, moved by a hundredth
    assert "half the step would move" in moved.limit and "by 0.01 of itself" in moved.limit


def test_true_values_of_a_twin_on_the_same_cells_belong_to_them(unmeasured):
    """With finer cells an estimate would miss the true values: only the step is tried."""
    exp = _front("twin.refine=1")
    found = _unfitted(exp.first)
    moved = discretisation(found, unmeasured, same_cells=exp.known.same_cells)
    assert (
        list(moved.shifts) == ["step"] and "the cells of the model" in moved.unchecked["grid"] and moved.untested == ()
    )


def test_cells_that_were_not_refined_are_named(unmeasured):
    """A field of the cells would have to be refined, too."""
    exp = _front("system.D=1.0")
    found = _unfitted(exp.first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FINER, "grid", ("half the cell width", _refused))
        moved = discretisation(found, unmeasured)
    (line,) = moved.untested
    assert line.startswith("half the cell width was not tried") and "the unknown k would have to be refined" in line


def _refused(*_):
    raise pdefit.PdefitError("the unknown k would have to be refined, too")
