"""Long tables: one row for each value, beside which columns name the observable and the recording."""

import re

import numpy as np
import pandas
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.readers.observations import read_arrays, read_observations
from pdefit.data.readers.recordings import split_recordings
from pdefit.data.readers.source import DataSource
from pdefit.data.readers.survey import survey

# rows in disorder; KO lacks v, and a time of WT has no v
TEXT = """rat,what,hour [h],y,sd,dose
WT + drug,u,2,3.0,.3,5
WT + drug,v,0,-1.0,.1,5
WT + drug,u,0,1.0,.1,
KO,u,1,7.0,.7,0
WT + drug,u,0.5,2.0,.2,5
KO,u,4,8.0,.8,0
WT + drug,v,2,-3.0,.4,5
KO,u,0,,.8,0
"""
LONG = {"value": "y", "time": "hour", "observable": "what", "recording": "rat"}


@pytest.fixture
def table(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    return DataSource(str(tmp_path / "a.csv"), {"U": "u", "V": "v"}, sigma={"U": "sd", "V": "sd"}, long=LONG)


def _without(source, *parts):
    return {"long": {part: column for part, column in source.long.items() if part not in parts}}


def test_rows_become_records_with_gaps(table):
    assert split_recordings(table, "recording") == ["WT-drug", "KO"]
    found = read_observations(table, select={"recording": "WT-drug"}, time_unit="min")
    np.testing.assert_allclose(found.ts, [0, 30, 120])
    np.testing.assert_array_equal(found.values["U"], [1, 2, 3])
    np.testing.assert_array_equal(found.sigma["U"], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(found.mask["V"], [True, False, True])
    np.testing.assert_array_equal(found.values["V"], [-1, 0, -3])
    np.testing.assert_array_equal(np.asarray(found.sigma["V"])[[0, 2]], [0.1, 0.4])
    # an empty value is a time without one
    other = read_observations(table, {"U": "u"}, sigma={}, select={"recording": "KO"})
    assert other.ts.tolist() == [0, 1, 4] and np.asarray(other.mask["U"]).tolist() == [False, True, True]
    for name, dose in {"WT-drug": 5, "KO": 0}.items():
        source = DataSource(table.path, {"U": "u"}, system={"d": "dose"}, long=LONG)
        assert read_arrays(source, source.system, {"recording": name})["d"] == dose


def test_columns_may_be_left_out(table, tmp_path):
    """Without observables every column is a variable, and without recordings all rows are one record."""
    frame = pandas.read_csv(table.path)
    frame[frame.rat == "KO"].to_csv(tmp_path / "one.csv", index=False)
    one = read_observations(tmp_path / "one.csv", {"y": "u"}, **_without(table, "recording"))
    np.testing.assert_array_equal(one.values["y"], [0, 7, 8])
    frame[frame.what == "u"].to_csv(tmp_path / "u.csv", index=False)
    named = {"long": {"time": "hour", "recording": "rat"}, "select": {"recording": 0}, "time_unit": "h"}
    each = read_observations(tmp_path / "u.csv", {"a": "y", "b": "dose"}, sigma={"a": "sd"}, **named)
    np.testing.assert_array_equal(each.sigma["a"], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(each.mask["b"], [False, True, True])


def test_names_are_texts_of_one_or_more_columns(tmp_path):
    rows = [(rat, again, t, t + again) for rat in ("07", "2", "A") for again in (1, 2) for t in (0, 1)]
    pandas.DataFrame(rows, columns=["rat", "again", "time", "y"]).to_csv(tmp_path / "a.csv", index=False)
    source = DataSource(str(tmp_path / "a.csv"), {"y": "y"}, long={"recording": ["rat", "again"]})
    assert split_recordings(source, "recording") == ["07-1", "07-2", "2-1", "2-2", "A-1", "A-2"]
    assert read_observations(source, select={"recording": "A-2"}).values["y"].tolist() == [2, 3]
    with pytest.raises(
        PdefitError, match="Rows 1 and 3 of 'a.csv' both hold 'y' at time = 0; name the column that tells them apart"
    ):
        split_recordings(DataSource(source.path, {"y": "y"}, long={"recording": "rat"}), "recording")
    # the number of a recording is its name first, then its place
    (tmp_path / "b.csv").write_text(
        "id,time,y\n3,0,1\n3,1,2\n1,0,5\n1,1,6\n1234567890123456,0,8\n1234567890123457,0,9\n"
    )
    source = DataSource(str(tmp_path / "b.csv"), {"y": "y"}, long={"recording": "id"})
    assert split_recordings(source, "recording") == ["3", "1", "1234567890123456", "1234567890123457"]
    assert [read_observations(source, select={"recording": i}).values["y"].tolist() for i in (1, 0)] == [[5, 6], [1, 2]]


def test_times_that_differ_by_round_off_are_one(tmp_path):
    (tmp_path / "a.csv").write_text(f"name,time,y\nu,0.3,1\nv,{0.1 + 0.2!r},2\nu,1,3\n")
    long = {"value": "y", "observable": "name"}
    found = read_observations(tmp_path / "a.csv", {"u": "u", "v": "v"}, long=long)
    assert found.ts.tolist() == [0.3, 1] and np.asarray(found.mask["v"]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("change", "named", "told"),
    [
        (("WT + drug,u,0,1.0", "WT + drug,u,2,1.0"), {}, "Rows 1 and 3 of 'a.csv' both hold 'u' at hour = 2"),
        (("u,2,3.0", "u,two,3.0"), {}, "'hour' in 'a.csv' holds 'two' in row 1, where a number"),
        (("u,2,3.0", "u,,3.0"), {}, "'hour' in 'a.csv' is no number in row 1"),
        (("u,2,3.0", "u,2,<3"), {}, "'y' in 'a.csv' holds '<3' in row 1"),
        (("KO,u,4", ",u,4"), {}, "'rat' in 'a.csv' is empty in row 6"),
        (("KO,u,4", "KO,,4"), {}, "'what' in 'a.csv' is empty in row 6"),
        (("KO,u,4", "WT-drug,u,4"), {}, "give each recording a name for a folder"),
        (
            ("8.0,.8,0", "8.0,.8,3"),
            {"system": {"d": "dose"}},
            "'dose' in 'a.csv' is 3 in row 6, but 0 later in the same",
        ),
        (
            ("", ""),
            {"variables": {"U": "u", "V": "w"}},
            "No observable (what) in 'a.csv' is called 'w'; there are: u, v",
        ),
        (("", ""), {"system": {"d": "hour"}}, "'hour' in 'a.csv' has two roles"),
        (("", ""), {"long": LONG | {"value": "z"}}, "No variable in 'a.csv' is called 'z'"),
        (("", ""), {"long": LONG | {"recording": "z"}}, "No variable in 'a.csv' is called 'z'"),
        (
            ("", ""),
            {"long": LONG | {"values": "y"}},
            "part of a long table (data.long) is called 'values'; did you mean value",
        ),
        (("", ""), {"long": {"observable": "what"}}, "expects data.long.value"),
        (("", ""), {"time": "hour"}, "remove data.time"),
        (("", ""), {"select": {}}, "name one of the recordings along 'recording'"),
        (("", ""), {"select": {"recording": "K"}}, "did you mean KO"),
        (("hour [h]", "time [h]"), {}, "'hour'"),
        (
            ("", ""),
            {"long": {"value": "z", "time": "hour"}, "variables": {"U": "y"}},
            "No variable (data.long.value) is called 'z'",
        ),
    ],
)
def test_a_mistake_is_named_with_its_row(change, named, told, tmp_path):
    (tmp_path / "a.csv").write_text(TEXT.replace(*change))
    given = {"variables": {"U": "u"}, "long": LONG, "select": {"recording": "KO"}} | named
    with pytest.raises(PdefitError, match=re.escape(told)) as refused:
        read_observations(tmp_path / "a.csv", **given)
    assert len(str(refused.value).splitlines()) == 1


def test_a_long_table_is_recognised(table, tmp_path):
    found = survey(DataSource(table.path, {}, "hour"))
    assert found.recordings == ("WT-drug", "KO") and [film.name for film in found.films] == ["u", "v"]
    assert [film.sigma for film in found.films] == ["sd", "sd"] and found.source.system == {"dose": "dose"}
    assert found.source.long == LONG
    # subjects by number, and a column of row numbers that says nothing
    rows = [(i, i // 3, 60 + i // 3, t, t**2, 1.5 * t) for i, t in enumerate([0, 1, 2] * 4)]
    columns = ["", "subject", "weight", "t", "a", "b"]
    pandas.DataFrame(rows, columns=columns).to_csv(tmp_path / "b.csv", index=False)
    found = survey(DataSource(str(tmp_path / "b.csv"), {}))
    assert found.source.long == {"time": "t", "recording": "subject"} and found.recordings == ("0", "1", "2", "3")
    assert [film.name for film in found.films] == ["a", "b"] and found.source.system == {"weight": "weight"}


def test_text_that_may_tell_recordings_apart_is_told_and_replicates_are_refused(tmp_path):
    rows = [("high" if kind == "A" else "low", kind, t, t**2) for kind in "AB" for t in range(4)]
    frame = pandas.DataFrame(rows, columns=["drug", "observable", "time", "value"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = survey(DataSource(str(tmp_path / "a.csv"), {}))
    assert found.source.long == {"value": "value", "time": "time", "observable": "observable"}
    assert "'drug' is not used; if it tells recordings apart, add it to data.long.recording" in found.remarks
    frame[["drug", "time", "value"]].replace(3, 2).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(PdefitError, match="Rows 3 and 4 of 'a.csv' both hold 'value' at time = 2"):
        survey(DataSource(str(tmp_path / "a.csv"), {}))


@pytest.mark.parametrize("text", ["t,x,u\n0,1,5\n0,2,6\n1,1,7\n1,2,8\n", "t,u,note\n0,1,a\n1,2,a\n2,3,b\n3,4,b\n"])
def test_lists_of_points_and_series_are_no_long_tables(text, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    found = survey(DataSource(str(tmp_path / "a.csv"), {}))
    assert not found.source.long and [film.name for film in found.films] == ["u"]
