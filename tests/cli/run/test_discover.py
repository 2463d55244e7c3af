"""pdefit discover on a run with a learned term."""

import csv

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
    "noise=0.005",
    "dt=0.1",
    "~stages.near",
    "render=false",
    "hydra.run.dir=run",
)


def test_a_term_is_written_down(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside("fit", *SMALL)
    assert code == 0, err
    code, out, err = pdefit_inside("discover", "run", "degree=2")
    assert code == 0, err
    with open(tmp_path / "run" / "terms.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    best = [row for row in rows if row["rank"] == "1"]
    assert [row["term"] for row in best] == ["prey * predator"] and best[0]["of"] == "unknown_prey"
    assert abs(float(best[0]["coefficient"]) + 0.9) < 4 * float(best[0]["standard_error"]) < 0.2
    found = yaml.safe_load((tmp_path / "run" / "formulas.yaml").read_text())["system"]["unknown"]["prey"]
    assert found["name"] == "formula" and found["formula"] == "c1 * (prey * predator)" and "terms.csv" in out
    for words, said in {
        ("degree=0",): "whole number from 1",
        ("functions=[eval]",): "functions expects some of",
    }.items():
        code, _, err = pdefit_inside("discover", "run", *words)
        assert code == 1 and said in " ".join(err.split())
