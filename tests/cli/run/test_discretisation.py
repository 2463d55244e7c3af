"""What the discretisation does to an estimate, as a fit and `certify RUN discretisation=true` say it."""

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import pdefit
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.discretisation import FINER, discretisation
from pdefit.output.store.tables import read_parameters

COARSE = ("experiment=reaction/fisher_front", "system.grid.shape=[40]", "times.count=13", "render=false")


@pytest.mark.parametrize("value", ["maybe", ""])
def test_the_check_is_asked_for_by_true_or_false(pdefit_inside, value):
    code, _, err = pdefit_inside("certify", "nowhere", f"discretisation={value}")
    assert code == 1 and "discretisation expects true or false" in err


def test_a_grid_that_is_too_coarse_is_told(pdefit_inside, tmp_path):
    """Cells as wide as the front, data of finer ones with little noise: the grid decides, and the step does not."""
    code, out, err = pdefit_inside("fit", *COARSE, "noise=0.002", "hydra.run.dir=run")
    assert code == 0, err
    told, run = " ".join(out.split()), tmp_path / "run"
    assert "half the cell width would move" in told and "the discretisation decides" in told and "(±" in told
    summary = json.loads((run / "summary.json").read_text())
    estimated = summary["discretisation"]
    assert estimated["decides"] and estimated["unchecked"] == {}
    assert "half the cell width would move" in summary["verdict_reason"]
    rows = read_parameters(run / "parameters.csv")
    assert [r.discretisation_shift for r in rows] == list(estimated["grid"].values())
    assert max(abs(x) for x in estimated["step"].values()) < 0.1
    assert not any(r.interval_trusted for r in rows) and not summary["intervals"]["trusted"]

    code, out, err = pdefit_inside("certify", "run", "discretisation=true")
    assert code == 0 and "with half the step" in out and "with half the cell width" in out, out + err
    checked = json.loads((run / "discretisation.json").read_text())
    assert checked["grid"]["decides"] and not checked["step"]["decides"]
    for row in rows:
        assert checked["grid"]["controls"][row.control]["shift"] == pytest.approx(row.discretisation_shift, rel=0.2)
        finer = checked["grid"]["controls"][row.control]["finer"]
        assert abs(finer - row.truth) < abs(row.estimate - row.truth)


@pytest.fixture
def unmeasured(monkeypatch):
    """Shifts of one half width, and no run."""
    monkeypatch.setattr("pdefit.cli.run.discretisation.first_order_shift", lambda f, *_: np.ones(f.controls.size))
    monkeypatch.setattr("pdefit.cli.run.discretisation.residual_changes", lambda *_: [])
    monkeypatch.setattr("pdefit.cli.run.discretisation._refuse_dear", lambda *_: None)
    return cast(Any, SimpleNamespace(reach=np.full(2, 0.01)))


def test_intervals_of_data_without_noise_measure_no_shift(compose, unmeasured):
    """What finer steps do to an estimate is then said relative to itself."""
    exp = build_experiment(compose(*COARSE, "twin=self", "noise=0.0"))
    found: Any = SimpleNamespace(functional=exp.functional, theta=exp.functional.theta0, recordings=[])
    moved = discretisation(exp, found, unmeasured)
    assert moved.shifts == {} and str(moved) == "" and not moved.decides and len(moved.unchecked) == 2
    # both are logarithms, moved by a hundredth
    assert "half the step would move" in moved.limit and "by 0.01 of itself" in moved.limit


def test_true_values_of_a_twin_on_the_same_cells_belong_to_them(compose, unmeasured):
    """With finer cells an estimate would miss the true values: only the step is tried."""
    exp = build_experiment(compose(*COARSE, "twin.refine=1"))
    found: Any = SimpleNamespace(functional=exp.functional, theta=exp.functional.theta0, recordings=[])
    moved = discretisation(exp, found, unmeasured, same_cells=True)
    assert (
        list(moved.shifts) == ["step"] and "the cells of the model" in moved.unchecked["grid"] and moved.untested == ()
    )


def test_cells_that_were_not_refined_are_named(compose, unmeasured):
    """A field of the cells would have to be refined, too."""
    exp = build_experiment(compose(*COARSE, "system.D=1.0"))
    found: Any = SimpleNamespace(functional=exp.functional, theta=exp.functional.theta0, recordings=[])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FINER, "grid", ("half the cell width", _refused))
        moved = discretisation(exp, found, unmeasured)
    (line,) = moved.untested
    assert line.startswith("half the cell width was not tried") and "the unknown k would have to be refined" in line


def _refused(*_):
    raise pdefit.PdefitError("the unknown k would have to be refined, too")
