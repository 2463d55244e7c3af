import json
import re

import pytest

from pdefit.data.fit_section import FitSection
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.summary import Summary

FIT = Summary(experiment="front", loss_final=1.5, iterations=3, fit=FitSection(chi2=2.0), forecast=None)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "summary.json"
    FIT.write(path)
    assert RunFiles(tmp_path).summary == FIT
    content = json.loads(path.read_text())
    # a fit says what it has not, and has no entries of others
    assert content["forecast"] is None and not {"recordings", "own", "solver"} & {*content}
    FIT.write(path, ("experiment", "forecast"))
    assert json.loads(path.read_text()) == {"experiment": "front", "forecast": None}


def test_odd_entries_read_as_empty(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text('{"experiment": 3, "fit": null, "loss_final": 2, "iterations": 1.5, "converged": 1, "new": 1}')
    files = RunFiles(tmp_path)
    assert files.summary == Summary(loss_final=2.0) and isinstance(files.summary.loss_final, float)
    assert [told.split("damaged: ")[1].split(",")[0] for told in files.wrong] == [
        "experiment expects text",
        "iterations expects a whole number",
        "converged expects true or false",
    ]


@pytest.mark.parametrize("text", ["{half", "[]", ""])
def test_a_damaged_file_is_one_sentence(text, tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(text)
    files = RunFiles(tmp_path)
    # what shows runs goes on without it
    assert files.summary == Summary()
    (told,) = files.wrong
    assert re.search("summary.json' is .*put it back from a copy", told)
