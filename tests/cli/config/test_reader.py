"""Sections that are read by the types of their fields: one sentence for each mistake, with its place."""

import dataclasses
import re
from typing import Annotated, Literal

import pytest

from pdefit import PdefitError
from pdefit._util.expected import Count, Number, Pair, Read, count
from pdefit.cli.config._reader import read_section
from pdefit.cli.config.sources import DataSettings
from pdefit.integrate.loop.batch import AbstractBatch, Chunk


@dataclasses.dataclass(frozen=True)
class _Inner:
    rate: Number
    bounds: Pair | None = None


@dataclasses.dataclass(frozen=True)
class _Section:
    kind: Literal["a", "b", "c"]
    inner: _Inner
    size: Annotated[int, count(2, "set size=2")] | None = None
    level: Count | _Inner = 3
    batch: AbstractBatch | None = None
    shouted: Annotated[str, Read(lambda text, path: f"{path}: {text.upper()}")] = ""

    def __post_init__(self) -> None:
        if self.kind == "c" and self.size is None:
            raise ValueError("kind c expects a size; set it")


GOOD = {"kind": "a", "inner": {"rate": 1}}


def test_a_section_is_made_by_its_types():
    words = {
        "size": None,
        "level": {"rate": 2, "bounds": [0, "1e-3"]},
        "batch": {"name": "chunk", "size": 2},
        "shouted": "x",
    }
    found = read_section(_Section, {**GOOD, **words}, "here")
    assert found == _Section("a", _Inner(1.0), None, _Inner(2.0, (0.0, 1e-3)), Chunk(2), "here.shouted: X")
    assert isinstance(found.inner.rate, float)
    # null stands for the default
    assert read_section(_Section, {**GOOD, "level": None}).level == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "d"}, "here.kind expects a, b or c, but got 'd'"),
        ({"kidn": "a"}, "No key of here is called 'kidn'; did you mean kind?"),
        ({"inner": {}}, "here.inner.rate is missing; here.inner expects rate (a number), and may have bounds"),
        ({"inner": {"rate": "???"}}, "here.inner.rate is missing; here.inner expects rate (a number)"),
        ({"inner": 3}, "here.inner expects a mapping of rate, bounds, but got 3"),
        ({"inner": {"rate": True}}, "here.inner.rate expects a number, but got True"),
        ({"inner": {"rate": float("inf")}}, "here.inner.rate expects a number, but got inf"),
        ({"inner": {"rate": 1, "bounds": [1]}}, "here.inner.bounds expects two numbers or null, but got [1]"),
        ({"size": 1}, "here.size expects a whole number >= 2 or null, but got 1; set size=2"),
        # the remedy is for numbers
        ({"size": "x"}, "here.size expects a whole number >= 2 or null, but got 'x'$"),
        ({"level": 0}, "here.level expects a whole number >= 1 or a mapping of rate, bounds, but got 0"),
        ({"level": {"rat": 1}}, "No key of here.level is called 'rat'; did you mean rate?"),
        ({"batch": "chnk"}, "No batch (here.batch) is called 'chnk'; did you mean chunk?"),
        ({"batch": "chunk"}, "here.batch.size is missing; Chunk expects size (a whole number)"),
        ({"kind": "c"}, "here: kind c expects a size; set it"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_its_place(changes, said):
    with pytest.raises(PdefitError, match=f"^{re.escape(said).replace(re.escape('$'), '$')}"):
        read_section(_Section, {**GOOD, **changes}, "here")


def test_a_key_that_is_missing_is_named():
    with pytest.raises(PdefitError, match="^kind is missing; an experiment expects kind .a, b or c."):
        read_section(_Section, {"inner": {"rate": 1}})


def test_all_keys_that_are_missing_are_named_at_once():
    with pytest.raises(
        PdefitError, match="^here.kind and here.inner are missing; here expects kind .*and inner .a mapping"
    ):
        read_section(_Section, {}, "here")


@pytest.mark.parametrize(
    ("sigma", "certain"), [(0.1, False), ({"value": 0.1}, False), ({"value": "sd", "certain": True}, True)]
)
def test_a_sigma_may_be_certain(sigma, certain):
    data = read_section(DataSettings, {"path": "film.h5", "variables": {"u": "u"}, "sigma": {"u": sigma}}, "data")
    assert data.certain == certain and data.stated["u"] == (sigma["value"] if isinstance(sigma, dict) else sigma)
