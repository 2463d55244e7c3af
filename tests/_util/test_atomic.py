import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from pdefit._util.atomic import beside, write_json, write_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (math.inf, None),
        ([1.0, -math.inf], [1.0, None]),
        (np.float64(0.1), 0.1),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.asarray([[1.0, np.nan], [3.0, 4.0]]), [[1.0, None], [3.0, 4.0]]),
        ((1, "two", None, False), [1, "two", None, False]),
        ({1: {"a": np.arange(2)}}, {"1": {"a": [0, 1]}}),
        (Path("a/b"), "a/b"),
    ],
)
def test_write_json_is_strict_json(tmp_path, value, expected):
    def refuse(constant: str):
        raise AssertionError(f"{constant} is not JSON")

    write_json(tmp_path / "x.json", {"value": value})
    read = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert read["value"] == expected and type(read["value"]) is type(expected)


def test_write_json_keeps_every_digit(tmp_path):
    numbers = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -1 / 3]
    write_json(tmp_path / "x.json", numbers)
    assert json.loads((tmp_path / "x.json").read_text()) == numbers


def test_write_text_leaves_one_file_with_the_last_content(tmp_path):
    for text in ("first\r\n", "second: µ\n"):
        write_text(tmp_path / "x.txt", text)
    assert (tmp_path / "x.txt").read_bytes() == "second: µ\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_old_content_survives_a_write_that_fails(tmp_path):
    write_text(tmp_path / "x.txt", "old\n")
    with pytest.raises(UnicodeEncodeError):
        # a lone surrogate has no UTF-8: the write fails when the file is already open
        write_text(tmp_path / "x.txt", "new" * 100_000 + "\ud800")
    assert (tmp_path / "x.txt").read_text() == "old\n"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


@pytest.mark.parametrize("shared", [False, True])
def test_a_neighbour_has_the_suffix_and_goes_when_its_block_fails(tmp_path, shared):
    path = tmp_path / "x.tar.gz"
    with pytest.raises(KeyboardInterrupt), beside(path, shared) as neighbour:
        neighbour.write_text("half")
        assert neighbour.suffix == ".gz" and "partial" in neighbour.name and neighbour.parent == tmp_path
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with beside(path, shared) as neighbour:
        neighbour.write_text("whole")
        assert not path.exists() and (str(os.getpid()) in neighbour.name) == shared
    assert path.read_text() == "whole" and list(tmp_path.iterdir()) == [path]
