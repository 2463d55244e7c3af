"""The notebook among the examples: its cells run, and print the numbers that it keeps."""

import contextlib
import io
import json
import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot
import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def _printed(cell: dict) -> str:
    return "".join("".join(out["text"]) for out in cell["outputs"] if out["output_type"] == "stream")


def _same(found: str, kept: str) -> bool:
    """Equality of two texts up to 1 % in their numbers."""
    pairs = zip(_NUMBER.findall(found), _NUMBER.findall(kept), strict=False)
    close = all(float(x) == pytest.approx(float(y), rel=0.01) for x, y in pairs)
    return close and _NUMBER.sub("#", found) == _NUMBER.sub("#", kept)


def test_the_notebook_prints_what_it_keeps(tmp_path, monkeypatch):
    # the notebook changes the directory and draws on a screen; neither may outlive the test
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(matplotlib.pyplot, "show", lambda: None)
    before = matplotlib.get_backend()
    matplotlib.use("agg")
    names: dict = {}
    try:
        for cell in CELLS:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
            assert _same(out.getvalue(), _printed(cell)), f"{out.getvalue()}\n{_printed(cell)}"
    finally:
        matplotlib.pyplot.close("all")
        matplotlib.use(before)


def test_it_was_executed_in_order_and_tells_nothing_about_a_machine():
    assert [cell["execution_count"] for cell in CELLS] == list(range(1, len(CELLS) + 1))
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r"/(tmp|home|root|Users|work)\b|Traceback|stderr", text)
    pictures = [x for cell in CELLS for out in cell["outputs"] for x in out.get("data", {}).items()]
    assert pictures and all(len("".join(content)) < 200_000 for _, content in pictures)


@pytest.mark.parametrize(
    ("found", "same"), [("D = 1.005 mm", True), ("D = 1.02 mm", False), ("D = 1.0 cm", False), ("D = 1 1 mm", False)]
)
def test_numbers_are_compared(found, same):
    assert _same(found, "D = 1.0 mm") is same
