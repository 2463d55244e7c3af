"""The verdict of Python beside the verdict of the command: a single fit with frames kept out and a wrong number held.

Many recordings: `tests/cli/test_recordings.py`; starts and members: `tests/cli/run/test_members.py`.
"""

import json

import pdefit
from pdefit._util.atomic import plain

FRONT = (
    "system.grid.shape=[40]",
    "times.count=13",
    "holdout=0.2",
    "controls.D.guess=2.5",
    "+controls.D.estimate=false",
)


def test_a_wrong_number_that_is_held_is_named_by_both(pdefit_inside, tmp_path):
    words = ("experiment=reaction/fisher_front", *FRONT, "render=false", "certificate=warn", "hydra.run.dir=run")
    code, _, err = pdefit_inside("fit", *words)
    assert code == 0, err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assessed = pdefit.judge(pdefit.load_experiment("reaction/fisher_front", FRONT).fit())
    verdict = assessed.verdict
    told = (verdict.word, verdict.reason, verdict.next)
    assert told == (summary["verdict"], summary["verdict_reason"], summary["evidence"]["next"])
    assert "D" in verdict.reason.split() and summary["fit"]["heldout"]["frames"] == 1
    assert json.loads(json.dumps(plain(assessed.sections[""]))) == summary["fit"]
