"""pdefit discover on a run with a learned term."""

import csv
import json

import yaml

SMALL = (
    "experiment=populations/lotka_volterra_discovery",
    "~system.unknown.prey",
    "~system.unknown.predator",
    "+system.unknown.prey={name: formula, formula: 'a * tanh(prey * predator)', inputs: [prey, predator],"
    " constants: {a: -0.5}}",
    "system.delta=0.8",
    "~twin.system.delta",
    "~controls.unknown_predator",
    "controls.unknown_prey.prior=null",
    "times.count=16",
    "+times.fit_until=2.4",
    "noise=0.005",
    "dt=0.1",
    "~stages.near",
    "render=false",
    "hydra.run.dir=run",
)


def test_a_term_is_written_down(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside("fit", *SMALL)
    assert code == 0, err
    more = "functions=[saturation]", "formulas=[log(prey - 99)]"
    code, out, err = pdefit_inside("discover", "run", "degree=2", *more, "draws=4")
    assert code == 0, err
    # a candidate that is not finite is dropped and named
    dropped = json.loads((tmp_path / "run" / "discovery.json").read_text())["dropped"]
    assert dropped[0] == "log(prey - 99) in unknown_prey"
    assert f"dropped: {len(dropped)} (see discovery.json), such as log(prey - 99) in unknown_prey" in " ".join(
        out.split()
    )
    with open(tmp_path / "run" / "terms.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    best = [row for row in rows if row["rank"] == "1"]
    assert [row["term"] for row in best] == ["prey * predator"] and best[0]["of"] == "unknown_prey"
    assert abs(float(best[0]["coefficient"]) + 0.9) < 4 * float(best[0]["standard_error"]) < 0.2
    # it predicts the frames that were kept, and would be found again
    assert float(best[0]["held_out_chi2_per_value"]) < 3 and float(best[0]["part_of_draws"]) >= 0.5
    # another law of the same data: with a constant of its own, that may be large
    rivals = [row for row in rows if row["term"] == "predator * (prey / (K + prey))" and row["terms"] == "1"]
    assert float(rivals[0]["constant"]) > 1 and float(rivals[0]["criterion"]) > float(best[0]["criterion"])
    assert (tmp_path / "run" / "figures" / "discovery.png").stat().st_size > 1000
    code, _, err = pdefit_inside("report", "run")
    assert code == 0, err
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Formulas of what was learned" in page and "prey * predator" in page and "figures/discovery" not in err
    # the formula is an experiment
    found = yaml.safe_load((tmp_path / "run" / "formulas.yaml").read_text())
    assert found["system"]["unknown"]["prey"]["formula"] == "c1 * (prey * predator)" and "terms.csv" in out
    code, _, err = pdefit_inside("fit", "run/formulas.yaml", "hydra.run.dir=again")
    assert code == 0, err
    summary = json.loads((tmp_path / "again" / "summary.json").read_text())
    (one,) = summary["parameters"].values()
    assert abs(one["estimate"] + 0.9) < 0.01 and summary["fit"]["chi2_per_value"] < 2
    for words, said in {
        ("degree=0",): "whole number from 1",
        ("functions=[eval]",): "eval",
        ("formulas=[prey * wolves]",): "wolves",
    }.items():
        code, _, err = pdefit_inside("discover", "run", *words)
        assert code == 1 and said in " ".join(err.split())
