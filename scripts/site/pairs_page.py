"""The table of pairs: which choices of a fit go together, from the function that refuses them and the choices of its tests."""

import importlib
import itertools
import sys
from pathlib import Path
from types import ModuleType

import jax

_INTRODUCTION = """# What goes with what

Steps, solver, adjoint, instrument, noise and the kind of run are chosen one by one. This page says which two of them go
together. It is made from `refusal` in `pdefit/inverse/fit/refused_combinations.py`, the function that refuses a fit before
anything is compiled. That function knows types only.

Of {pairs} pairs {runs} run, {refused} are refused, and {fails} do not run yet. Every pair that runs meets in at least one of
{count} test runs (`tests/pairs`). Each fits the diffusivity and the cooling rate of a heated rod.

A run **agrees** if each number lies within a tenth of a standard error of an estimate made without pdefit:
`scipy.optimize.least_squares` on the same data, with exact solutions in place of steps. The centre of a profile lies within a
fifth of a standard error, and the centre of twenty repetitions of a bootstrap within one.

## The choices

Names in brackets are choices of the configuration that a test run stands for.
"""


def write(tests: Path) -> str:
    """The page.

    **Arguments:** `tests`: the folder of the tests, in which the choices are listed.
    """
    sys.path.insert(0, str(tests))
    jax.config.update("jax_enable_x64", True)
    choices = importlib.import_module("pairs.choices")
    said = {pair: _said(choices, dict(pair)) for pair in choices.pairs()}
    kinds = [word for word, _ in said.values()]
    numbers = {"pairs": len(said), "runs": kinds.count("runs"), "refused": kinds.count("refused")}
    parts = [_INTRODUCTION.format(**numbers, fails=kinds.count("not yet"), count=len(choices.covering()))]
    parts += ["\n".join(["| Axis | Choices |", "|---|---|", *(_axis(a, choices) for a in choices.AXES)])]
    parts += ["## Pairs that do not run", "All choices of two axes that have no table here go together."]
    alone = [(x, why) for axis, names in choices.AXES.items() for x in names if (why := choices.fails({axis: x}))]
    parts += [f"With no other choice runs yet *{x}*: {why}." for x, why in alone]
    more = [(", ".join(sorted(x for _, x in some)), why) for some, why in choices.FAILS.items() if len(some) > 2]
    parts += [f"Together these do not run yet: *{named}*. Reason: {why}." for named, why in more]
    for a, b in itertools.combinations(choices.AXES, 2):
        cells = {(x, y): said[((a, x), (b, y))] for x in choices.AXES[a] for y in choices.AXES[b]}
        whole = {(x, y): choices.fails({a: x}) or choices.fails({b: y}) for x, y in cells}
        if any(why and not whole[pair] for pair, (_, why) in cells.items()):
            parts += [f"### {a.capitalize()} and {b}", _table(cells)]
    return "\n\n".join(parts) + "\n"


def _said(choices: ModuleType, chosen: dict[str, str]) -> tuple[str, str]:
    """The outcome of two choices, with its reason."""
    if why := choices.refused(chosen):
        return "refused", why
    why = choices.fails(chosen)
    return ("not yet", why) if why else ("runs", "")


def _axis(axis: str, choices: ModuleType) -> str:
    """A row of the table of choices: the names of the registry that a choice stands for are in brackets."""
    stands = [(name, place) for places in choices.PLACES.values() for name, place in places.items()]
    told = []
    for choice in choices.AXES[axis]:
        others = [f"`{name}`" for name, place in stands if place == choice and name != choice]
        told.append(f"{choice} ({', '.join(others)})" if others else choice)
    return f"| {axis} | {', '.join(told)} |"


def _table(cells: dict[tuple[str, str], tuple[str, str]]) -> str:
    """The table of two axes, with its reasons below."""
    reasons = {why: k for k, why in enumerate(dict.fromkeys(why for _, why in cells.values() if why), start=1)}
    rows, columns = (list(dict.fromkeys(pair[k] for pair in cells)) for k in (0, 1))
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for x in rows:
        each = (cells[x, y] for y in columns)
        lines.append(f"| {x} | {' | '.join(f'{word} ({reasons[why]})' if why else word for word, why in each)} |")
    return "\n".join(lines) + "\n\n" + "\n".join(f"{k}. {why[:1].upper()}{why[1:]}." for why, k in reasons.items())
