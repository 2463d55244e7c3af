import json
import re

import pytest

from pdefit.data.fit_section import CorrelationEntry, FitSection, HeldOut, StructureEntry
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.summary import (
    Baseline,
    CertificateSection,
    EvidenceSection,
    ForecastSection,
    IntervalsSection,
    LikelihoodSection,
    RecordingSection,
    Summary,
)

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


def test_sections_are_records_in_a_file_too(tmp_path):
    fit = FitSection(
        chi2=2.0, values=3, whiteness={"u": {"x": CorrelationEntry(0.1, 0.2, 7)}}, heldout=HeldOut(1.0, 4, 2),
        structure=[StructureEntry("u", "along u", [], 5.0, 0.1)],
    )  # fmt: skip
    forecast = ForecastSection(horizon=6.0, baseline=Baseline("last frame", 0.4), peak_time={"error": 1.0})
    one = RecordingSection(fit=fit, forecast=forecast, own={"r": 0.5}, frames=2)
    whole = Summary(
        fit=FitSection(chi2=2.0), recordings={"a": one}, likelihood=LikelihoodSection(prior={"D": "uniform"}),
        intervals=IntervalsSection(degrees_of_freedom=3), certificate=CertificateSection(passed=True, members=["m"]),
        evidence=EvidenceSection(["white"], "more"), sigma={"u": [0.1]},
    )  # fmt: skip
    whole.write(tmp_path / "summary.json")
    assert RunFiles(tmp_path).summary == whole
    content = json.loads((tmp_path / "summary.json").read_text())
    # what is not known is null, but an entry that only some runs have is left out
    assert content["fit"]["heldout"] is None and not {"suspects", "structure", "not_tested"} & {*content["fit"]}
    assert [*content["certificate"]] == ["passed", "members", "reason"]


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
