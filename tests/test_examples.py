"""The examples: each runs, and prints what the documentation shows."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "examples"
OUTPUT = {file.stem: file.read_text() for file in sorted((ROOT / "output").glob("*.txt"))}
# estimates from noisy data: compilers round differently, and optimizers stop where that decides
TOLERANCE = 1e-2
_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


def differences(expected: str, found: str) -> list[str]:
    """Lines whose text differs, or in which a number differs by 1 % and by more than one unit of its last digit."""
    lines = expected.splitlines(), found.splitlines()
    if len(lines[0]) != len(lines[1]):
        return [f"{len(lines[1])} lines in place of {len(lines[0])}"]
    return [f"{a!r} became {b!r}" for a, b in zip(*lines, strict=True) if not _agree(a, b)]


def _agree(a: str, b: str) -> bool:
    # spaces move where a sign or a digit does
    if _NUMBER.sub("#", a).split() != _NUMBER.sub("#", b).split():
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return all(abs(float(x) - float(y)) <= max(TOLERANCE * abs(float(x)), 1.01 * _last_digit(x)) for x, y in pairs)


def _last_digit(number: str) -> float:
    """One unit of the last digit of a decimal fraction; 0 of a count."""
    mantissa, _, exponent = number.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals) if decimals else 0.0


def test_every_example_has_an_output():
    assert {file.stem for file in ROOT.glob("*.*") if file.suffix in (".py", ".sh")} - {"my_equation"} == set(OUTPUT)


@pytest.mark.parametrize("name", [n for n in OUTPUT if (ROOT / f"{n}.py").exists()])
def test_output(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    runpy.run_path(str(ROOT / f"{name}.py"), run_name="__main__")
    assert differences(OUTPUT[name], capsys.readouterr().out) == []


def test_output_of_the_command_line(monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    done = subprocess.run([ROOT / "resume.sh"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert differences(OUTPUT["resume"], done.stdout) == []


def test_the_readme_shows_examples():
    page = (ROOT.parent / "README.md").read_text()
    assert (ROOT / "first_fit.py").read_text() in page and OUTPUT["first_fit"] in page
    (equation,) = re.findall(r"^class .*?(?=^```)", page, re.DOTALL | re.MULTILINE)
    lines = set((ROOT / "my_equation.py").read_text().splitlines())
    # its first line leaves out what `pdefit verify` needs
    assert [line for line in equation.splitlines()[1:] if line not in lines] == []


@pytest.mark.parametrize(
    ("found", "is_found"),
    [
        ("D = 1.009, 24 frames: True", True),
        ("D = 1.011, 24 frames: True", False),
        ("D = 1.000, 25 frames: True", False),
        ("D = 1.000, 24 frames: False", False),
        ("D = -1.000, 24 frames: True", False),
        ("D = 1.000, 24 frames: True\n", True),
        ("D = 1.000, 24 frames: True\nmore", False),
    ],
)
def test_a_changed_output_is_noticed(found, is_found):
    assert (differences("D = 1.000, 24 frames: True\n", found) == []) == is_found
