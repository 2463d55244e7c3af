"""Pages name what is there: a test for every limit, and experiments that are shipped."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def _tests() -> dict[str, list[str]]:
    """The files in which each test function stands."""
    found = defaultdict(list)
    for path in (*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "plugins").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name].append(path.name)
    return found


def _wrong(page: str, tests: dict[str, list[str]]) -> list[str]:
    """Rows of the tables that name no test, or one that is missing or stands in several files."""
    rows = [row for row in page.splitlines() if row.startswith("| ") and not row.startswith("| Limit")]
    wrong = []
    for row in rows:
        named = re.fullmatch(r"\| .+ \| `(?:(\w+\.py)::)?(test_\w+)` \|", row)
        files = [] if named is None else [f for f in tests.get(named[2], []) if named[1] in (None, f)]
        wrong += [row] if len(files) != 1 else []
    return wrong


def test_every_limit_names_its_test():
    page = (DOCS / "project" / "limits.md").read_text(encoding="utf-8")
    assert page.count("\n| ") > 25 and _wrong(page, _tests()) == []


def test_a_row_without_a_test_is_noticed():
    tests = {"test_a": ["test_one.py"], "test_b": ["test_one.py", "test_two.py"]}
    good = ["| A. | `test_a` |", "| A. | `test_two.py::test_b` |"]
    bad = ["| A. | |", "| A. | `test_c` |", "| A. | `test_b` |", "| A. | `test_two.py::test_a` |"]
    assert _wrong("\n".join(["| Limit | Test |", "|---|---|", *good, *bad]), tests) == bad


def _missing(page: str) -> list[str]:
    """Experiments and examples that a page names, and that are not shipped."""
    named = set(re.findall(r"experiment=([a-z_]+/[a-z0-9_/]+)", page))
    named |= set(re.findall(r"\| `([a-z_]+/[a-z0-9_/.]+)` \|", page))
    shipped = {str(p.relative_to(ROOT)) for p in (ROOT / "examples").iterdir()}
    for folder in (ROOT / "plugins").glob("*/conf/experiment"):
        shipped |= {str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.yaml")}
    # a page may invent a plugin of its own
    rooms = {name.split("/")[0] for name in shipped}
    return sorted(name for name in named - shipped if name.split("/")[0] in rooms)


def test_experiments_that_pages_name_are_shipped():
    pages = {p.name: p.read_text(encoding="utf-8") for p in DOCS.rglob("*.md")}
    assert {name: _missing(text) for name, text in pages.items() if _missing(text)} == {}
    assert "`flow/soap_film`" in pages["which-case.md"]


def test_an_experiment_that_is_gone_is_noticed():
    text = "| a film | `reaction/gone` | `pdefit fit experiment=flow/gone` |\n| notes | `examples/points.py` |\n"
    assert _missing(text) == ["flow/gone", "reaction/gone"]
