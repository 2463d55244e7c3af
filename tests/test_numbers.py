"""Every number with a unit on README and site has a source, which docs/numbers.json names.

For each page the file maps a number as it is shown to its source: `measured: KEY` in docs/measured.json, which
`scripts/acceptance.py --record` writes; `benchmark: ROW`, a text in the tables of the benchmarks; `example: NAME`, the
output of an executed example; or, for what pdefit does not measure, the setting, limit or publication that it is.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {str(p.relative_to(ROOT)): p for p in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))}
MEASURED = json.loads((ROOT / "docs" / "measured.json").read_text())
SOURCES = json.loads((ROOT / "docs" / "numbers.json").read_text())

# many minutes, or not yet measured on an idle machine
UNMEASURED = (
    "cardiac/voltage_only",
    "cardiac/voltage_only_50ms",
    "cardiac/voltage_only_film",
    "flow/temperature_from_velocity/noisy",
)

_NUMBER = r"(?<![\w.^-])(\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)"
_UNIT = r"(?:-| ?)(%|s|ms|min|minutes?|seconds?|hours?|kB|MB|GB|times|au|cm/s|evaluations)(?![\w/^])"
# the third form is that of z-scores and relative errors in tables
_QUANTITY = re.compile(
    rf"{_NUMBER}{_UNIT}|(?<![\w.^])(-?\d+(?:\.\d+)?e-?\d+)(?!\w)|(?<=[|*+ ])([+-]\d+(?:\.\d+)?)(?=[ *]*\|)"
)
# factors from the unit of a measurement to that of a page
_FACTORS = {
    "": {"": 1, "%": 100, "times": 1, "evaluations": 1},
    "s": {"s": 1, "ms": 1e3, "min": 1 / 60},
    "MB": {"MB": 1, "GB": 1e-3, "kB": 1e3},
    **{unit: {unit: 1} for unit in ("au", "ms", "cm/s")},
}
_BLOCKS = re.DOTALL | re.MULTILINE
_SAME = {"second": "s", "seconds": "s", "minutes": "min", "minute": "min", "hours": "hour"}


def quantities(text: str) -> dict[str, tuple[str, str]]:
    """Numbers with a unit, in powers of ten, or signed in a table, on a page: value and unit by their text."""
    # of code only the comments of commands, which state what these take
    text = re.sub(r"^```bash$.*?^```", lambda m: " ".join(re.findall(r"# (.*)", m.group())), text, flags=_BLOCKS)
    text = re.sub(r"^```.*?^```|^--8<--.*?$|<!--.*?-->", " ", text, flags=_BLOCKS)
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>|\$[^$\n]*\$|https?://\S+|doi:\S+", " ", text)
    found = {}
    for match in _QUANTITY.finditer(text):
        plain, unit, power, signed = match.groups()
        shown = f"{plain} {unit}" if plain else match.group()
        found[shown] = (plain or power or signed).replace(",", ""), _SAME.get(unit, unit or "")
    return found


def rounds_to(value: float, number: str) -> bool:
    """Equality of a value and the number that a page shows, rounded as shown."""
    mantissa, _, exponent = number.lstrip("+-").partition("e")
    decimals = len(mantissa.partition(".")[2])
    place = 10.0 ** (int(exponent or 0) - decimals)
    # 240 stands for a number of two or three digits
    if not decimals and not exponent:
        place = 10.0 ** min(len(mantissa) - len(mantissa.rstrip("0")), max(len(mantissa) - 2, 0))
    return abs(abs(value) - abs(float(number))) <= 0.5 * place * (1 + 1e-9)


def wrong(page: str, text: str, sources: dict[str, dict[str, str]], measured: dict[str, dict]) -> list[str]:
    """Numbers of a page without a source, or unlike it, and sources of numbers that the page does not show."""
    shown, own = quantities(text), sources.get(page, {})
    found = [f"{name} has no source" for name in shown if name not in own and name not in sources["*"]]
    found += [f"{name} is not on the page" for name in own if name not in shown]
    for name, (number, unit) in shown.items():
        kind, _, source = own.get(name, "").partition(": ")
        if kind == "measured":
            for key in source.split("; "):
                factor = _FACTORS[measured[key]["unit"]].get(unit)
                if factor is None or not rounds_to(measured[key]["value"] * factor, number):
                    found.append(f"{name} is {measured[key]['value']:g} {measured[key]['unit']} ({key})")
        elif kind in ("benchmark", "example"):
            file = "tests/benchmarks/README.md" if kind == "benchmark" else f"examples/output/{source}.txt"
            lines = [x for x in (ROOT / file).read_text().splitlines() if kind == "example" or source in x]
            if not any(re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.]*\d)", line) for line in lines):
                found.append(f"{name} is not in {file} ({source})")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_number_has_a_source(page):
    found = wrong(page, PAGES[page].read_text(), SOURCES, MEASURED)
    assert not found, f"{page}: {'; '.join(found)}. Sources stand in docs/numbers.json"


def test_numbers_without_a_source_and_stale_ones_are_found():
    measured = {"a: time": {"value": 14.63, "unit": "s"}, "a: error": {"value": 0.0144, "unit": ""}}
    sources = {
        "*": {"95 %": "level"},
        "page": {"15 s": "measured: a: time", "1.5 %": "measured: a: error", "3 s": "setting"},
    }
    text = (
        "| a | 15 s | 1.5 % | +0.7 |\nnot `7 s`, of 95 % in a 2-minute run, to 3e-7\n```bash\nrun x=4 s  # 9 MB\n```\n"
    )
    assert wrong("page", text, sources, measured) == [
        "+0.7 has no source",
        "2 minute has no source",
        "3e-7 has no source",
        "9 MB has no source",
        "3 s is not on the page",
        "1.5 % is 0.0144  (a: error)",
    ]


def test_experiments_state_the_cost_that_was_measured():
    for file in ROOT.glob("plugins/*/conf/experiment/**/*.yaml"):
        name = re.sub(r".*/conf/experiment/", "", str(file.with_suffix("")))
        if name in UNMEASURED:
            assert "# cost: not measured" in file.read_text()
            continue
        (cost,) = re.findall(r"^# cost: (\S+) s, (\S+) MB$", file.read_text(), re.MULTILINE)
        assert rounds_to(MEASURED[f"{name}: whole command"]["value"], cost[0]), name
        assert rounds_to(MEASURED[f"{name}: memory of the process"]["value"], cost[1]), name


def test_no_source_names_a_page_that_is_gone():
    assert set(SOURCES) <= {"*", *PAGES}
