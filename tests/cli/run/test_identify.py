"""pdefit identify on an experiment and on a run."""

import csv
import json
import shutil

import pytest
from matplotlib import image

from pdefit.output.pictures.identifiability import IDENTIFIABILITY


def rows_of(folder, name="identifiability.csv"):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_and_its_starts(fitted, pdefit_inside, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(fitted.run, run)
    # two starts as good as each other, and one far above them
    (run / "starts.csv").write_text("start,loss,D start,D\n0,50.0,0.5,1.0\n1,50.1,2.0,1.1\n2,900.0,3.0,9.0\n")
    code, out, err = pdefit_inside("identify", "run")
    assert code == 0, err
    rows = {row["control"]: row for row in rows_of(run)}
    assert rows.keys() == {"D", "r"} and {row["word"] for row in rows.values()} == {"identifiable"}
    assert float(rows["D"]["spread_over_starts"]) == pytest.approx(1 / 11) and rows["r"]["spread_over_starts"] == ""
    for row in rows.values():
        assert 0 < float(row["known_to"]) < 0.1 and float(row["moved_alone"]) > float(row["moved_compensated"]) > 0
    content = json.loads((run / "identifiability.json").read_text())
    assert content["at"] == "estimate" and len(content["eigenvalues"]) == 2 and content["compensated"] is None
    curves = rows_of(run, "identifiability_curve.csv")
    assert list(curves[0]) == ["eps", "D", "r"] and float(curves[-1]["eps"]) == pytest.approx(1.0)
    assert image.imread(run / "figures" / "identifiability.png")[..., :3].std() > 0.02
    assert "at the estimate, by the data alone" in " ".join(out.split())
    assert "2 of 2 unknowns or groups are identifiable at the estimate." in (run / "report.html").read_text()


def test_a_figure_of_controls_that_compensate(tmp_path):
    """With courses, a group, and thresholds of products; the legend names whom a colour stands for."""
    row = {"unknowns": 1, "word": "not identifiable", "projection": 0.5, "components": {"a": 0.25, "net": 0.25}}
    rows = [{"control": "a", **row}, {"control": "net", **row, "unknowns": 42}]
    course = {"name": "u.0", "times": [0.0, 1.0, 2.0], "values": [[None, 1.0, 2.0], [None, 2.0, 3.0], [None, 1.0, 2.1]]}
    content = {
        "controls": [{**r, "curve": [0.1, 0.5, 1.0]} for r in rows],
        "thresholds": [1e-6, 1e-5, 1e-4],
        "compensated": {"control": "a", "change": 0.1, "traces": [course, course]},
        **{"delta": 0.05, "eps": 1e-5, "time_unit": "s"},
    }
    for name, more in {
        "matrix": {"by_products": False, "eigenvalues": [0.0, 1.0]},
        "products": {"by_products": True},
    }.items():
        IDENTIFIABILITY.write(tmp_path / f"{name}.png", {"eigenvalues": None, **content, **more})
        assert image.imread(tmp_path / f"{name}.png")[..., :3].std() > 0.05


def test_what_cannot_be_answered(pdefit_inside):
    code, _, err = pdefit_inside("identify", "nowhere")
    assert code == 1 and "nowhere" in err and "Traceback" not in err
    code, _, err = pdefit_inside("identify", "experiment=populations/lotka_volterra_500")
    assert code == 1 and "members=null" in " ".join(err.split())
