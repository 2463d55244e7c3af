"""The section `events` of a configuration: doses, infusions and resets, listed or in a file."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdefit._util.errors import PdefitError
from pdefit.cli.config._reader import read_section
from pdefit.data.readers.locate import locate
from pdefit.systems.events import Event

EXPECTED = "a list such as [{time: 0, state: gut, amount: 320}], or {path: FILE.csv}, or null"
# what other programs call an event that the state triggers
_TRIGGERS = ("when", "if", "trigger", "condition")


def read_events(node: Any, path: str) -> tuple[Event, ...]:
    """Events of a list of mappings, or of a file of comma-separated values with a row for each; null for none."""
    if isinstance(node, Mapping) and [*node] == ["path"] and isinstance(node["path"], str):
        rows = _rows(locate(node["path"]))
    elif node is None or isinstance(node, list):
        rows = {f"{path}.{k}": row for k, row in enumerate(node or ())}
    else:
        raise PdefitError(f"{path} expects {EXPECTED}, but got {node!r}")
    for where, row in rows.items():
        if found := [key for key in _TRIGGERS if isinstance(row, Mapping) and key in row]:
            raise PdefitError(
                f"{where}.{found[0]} names an event that the state triggers, which pdefit does not support; state its time, or "
                f"write a steep smooth switch into the equations"
            )
    return tuple(read_section(Event, row, where) for where, row in rows.items())


def _rows(file: Path) -> dict[str, dict[str, Any]]:
    """Rows of a table without their empty cells, by the name of file and line."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines, skipinitialspace=True, strict=True)
            rows = {f"{file.name}, line {table.line_num}": row for row in table}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PdefitError(f"'{file}' cannot be read as comma-separated values ({error}); export it again") from None
    return {
        where: {str(key).strip(): _value(str(key), cell) for key, cell in row.items() if cell not in ("", None)}
        for where, row in rows.items()
    }


def _value(key: str, cell: Any) -> Any:
    """The number in a cell, or its text."""
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return cell
    return cell if key == "state" else int(number) if number.is_integer() else number
