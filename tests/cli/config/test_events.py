"""The section `events`: lists, files, recordings, and what is refused."""

import pytest

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.config._events import read_events
from pdefit.cli.config.read import each_recording

DOSES = [
    {"time": 0, "state": "gut", "amount": 320, "every": 24, "count": 4},
    {"time": 30.5, "state": "body", "amount": 2, "duration": 0.5},
    {"time": 72, "state": "gut", "set": 0},
]


def test_a_file_holds_the_rows_of_a_list(tmp_path):
    listed = read_events(DOSES, "events")
    assert listed[0] == pdefit.Event(0.0, "gut", amount=320.0, every=24.0, count=4) and listed[2].set == 0
    (tmp_path / "doses.csv").write_text(
        "time, state, amount, set, duration, every, count\n0, gut, 320, , , 24, 4\n30.5, body, 2, , .5, ,\n72, gut, , 0, , ,\n"
    )
    assert read_events({"path": str(tmp_path / "doses.csv")}, "events") == listed
    assert read_events(None, "events") == ()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([{"time": 1, "state": "gut", "amount": 1, "when": "gut < 1"}], "events.0.when .* that the state triggers"),
        ([{"time": 1, "state": "gut", "amout": 1}], "No key of events.0 is called 'amout'; did you mean amount"),
        ([{"time": 1, "amount": 1}], "events.0.state is missing; events.0 expects state .text., and may have amount"),
        ([{"time": 1, "state": "gut", "amount": "much"}], "events.0.amount expects a number or null, but got 'much'"),
        ([{"time": 1, "state": "gut"}], "An event expects an amount"),
        ({"gut": 3}, "events expects a list such as"),
        ([3], "events.0 expects"),
        ({"path": "nowhere.csv"}, "The data file 'nowhere.csv' does not exist"),
    ],
)
def test_one_sentence_refuses(given, why):
    with pytest.raises(PdefitError, match=why):
        read_events(given, "events")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("time,state,amount\n0,gut,1\n1,gut,x\n", "doses.csv, line 3.amount expects a number or null, but got 'x'"),
        ("time,state,amount\n0,gut,1,5\n", "No key of doses.csv, line 2 is called 'None'"),
        ('time,state,amount\n0,"gut,1\n', "doses.csv' cannot be read as comma-separated values"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, text, why):
    (tmp_path / "doses.csv").write_text(text)
    with pytest.raises(PdefitError, match=why):
        read_events({"path": str(tmp_path / "doses.csv")}, "events")


def test_a_recording_has_a_table_of_its_own():
    node = {
        "events": DOSES,
        "seed": 0,
        "twin": None,
        "recordings": {"a": None, "b": {"events": DOSES[:1]}, "c": {"events": []}},
    }
    found = each_recording(node)
    assert [len(one["events"]) for one in found.values()] == [3, 1, 0]
