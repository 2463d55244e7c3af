"""Columns of numbers from tables of text: CSV, and others with a header and one separator."""

import csv
import math
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.memory import too_large

_SEPARATORS = ";\t, "
_MISSING = {"", "na", "n/a", "nan", "null", "none"}


def columns(path: Path) -> dict[str, np.ndarray | str]:
    """The columns of a table by their names, (rows,); in place of one that is not of numbers, the reason in words.

    Empty cells, NA and NaN are missing. Lines that begin with # are skipped. The header is the first line, or the last
    comment where the first line has numbers only.

    **Arguments:**

    - `path`: the file, in UTF-8. Columns are separated by semicolons, tabs or commas; else by blanks.
    """
    # a number takes two characters or more, and eight bytes
    if size := too_large((path.stat().st_size, 4)):
        raise PdefitError(f"'{path.name}' takes {size} of memory; cut it into parts")
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return _read(file, path.name)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PdefitError(f"'{path.name}' cannot be read as a table of text: {error}; export it as CSV") from None


def _read(file: TextIO, name: str) -> dict[str, np.ndarray | str]:
    comments: list[str] = []
    lines = _lines(file, comments)
    first = next(lines, None)
    if first is None:
        raise PdefitError(f"'{name}' is empty; a table with a header is expected")
    separator = next((s for s in _SEPARATORS if s in first.strip()), ",")

    def split(texts: Iterator[str]) -> Iterator[list[str]]:
        for row in csv.reader(texts, delimiter=separator, skipinitialspace=True, strict=True):
            cells = [cell.strip() for cell in row]
            yield cells[:-1] if separator == " " and cells[-1:] == [""] else cells

    (header,), rows = split(iter([first])), split(lines)
    values, reasons = [array("d") for _ in header], dict[int, str]()
    if all(_number(cell) is not None for cell in header):
        told = next(split(iter(comments[-1:])), [])
        if len(told) != len(header):
            raise PdefitError(f"'{name}' has no header; write the names of its columns into its first line")
        for i, cell in enumerate(header):
            values[i].append(_number(cell) or 0.0)
        header = told
    header = [title or f"column{i}" for i, title in enumerate(header, 1)]
    if len(set(header)) < len(header):
        raise PdefitError(f"'{name}' has two columns of one name; give each its own")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise PdefitError(f"Row {number} of '{name}' has {len(row)} cells under {len(header)} names; correct it")
        for i, cell in enumerate(row):
            found = _number(cell)
            if found is None and i not in reasons:
                comma = re.fullmatch(r"[-+]?\d+,\d+(e[-+]?\d+)?", cell, re.IGNORECASE)
                why = "a decimal comma, where a point" if comma else "text, where a number"
                reasons[i] = f"holds {why} is expected: '{cell[:30]}' in row {number}; correct that column"
            values[i].append(math.nan if found is None else found)
    return {title: reasons.get(i, np.asarray(values[i])) for i, title in enumerate(header)}


def _lines(file: TextIO, comments: list[str]) -> Iterator[str]:
    """Lines that are neither blank nor comments; comments before the first one are kept."""
    started = False
    for line in file:
        if line.lstrip().startswith("#"):
            if not started:
                comments.append(line.lstrip().lstrip("#"))
        elif line.strip():
            started = True
            yield line


def _number(cell: str) -> float | None:
    """The number in a cell, NaN where it is missing; None for text."""
    if cell.lower() in _MISSING:
        return math.nan
    try:
        # Python would take 1_0 for ten
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
