import json

import pytest

from pdefit._util.errors import PdefitError
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.summary import Summary

FIT = Summary(experiment="front", loss_final=1.5, iterations=3, fit={"chi2": 2.0}, forecast=None)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "summary.json"
    FIT.write(path)
    assert Summary.read(path) == FIT and RunFiles(tmp_path).summary == FIT
    content = json.loads(path.read_text())
    # a fit says what it has not, and has no entries of others
    assert content["forecast"] is None and not {"recordings", "own", "solver"} & {*content}
    FIT.write(path, ("experiment", "forecast"))
    assert json.loads(path.read_text()) == {"experiment": "front", "forecast": None}


def test_odd_entries_read_as_empty(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text('{"experiment": 3, "fit": null, "loss_final": 2, "iterations": 1.5, "converged": 1, "new": 1}')
    assert Summary.read(path) == Summary(loss_final=2.0)
    assert isinstance(Summary.read(path).loss_final, float)


@pytest.mark.parametrize("text", ["{half", "[]", ""])
def test_a_damaged_file_is_one_sentence(text, tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(text)
    with pytest.raises(PdefitError, match=r"summary.json' is .*put it back from a copy"):
        Summary.read(path)
    # what shows runs goes on without it
    assert RunFiles(tmp_path).summary == Summary()
