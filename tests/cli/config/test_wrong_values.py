"""Values that do not fit: made from the types of every entry of a configuration, and refused by one sentence that names it.

The words of a rule are promises. So "a whole number >= 2" makes 1, -1 and 1.5, whatever function tests them.
"""

import dataclasses
import inspect
import math
import re
import tracemalloc
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from pdefit import PdefitError
from pdefit._util.expected import Read
from pdefit.cli.config._noise import NoiseSettings
from pdefit.cli.config._reader import build, check_keys, read, read_section
from pdefit.cli.config._registry import KINDS, lookup
from pdefit.cli.config._types import argument_hints, converted
from pdefit.cli.config.settings import Settings
from pdefit.cli.config.sources import StateFile
from pdefit.cli.config.starts import StartsSettings

VALUES = {
    "text": "no_such_name", "whole": 3, "zero": 0, "negative": -1, "fraction": 3.5, "nan": math.nan, "infinite": math.inf,
    "true": True, "list": ["no_such_name"], "mapping": {"no_such_key": 1}, "null": None,
}  # fmt: skip
NUMBERS = {"whole", "zero", "negative", "fraction", "nan", "infinite"}
# by Python type the values that none of its rules lets pass
WRONG: dict[Any, set[str]] = {
    float: {"text", "nan", "infinite", "true", "list", "mapping", "null"},
    int: {"text", "fraction", "nan", "infinite", "true", "list", "mapping", "null"},
    str: {"list", "mapping", "null", "true"},
    bool: VALUES.keys() - {"true"},
    tuple: VALUES.keys() - {"list"},
    list: VALUES.keys() - {"list"},
    Sequence: VALUES.keys() - {"list"},
    dict: VALUES.keys() - {"mapping"},
    Mapping: VALUES.keys() - {"mapping"},
    type(None): VALUES.keys() - {"null"},
}
# what reads by a function takes several kinds, which its type does not tell
READ = {"true", "list", "mapping"}


def promised(words: str) -> set[str]:
    """Numbers that the words of a rule rule out."""
    found = {"zero", "negative"} if "positive" in words or ">= 1" in words or ">= 2" in words else set[str]()
    if "number" in words and "numbers" not in words:
        found |= {"nan"}
    if "whole number" in words or "from 0 to 1" in words or "of 0 or more" in words:
        found |= {"negative"}
    if "size" in words:
        found |= {"text", "negative", "nan"}
    return found | ({"fraction"} if "whole number" in words or "0 to 1" in words else set())


