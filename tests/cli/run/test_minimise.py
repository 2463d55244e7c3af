"""A fit as it runs on the command line."""

import json

import numpy as np

from pdefit._util.run_state import RunState
from pdefit.cli.run.checkpoints import Checkpoints


def test_an_event_is_printed_when_it_happens(pdefit_inside, tmp_path):
    code, out, err = pdefit_inside(
        "fit", "experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=5", "times.stop=4.0",
        "times.fit_until=null", "controls.D.guess=0.19", "controls.r.guess=0.22", "stages=levenberg_marquardt",
        "max_iterations=8", "certificate=end", "render=false", f"hydra.run.dir={tmp_path / 'run'}",
    )  # fmt: skip
    assert code == 0, err
    words = " ".join(out.split())
    events = json.loads((tmp_path / "run" / "summary.json").read_text())["events"]
    assert words.count("steps renewed") == sum("steps renewed" in event for event in events) > 0
    assert words.index("steps renewed") < words.index("control guess estimate")


def test_only_a_state_of_the_same_work_is_taken_up(tmp_path):
    work, other = (Checkpoints(tmp_path, {"config": {}, "hashes": {}, "of": name}) for name in ("D", "r"))
    assert work.load() is None
    work.save(RunState({"stage": 1}, {"x": np.ones(2)}))
    found = work.load()
    assert found is not None and found.numbers["stage"] == 1 and found.arrays["x"].sum() == 2
    assert other.load() is None
