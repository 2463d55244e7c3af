"""What the discretisation does to an estimate, as a fit and `certify RUN discretisation=true` say it."""

import json

import pytest

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
