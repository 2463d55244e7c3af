"""The table of pairs: which choices of a fit go together, from the function that refuses them and the choices of its tests."""

import itertools
import sys
from pathlib import Path

_INTRODUCTION = """# What goes with what

Solver, steps, adjoint, instrument, noise and the kind of run are chosen one by one. This page says which choices go together,
and why others do not. It is made from the function that refuses them, `refusal` in `pdefit/inverse/fit/combinations.py`. That
function knows types only, so a refusal comes before anything is compiled.

{pairs} pairs are allowed, and {refused} are refused. Every allowed pair meets in at least one of {runs} test runs
(`tests/pairs`), which fit the diffusivity and the cooling rate of a heated rod. A run **agrees** if each number lies within a
twentieth of a standard error of the estimate that `scipy.optimize.least_squares` finds in the same data with exact solutions in
place of steps. The centre of a profile lies within a fifth of a standard error, and that of twenty repetitions of a bootstrap
within one.

## The choices
"""


def write(tests: Path) -> str:
    """The page.

    **Arguments:** `tests`: the folder of the tests, in which the choices are listed.
    """
    sys.path.insert(0, str(tests))
    from pairs import choices

    said = {pair: choices.refused(dict(pair)) for pair in choices.pairs()}
    count = sum(map(bool, said.values()))
    parts = [_INTRODUCTION.format(pairs=len(said) - count, refused=count, runs=len(choices.covering()))]
    parts += ["\n".join(["| Axis | Choices |", "|---|---|", *(_axis(a, choices) for a in choices.AXES)])]
    parts += ["## Refused pairs", "All choices of two axes that have no table here go together."]
    for a, b in itertools.combinations(choices.AXES, 2):
        cells = {(x, y): said[((a, x), (b, y))] for x in choices.AXES[a] for y in choices.AXES[b]}
        parts += [f"### {a.capitalize()} and {b}", _table(cells)] if any(cells.values()) else []
    return "\n\n".join(parts) + "\n"


def _axis(axis: str, choices) -> str:
    """A row of the table of choices: the registry names that a choice stands for are in brackets."""
    stands = [(name, place) for places in choices.PLACES.values() for name, place in places.items()]
    told = []
    for choice in choices.AXES[axis]:
        others = [f"`{name}`" for name, place in stands if place == choice and name != choice]
        told.append(f"{choice} ({', '.join(others)})" if others else choice)
    return f"| {axis} | {', '.join(told)} |"


def _table(cells: dict[tuple[str, str], str]) -> str:
    """The table of two axes, with its reasons below."""
    reasons = {why: k for k, why in enumerate(dict.fromkeys(filter(None, cells.values())), start=1)}
    rows, columns = (list(dict.fromkeys(pair[k] for pair in cells)) for k in (0, 1))
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for x in rows:
        each = (cells[x, y] for y in columns)
        lines.append(f"| {x} | {' | '.join(f'refused ({reasons[why]})' if why else 'runs' for why in each)} |")
    return "\n".join(lines) + "\n\n" + "\n".join(f"{k}. {why}." for why, k in reasons.items())
