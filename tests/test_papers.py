"""The page of published numbers beside ours: all of ours are measured, and their records say the same."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts" / "site"))
import papers_page  # noqa: E402

PAPERS = json.loads((ROOT / "docs" / "papers.json").read_text())
MEASURED = json.loads((ROOT / "docs" / "measured.json").read_text())
RECORDED = {key: entry for key, entry in MEASURED.items() if "record" in entry}
_NUMBERS = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?|(?<![\w.])\.\d+")


def _file(entry: dict) -> str:
    return entry["record"].partition(": ")[0]


def _disagrees(entry: dict, text: str) -> bool:
    """Test for a number that its record does not hold, plain or in percent."""
    row = entry["record"].partition(": ")[2]
    lines = [line for line in text.splitlines() if row in line]
    numbers = [float(n.replace(",", "")) for line in lines for n in _NUMBERS.findall(line)]
    return not any(abs(abs(entry["value"]) * f - n) <= 1e-9 * abs(n) for n in numbers for f in (1, 100))


def _by_hand(text: str) -> list[str]:
    """Numbers of a text that are not measured; names such as k1 are none, nor are links and powers."""
    return _NUMBERS.findall(re.sub(r"\{[^{}]*\}|\]\([^)]*\)|\^\d", " ", text))


def test_measured_numbers_are_those_of_their_records():
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in map(_file, RECORDED.values())}
    assert len(RECORDED) > 100
    assert [key for key, entry in RECORDED.items() if _disagrees(entry, texts[_file(entry)])] == []


def test_another_number_in_the_record_is_found():
    entry = {"value": 0.0299, "record": "README.md: | kd2"}
    assert not _disagrees(entry, "| kd2 | 2.99 (1.25 to 3.79) |\n| kd4 | 1.39 |")
    assert _disagrees(entry, "| kd2 | 3.01 (1.25 to 3.79) |\n| kd4 | 2.99 |")


def test_every_number_of_ours_is_measured_and_nothing_is_measured_for_nobody():
    shown = [key for row in PAPERS["rows"] for key in papers_page.keys(row)]
    assert set(shown) <= set(MEASURED)
    assert set(RECORDED) <= set(shown)
    typed = {
        row["what"]: [n for part in ("ours", "seconds", "null") for n in _by_hand(row[part] or "")]
        for row in PAPERS["rows"]
    }
    assert {what: numbers for what, numbers in typed.items() if numbers} == {}


def test_a_number_typed_by_hand_is_found():
    assert _by_hand("kd2 {a: b, 5 %|%} of u^2, [all](a.md#4)") == []
    assert _by_hand("kd2 2.9, of 1e-3") == ["2.9", "1e-3"]


def test_rows_have_a_source_and_commands_that_are_there():
    experiments = {
        re.sub(r".*/conf/experiment/", "", str(p.with_suffix("")))
        for p in ROOT.glob("plugins/*/conf/experiment/**/*.yaml")
    }
    for row in PAPERS["rows"]:
        assert PAPERS["papers"][row["paper"]]["url"].startswith("https://")
        assert row["published"] and (row["ours"] is None) == ("command" not in row)
        # every score has a null model beside it, or says that none was measured
        assert row["null"] is None or row["null"] and ("null_compare" not in row or row["null_compare"])
        words = row.get("command", "").split()
        assert all((ROOT / word).exists() for word in words if word.endswith(".py")), row["what"]
        assert all(word[11:] in experiments for word in words if word.startswith("experiment=")), row["what"]


def test_a_miss_is_shown():
    measured = {
        "good": {"value": -0.001, "unit": ""},
        "bad": {"value": 0.2, "unit": ""},
        "time": {"value": 14.63, "unit": "s"},
    }
    row = {
        "paper": "p",
        "what": "a",
        "published": "1 %",
        "ours": "{good|%}, {bad|100}",
        "seconds": "{time}",
        "null": None,
    }
    papers = {"papers": {"p": {"title": "P", "cite": "P (2020)", "url": "https://p"}}, "rows": [row]}

    def last(*compare):
        return papers_page.write({**papers, "rows": [{**row, "compare": compare}]}, measured).splitlines()[-1]

    good, bad = ("good", "<=", 0.01), ("bad", "<=", 0.01)
    assert last(good) == "| a | 1 % | 0.1 %, 20 | yes | no null model measured | 14.6 s |"
    assert "| **no** |" in last(bad) and "| **1 of 2** |" in last(good, bad) and "20 |  |" in last()
    # a null model that is as good as what was published says so
    row |= {"null": "the guess: {bad}", "null_compare": [bad]}
    assert last(good).endswith("| yes | the guess: 0.2 | 14.6 s |")
    row["null_compare"] = [good, bad]
    assert last(good).endswith("| yes | the guess: 0.2; as good as published: **1 of 2** | 14.6 s |")
    rows = [{**row, "ours": None, "seconds": ""}]
    shown = papers_page.write({**papers, "rows": rows}, measured).splitlines()[-1]
    assert shown.startswith("| a | 1 % | not measured |  | ")


def test_numbers_are_rounded_as_read():
    shown = [papers_page.rounded(x) for x in (0.0038287, 24.1, 3.0, 1.0714e-6, 3e-11, 1493.7, 0.0)]
    assert shown == ["0.00383", "24.1", "3", "1.07e-6", "3e-11", "1490", "0"]
