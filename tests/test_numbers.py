"""Every measured number on README and site comes from a file that a script or a test writes.

Sources are docs/measured.json (`scripts/acceptance.py --record`), the tables of the benchmarks, and the outputs of the
executed examples. docs/given.json lists what is no measurement of pdefit, such as settings, limits and literature, each
with where it comes from.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MEASURED = json.loads((ROOT / "docs" / "measured.json").read_text())
GIVEN = json.loads((ROOT / "docs" / "given.json").read_text())

_NUMBER = r"(?<![\w.^-])(\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)"
_UNIT = r"(?:-| ?)(%|s|ms|min|minutes?|seconds?|hours?|kB|MB|GB|times|x|×|au|cm/s|evaluations)(?![\w/^])"
_QUANTITY = re.compile(rf"{_NUMBER}{_UNIT}|(?<![\w.^-])(\d+(?:\.\d+)?e-?\d+)()(?!\w)")
# factors from the unit of a source to that of a page; a number without unit may be a fraction
_FACTORS = {
    "": {"": 1, "%": 100, "times": 1, "x": 1, "×": 1, "evaluations": 1, "au": 1, "cm/s": 1},
    "s": {"s": 1, "ms": 1e3, "second": 1, "min": 1 / 60, "minute": 1 / 60, "hour": 1 / 3600},
    "MB": {"MB": 1, "GB": 1e-3, "kB": 1e3},
    "ratio": {"": 1, "times": 1, "x": 1, "×": 1, "evaluations": 1},
    **{unit: {unit: 1} for unit in ("au", "ms", "cm/s", "%", "min", "GB", "kB")},
}


def quantities(text: str) -> list[tuple[str, str, str]]:
    """Numbers with a unit of measurement, and small ones in powers of ten, in the prose of a page: text, number, unit."""
    text = re.sub(r"^```.*?^```|^--8<--.*?$|<!--.*?-->", " ", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>|\$[^$\n]*\$|https?://\S+|doi:\S+", " ", text)
    found = []
    for match in _QUANTITY.finditer(text):
        number, unit = match.group(1) or match.group(3), match.group(2) or ""
        found.append((match.group(0).strip(), number.replace(",", ""), unit))
    return found


def rounds_to(value: float, number: str) -> bool:
    """Whether a value is the number that a page shows, rounded as shown."""
    mantissa, _, exponent = number.partition("e")
    decimals = len(mantissa.partition(".")[2])
    place = 10.0 ** (int(exponent or 0) - decimals)
    # 240 stands for a number of two or three digits
    if not decimals and not exponent:
        place = 10.0 ** min(len(mantissa) - len(mantissa.rstrip("0")), max(len(mantissa) - 2, 0))
    return abs(abs(value) - float(number)) <= 0.5 * place * (1 + 1e-9)


def sources() -> list[tuple[float, str]]:
    """Values with their units that pages may quote."""
    found = [(entry["value"], entry["unit"]) for entry in MEASURED.values()]
    tables = [ROOT / "tests" / "benchmarks" / "README.md", *(ROOT / "examples" / "output").glob("*.txt")]
    for text in (file.read_text() for file in tables):
        found += [(float(number), unit) for _, number, unit in quantities(text)]
        found += [(float(number.replace(",", "")), "ratio") for number in re.findall(_NUMBER, text)]
    return found


def unknown(page: str, text: str, known: list[tuple[float, str]]) -> list[str]:
    """Quantities of a page that no source holds."""
    given = {**GIVEN["*"], **GIVEN.get(page, {})}
    return [
        shown
        for shown, number, unit in quantities(text)
        if shown.replace("-", " ") not in given
        and not any(
            rounds_to(value * factor, number)
            for value, have in known
            for want, factor in _FACTORS.get(have, {}).items()
            if want == (unit[:-1] if unit in ("seconds", "minutes", "hours") else unit)
        )
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_number_has_a_source(page):
    name = str(page.relative_to(ROOT))
    left = unknown(name, page.read_text(), sources())
    assert not left, f"{name} states {left}: measure them by scripts/acceptance.py --record, or list them in docs/given.json"


def test_a_number_without_a_source_is_found():
    known = [(14.63, "s"), (0.0144, ""), (737.8, "MB")]
    text = "It takes 15 s and 740 MB, with an error of 1.4 % (1.4e-2), in `7 s`; not 16 s, 750 MB, 1.5 %, 3e-7 or 2-minute."
    assert unknown("none", text, known) == ["16 s", "750 MB", "1.5 %", "3e-7", "2-minute"]


def test_given_numbers_stand_on_their_pages():
    for page, entries in GIVEN.items():
        if page == "*":
            continue
        shown = {text.replace("-", " ") for text, _, _ in quantities((ROOT / page).read_text())}
        assert not set(entries) - shown, f"docs/given.json lists numbers that {page} does not hold"


def test_experiments_state_the_cost_that_was_measured():
    for file in ROOT.glob("plugins/*/conf/experiment/**/*.yaml"):
        name = re.sub(r".*/conf/experiment/", "", str(file.with_suffix("")))
        (cost,) = re.findall(r"^# cost: (\S+) s, (\S+) MB$", file.read_text(), re.MULTILINE)
        assert rounds_to(MEASURED[f"{name}: whole command"]["value"], cost[0]), name
        assert rounds_to(MEASURED[f"{name}: memory of the process"]["value"], cost[1]), name
