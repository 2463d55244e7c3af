"""Words that hide their noun become fewer in docstrings and on pages; no count may rise.

The rule of counting: each docstring and each page is one text, without its code and with every run of white space as one space.
A word counts as often as its pattern matches, in either case, whether its use is good or bad. "What ..." counts first lines
that begin with a question word.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

# the most that there may be: lower a number that has fallen
DOCSTRINGS = {"that of": 11, "others": 9, "what is": 2, "has none": 10, "where": 33, "What ...": 0}
PAGES = {"that of": 84, "others": 27, "what is": 53, "has none": 11, "where": 172}

_PATTERNS = {
    "that of": r"\b(that|those) of\b",
    "others": r"\bothers\b",
    "what is": r"\bwhat is\b",
    "has none": r"\b(has|have) none\b|\bnone of\b",
    "where": r"\bwhere\b",
    "What ...": r"^(What|Whether|How|Which|Where|Who|Why|When)\b",
}


def _prose(text: str) -> str:
    """The words of a text: code is left out, white space is one space."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "`", text, flags=re.DOTALL)
    return " ".join(text.split())


def _docstrings(source: str) -> Iterator[str]:
    """Strings that stand as statements: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _count(texts: Iterator[str]) -> Counter[str]:
    """Matches of each pattern in all texts."""
    found: Counter[str] = Counter()
    for text in map(_prose, texts):
        for word, pattern in _PATTERNS.items():
            found[word] += len(re.findall(pattern, text, 0 if word == "What ..." else re.IGNORECASE))
    return found


def _worse(found: Counter[str], most: dict[str, int], place: str) -> str:
    """The message if a count has risen, with those that have fallen; else nothing."""
    risen = [f"{word!r} {found[word]}, at most {number}" for word, number in most.items() if found[word] > number]
    fallen = [f"{word!r} to {found[word]}" for word, number in most.items() if found[word] < number]
    lower = f" Lower {', '.join(fallen)} in tests/test_english.py." if fallen else ""
    return f"{place}: {'; '.join(risen)}. Name the noun.{lower}" if risen else ""


def test_docstrings_hide_no_more_nouns():
    files = [p for room in ("pdefit", "plugins") for p in sorted((ROOT / room).rglob("*.py"))]
    texts = (text for path in files for text in _docstrings(path.read_text(encoding="utf-8")))
    worse = _worse(_count(texts), DOCSTRINGS, "docstrings")
    assert not worse, worse


def test_pages_hide_no_more_nouns():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    worse = _worse(_count(p.read_text(encoding="utf-8") for p in pages), PAGES, "pages")
    assert not worse, worse


def test_a_word_more_is_noticed():
    source = '"""Whether it is that\nof `where`."""\n\n\ndef f():\n    """Others are where it has none."""\n'
    found = _count(_docstrings(source))
    assert found == {"that of": 1, "others": 1, "what is": 0, "has none": 1, "where": 1, "What ...": 1}
    assert _worse(found, dict(found), "docstrings") == ""
    worse = _worse(found, dict(found) | {"others": 0, "where": 2}, "docstrings")
    assert worse == ("docstrings: 'others' 1, at most 0. Name the noun. Lower 'where' to 1 in tests/test_english.py.")
