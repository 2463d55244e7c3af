"""pdefit design on an experiment, and its figure."""

import csv
import json

import numpy as np
import pytest
from matplotlib import image

from pdefit.output.pictures.design import DESIGN

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13")


def test_an_experiment_before_it_has_data(pdefit_inside, tmp_path):
    code, out, err = pdefit_inside("design", *FRONT, "for=r", "at=truth")
    assert code == 0, err
    run = next(tmp_path.rglob("design.csv")).parent
    with open(run / "design.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["kind"] == "now" and float(rows[0]["half D"]) > float(rows[0]["half r"]) > 0
    assert {row["kind"] for row in rows} >= {"frame", "frame 2", "field", "place", "recording", "cadence"}
    content = json.loads((run / "design.json").read_text())
    assert (content["at"], content["target"], content["undetermined"]) == ("truth", "r", [])
    assert [row["value"] for row in content["intervals"]] == pytest.approx([1.0, 1.0])
    assert content["sentence"] in " ".join(out.split()) and "interval of r from ±" in content["sentence"]
    assert image.imread(run / "figures" / "design.png")[..., :3].std() > 0.02
    # options of the verb are no keys of the experiment, and stand in the record
    assert json.loads((run / "provenance.json").read_text())["command"][-2:] == ["for=r", "at=truth"]


def test_figures_of_maps_and_of_what_is_undetermined(tmp_path):
    """A map of blocks, scattered points, and bars without places."""
    interval = {"control": "a", "unit": "1", "value": 0.0, "low": -0.1, "high": 0.1, "half": 0.1}
    more = {"half": [0.08, None], "shrink": [0.8, 1.0], "second": False}
    frames = [{"kind": "frame", "what": "", "variable": "", "time": t, "place": None, **more} for t in (0.0, 1.0, 3.0)]
    field = {"kind": "field", "what": "", "variable": "u", "time": None, "place": None, **more}
    rng = np.random.default_rng(0)
    grids = {
        "map": [[float(i), float(j)] for i in range(3) for j in range(2)],
        "points": rng.random((7, 2)).tolist(),
        "none": [],
    }
    for name, where in grids.items():
        places = [
            {**field, "kind": "place", "place": x, "axes": ["x (mm)", "y (mm)"], "what": "u at x = 1"}
            | {"shrink": [0.9 - 0.01 * i, 1.0]}
            for i, x in enumerate(where)
        ]
        content = {
            "target": "a",
            "time_unit": "s",
            "times": [0.0, 2.0],
            "intervals": [interval, {**interval, "control": "b", "half": None}],
            "candidates": [*frames, field, *places],
            "cadences": [
                {"every": n, "frames": f, "half": [h, None], "lost": [1.0, 1.0]}
                for n, f, h in ((1, 8, 0.1), (2, 4, 0.3))
            ],
        }
        DESIGN.write(tmp_path / f"{name}.png", content)
        assert image.imread(tmp_path / f"{name}.png")[..., :3].std() > 0.05


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("experiment=populations/lotka_volterra_500",), "members=null"),
        ((*FRONT, "noise=0"), "set noise=0.02"),
        ((*FRONT, "at=end"), "guess, truth"),
    ],
)
def test_what_cannot_be_answered(words, told, pdefit_inside):
    code, _, err = pdefit_inside("design", *words)
    assert code == 1 and told in " ".join(err.split()) and "Traceback" not in err