def wrong(hint: Any) -> set[str]:
    """Names of the values that do not fit a type hint."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return set.intersection(*map(wrong, typing.get_args(hint)))
    for rule in getattr(hint, "__metadata__", ()):
        plain = wrong(hint.__origin__)
        if isinstance(rule, Read):
            return READ & plain
        return READ | promised(rule.words) if hint.__origin__ is Any else plain | promised(rule.words)
    if origin is typing.Literal or _is_section(hint) or inspect.isclass(hint) and issubclass(hint, BASES):
        return {*VALUES}
    return WRONG.get(origin or hint, set())


def _is_section(hint: Any) -> bool:
    return inspect.isclass(hint) and dataclasses.is_dataclass(hint) and not issubclass(hint, BASES)


def sections(section: Any, path: str = "") -> Iterator[tuple[str, type]]:
    """A section and those below it, with the place of each."""
    yield path, section
    for name, hint in argument_hints(section).items():
        options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        read_by = [r.expected for part in options for r in getattr(part, "__metadata__", ()) if isinstance(r, Read)]
        for inner in filter(_is_section, (*options, *read_by)):
            yield from sections(inner, f"{path}.{name}".lstrip("."))


BASES = tuple(kind.base for kind in KINDS)
SECTIONS = {**dict(sections(Settings)), "data.sigma.u": NoiseSettings, "initial": StateFile}
# null is no frame and no gauge; recordings are read one by one, as settings
TAKEN = {"holdout": {"null"}, "gauge": {"null"}, "recordings": VALUES.keys(), "members": VALUES.keys()}
OBJECTS = {
    f"{kind.word}: {name}": target
    for kind in KINDS
    for name in kind.classes
    if (target := lookup(name, kind.base, "")).__module__.startswith("pdefit")
}


def refusal(call: Callable[[], Any]) -> str:
    """The sentence by which something is refused; empty where it is not."""
    try:
        call()
    except PdefitError as error:
        return str(error)
    return ""


def not_refused(target: Any, path: str, floats: bool) -> list[str]:
    """Entries with wrong values that are taken, or refused by more than one line, or by one that does not name the entry."""
    found = []
    for name, hint in argument_hints(target).items():
        at = f"{path}.{name}".lstrip(".")
        is_read = name in inspect.signature(target).parameters and name not in converted(target)
        for kind in wrong(hint) - TAKEN.get(at, {*()}) if is_read else ():
            said = refusal(lambda h=hint, k=kind, at=at: read(h, VALUES[k], at, floats))
            if at not in said or "\n" in said:
                found.append(f"{at}={VALUES[kind]!r}: {said or 'taken'}")
    return found


@pytest.mark.parametrize("name", SECTIONS)
def test_a_wrong_entry_of_a_section_is_one_sentence_that_names_it(name):
    assert not_refused(SECTIONS[name], name, floats=True) == []


@pytest.mark.parametrize("name", OBJECTS)
def test_a_wrong_argument_of_an_object_is_one_sentence_that_names_it(name):
    assert not_refused(OBJECTS[name], "here", floats=False) == []


OPTIMIZERS = {name: target for name, target in OBJECTS.items() if name.startswith("optimizer: ")}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_wrong_number_of_an_optimizer_is_refused_in_python_too(name):
    target, taken = OPTIMIZERS[name], []
    for argument, hint in argument_hints(target).items():
        number = getattr(hint, "__origin__", hint)
        if number not in (int, float):
            continue
        refused = wrong(hint) & ({"negative", "zero"} if number is int else {"negative", "zero", "nan", "infinite"})
        assert "negative" in refused, f"{argument} states no rule for its number"
        for value in (number(VALUES[kind]) for kind in refused):
            said = refusal(lambda argument=argument, value=value: target(**{argument: value}))
            if argument not in said or "\n" in said:
                taken.append(f"{argument}={value!r}: {said or 'taken'}")
    assert taken == []


# what an object needs beside a count
NEEDED = {
    "inputs": ["u"], "low": 0.0, "high": 1.0, "length": 1.0, "knots": [3], "extent": [1.0], "times": [0.0, 1.0],
    "values": [0.0, 1.0], "stride": [1], "control": "D", "weight": 1.0, "slope": 1.0, "width": 1.0, "boundary": "periodic",
}  # fmt: skip


def counts(target: Any) -> dict[str, Any]:
    """Arguments that are whole numbers, lists of them among these, each as a number of things."""
    hints, known = argument_hints(target), inspect.signature(target).parameters
    whole = {name: hint for name, hint in hints.items() if name in known and "int" in str(hint) and "seed" not in name}
    return {name: [HUGE] if "[int" in str(hint) else HUGE for name, hint in whole.items()}


HUGE = 10**18
# a whole configuration is more than its sections
COUNTED = {name: target for name, target in {**SECTIONS, **OBJECTS}.items() if name and counts(target)}


@pytest.mark.parametrize("name", COUNTED)
def test_a_huge_count_is_one_sentence_or_takes_no_memory(name):
    target = COUNTED[name]
    needed = {a for a, p in inspect.signature(target).parameters.items() if p.default is p.empty}
    for key, value in counts(target).items():
        node = {k: v for k, v in NEEDED.items() if k in needed} | {key: value}
        tracemalloc.start()
        said = refusal(lambda n=node: read_section(target, n, "here") if name in SECTIONS else build(target, n, "here"))
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "\n" not in said and len(said) < 500 and taken < 2**22, f"{key}: {said or taken}"


@pytest.mark.parametrize(
    ("kind", "name", "node", "said"),
    [
        ("term", "network", {"inputs": ["u"], "depth": 10**6}, "1 to 50 layers of 1 to 1000 neurons, .* depth 1000000"),
        (
            "term",
            "network",
            {"inputs": ["u"], "width": 10**9},
            "width expects a whole number up to 1000000, but got 10",
        ),
        ("term", "series", {"inputs": ["u"], "low": 0, "high": 1, "count": HUGE}, "count expects a whole number up to"),
        ("optimizer", "lbfgs", {"memory": 10**9}, "memory expects a whole number up to 1000000, but got 1000000000"),
        ("input", "interpolant", {"knots": [HUGE], "extent": [1.0]}, "knots = .* take .* of memory; take fewer"),
    ],
)
def test_the_limit_of_a_count(kind, name, node, said):
    assert re.search(said, refusal(lambda: build(OBJECTS[f"{kind}: {name}"], node, "here")))


def test_the_limit_of_starts():
    assert "count expects a whole number up to" in refusal(lambda: read_section(StartsSettings, {"count": 10**9}))


@pytest.mark.parametrize("path", SECTIONS)
def test_a_key_that_is_unknown_or_missing_is_named(path):
    section = SECTIONS[path]
    needed = {name: p.default is p.empty for name, p in inspect.signature(section).parameters.items()}
    key, given = max(needed, key=len), dict.fromkeys(needed)
    said = refusal(lambda: check_keys(section, {**given, f"{key}s": 1}, path))
    assert said.startswith(f"No key of {path or 'the configuration'} is called '{key}s'; did you mean {key}")
    for name in (name for name in needed if needed[name]):
        for node in ({other: None for other in given if other != name}, {**given, name: "???"}):
            said = refusal(lambda node=node: read_section(section, node, path))
            assert said.startswith(f"{path}.{name} is missing; ".lstrip("."))


@pytest.mark.parametrize("name", [n for n, t in OBJECTS.items() if "kwargs" not in inspect.signature(t).parameters])
def test_an_argument_that_is_unknown_is_named(name):
    said = refusal(lambda: build(OBJECTS[name], {"no_such_key": 1}, "here"))
    assert "'no_such_key'" in said and "here" in said and "\n" not in said


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        ("data.path", 3, "data.path expects text, the name of a file, but got 3"),
        ("data.coordinates", {"x": 3}, "data.coordinates expects axis: variable, .*, but data.coordinates.x is 3"),
        ("data.truth", [3], "data.truth expects controls with their true values, .*, but data.truth.0 is 3"),
        ("dt", "soon", r"dt expects a positive time step \(e.g. 0.1\) or null, but got 'soon'"),
        ("store.fields", "u", "store.fields expects a list of names, or null for all, but got 'u'"),
        ("store.budget", "lots", "store.budget expects a size like '2 GB', but got 'lots'"),
        ("seed", 1.5, "seed expects a whole number, but got 1.5"),
        ("times.count", 1, "times.count expects a whole number >= 2 or null, but got 1; e.g. times={.*}"),
        ("max_iterations", 0, "max_iterations expects a .* >= 1 or null, but got 0; pdefit plan and pdefit certify .*"),
        ("times.forecast", {"stop": 4, "count": 0}, "times.forecast.count .* got 0; set times.forecast=null for .*"),
        ("posterior", "many", "posterior.rank expects a whole number >= 1, but got 'many'"),
        ("posterior", 0, "posterior.rank expects .* >= 1, but got 0; posterior=null leaves it out"),
        ("cores", 0, "cores expects a number of cores, 1 or more, or null for all, but got 0"),
        ("device", "abacus", "device expects cpu, gpu, all, or numbers of devices .*, but got 'abacus'"),
        ("certificate", "maybe", "certificate expects stop, warn or end, but got 'maybe'"),
        ("twin", {"noise": 0.1}, "twin.variant and .* are missing; twin expects variant .self .*, as twin=self or .*"),
        ("twin.refine", 0.5, "twin.refine expects a number >= 1, such as 2 or 1.5, but got 0.5; set twin.refine=1"),
        ("stages.until", "soon", "stages.until expects a time or null, but got 'soon'"),
        ("stages.window", "whoel", "stages.window expects a time or whole or null, but got 'whoel'"),
        ("stages.stop", "nois", "stages.stop expects noise, holdout, .*, but got 'nois'"),
        ("controls.guess", "datum", "controls.guess expects a number, but got 'datum'"),
        ("controls.bounds", [0, "one"], r"controls.bounds expects two numbers or null, but got \[0, 'one'\]"),
        ("controls.scale", "big", "controls.scale expects a positive number, but got 'big'"),
        ("controls.smoothing", "x", "controls.smoothing expects a positive number or a mapping of length, .*'x'"),
        (
            "controls.smoothing",
            {"amplitude": 2},
            "controls.smoothing.length is missing; .*, and may have amplitude, .*",
        ),
        ("initial", "datum", "initial expects `system`, `fixed`, `data`, .* and the like, but got 'datum'"),
        ("adjoint", "rk4", "adjoint expects the name of a kind of adjoint, but 'rk4' is a kind of solver; .*"),
        ("driver", {"name": "hosted", "device": "lots"}, ".*driver.device expects a size like '2 GB', but got 'lots'"),
    ],
)
def test_the_sentence_of_each_kind(at, value, said):
    path, _, name = at.rpartition(".")
    with pytest.raises(PdefitError, match=f"^{said}$"):
        read(argument_hints(SECTIONS[path])[name], value, at, True)
