"""pdefit compare-adjoints, and fits with each algorithm."""

import csv
import json
import struct

import numpy as np
import pytest
from matplotlib import image

from pdefit.lab.adjoint_study import Measured, recommended
from pdefit.output.pictures.studies import ADJOINTS

# diffusion so stiff between frames that one backup does not do
FRONT = (
    "experiment=reaction/fisher_front", "twin=self", "times.count=4", "times.stop=3.0", "times.fit_until=null",
    "system.grid.shape=[240]", "controls.D.guess=2.0", "controls.r.guess=1.5",
)  # fmt: skip


def measured(name, error=1e-15, seconds=1.0, peak=1000, fits=True, accuracy=1e-8):
    return Measured(name, f"adjoint={name}", name, error, seconds, peak, 3, "", fits, accuracy)


def test_the_command_compares_and_draws(pdefit_inside, tmp_path):
    folder = tmp_path / "run"
    code, out, err = pdefit_inside("compare-adjoints", *FRONT, f"hydra.run.dir={folder}")
    assert code == 0, err
    found = json.loads((folder / "compare.json").read_text())
    rows = {r["algorithm"]: r for r in found["rows"]}
    assert found["reference"] == "store-all" and rows["store-all"]["error"] == 0
    for name in ("checkpointed", "three levels", "interpolating", "backsolve", "tangent", "finite differences"):
        assert rows[name]["error"] <= 1e-6 and rows[name]["seconds"] > 0 and rows[name]["peak_bytes"] > 0, name
    lost = rows["backsolve, 1 backup"]
    assert not (lost["error"] is not None and lost["error"] <= 1e-6)
    assert "unstable" in lost["remark"] and "unstable" not in rows["backsolve"]["remark"]
    assert rows["store-all"]["stored_states"] > rows["backsolve"]["stored_states"] > rows["tangent"]["stored_states"]
    assert min(found["errors"]) > found["ad_error"] and found["errors"][0] > min(found["errors"])
    assert found["verdict"].startswith("use ") and "backsolve, 1 backup" in found["verdict"]
    words = " ".join(out.split())
    assert found["verdict"][:30] in words and "4 of 4 observation times" in words
    with open(folder / "compare.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [r["algorithm"] for r in table] == list(rows)
    assert float(table[4]["seconds"]) == rows["interpolating"]["seconds"]
    picture = folder / "figures" / "adjoints.png"
    assert struct.unpack(">II", picture.read_bytes()[16:24])[0] == 7 * 160
    assert image.imread(picture)[..., :3].std() > 0.02


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        # fastest of all, but wrong
        ([measured("a"), measured("b", error=1e-3, seconds=0.1)], "use a (adjoint=a)"),
        ([measured("a"), measured("b", error=np.nan, seconds=0.1)], "wrong by more than 1e-06: b"),
        # exact rather than approximate, unless that costs much
        ([measured("a"), measured("b", error=1e-9, seconds=0.7, accuracy=1e-6)], "b takes 0.7 of the time but is not exact"),
        ([measured("a"), measured("b", error=1e-9, seconds=0.3, accuracy=1e-6)], "use b"),
        # small rather than large
        ([measured("a", peak=10**6), measured("b", seconds=1.2)], "use b"),
        ([measured("a", peak=10**6), measured("b", seconds=3.0)], "use a"),
        # what does not fit, or did not run, is no choice
        ([measured("a", seconds=0.1, fits=False), measured("b")], "use b"),
        ([measured("a", error=None, seconds=None), measured("b")], "use b"),
        ([measured("a", fits=False)], "no algorithm"),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_the_numbers(rows, words):
    assert words in recommended(rows)


def test_unusual_comparisons_are_drawn(tmp_path):
    """Algorithms that blow up or did not run, errors of zero, no valley."""
    rows = [measured("a", error=0.0), measured("b", error=None), measured("c", error=1e9, peak=1)]
    left_out = measured("d", error=None, seconds=None, peak=None)
    found = {
        "rows": [vars(r) for r in (*rows, left_out)],
        "reference": "a",
        "steps": [0.1, 0.01, 0.001],
        "errors": [None, 0.0, 1e-3],
        "ad_error": 0.0,
    }
    ADJOINTS.write(tmp_path / "adjoints.png", found)
    assert image.imread(tmp_path / "adjoints.png")[..., :3].std() > 0.02


@pytest.mark.parametrize("name", ["backsolve", "interpolating", "tangent", "finite_difference"])
def test_every_algorithm_is_planned(pdefit_inside, tmp_path, name):
    folder = tmp_path / name
    code, _, err = pdefit_inside("plan", *FRONT, "stages=lbfgs", f"adjoint={name}", f"hydra.run.dir={folder}")
    assert code == 0, err
    cost = json.loads((folder / "plan.json").read_text())["evaluation"]
    assert name.split("_")[0] in cost["schedule"] and cost["stored_states"] >= 1 and cost["seconds"] > 0


def test_a_fit_with_a_continuous_adjoint_runs_or_is_stopped_by_its_certificate(pdefit_inside, tmp_path):
    def fit(name, *options):
        return pdefit_inside("fit", *FRONT, "noise=0.01", "render=false", f"hydra.run.dir={tmp_path / name}", *options)

    code, _, err = fit("tangents", "stages=levenberg_marquardt", "adjoint=backsolve")
    assert code != 0 and "has no tangents" in " ".join(err.split()) and "Traceback" not in err
    code, _, err = fit("wrong", "stages=lbfgs", "adjoint=backsolve", "adjoint.backups=1")
    assert code != 0 and "fails its certificate" in " ".join(err.split())
    code, _, err = fit("right", "stages=lbfgs", "adjoint=backsolve", "max_iterations=2")
    assert code == 0, err
    assert json.loads((tmp_path / "right" / "summary.json").read_text())["certificate"]["passed"]
