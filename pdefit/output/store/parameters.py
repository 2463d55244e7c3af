"""parameters.csv: every estimated scalar with its interval, one row each."""

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pdefit._util.atomic import write_text


@dataclasses.dataclass(frozen=True)
class ParameterRow:
    """One element of a control, in physical units; truth, relative error and z-score only where the truth is known.

    `z_score` is (estimate - truth) in standard errors, in search space; `discretisation_shift` how far finer steps or cells
    would move the estimate, in half widths of its interval and in search space, where that was estimated;
    `interval_trusted` whether the interval means what it says. Files of older versions lack the last two.
    """

    control: str
    unit: str
    scale: str
    guess: float
    estimate: float
    truth: float | None
    relative_error: float | None
    ci95_low: float | None
    ci95_high: float | None
    z_score: float | None
    at_bound: bool
    discretisation_shift: float | None = None
    interval_trusted: bool | None = None

    @property
    def half_width(self) -> float | None:
        """Half of the interval, if there is one."""
        if self.ci95_low is None or self.ci95_high is None:
            return None
        return (self.ci95_high - self.ci95_low) / 2


_COLUMNS = get_type_hints(ParameterRow)


def write_parameters(path: Path, rows: Sequence[ParameterRow]) -> None:
    """Write the table; numbers keep all their digits, what is unknown is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        cells = dataclasses.astuple(row)
        writer.writerow(["" if c is None else repr(float(c)) if isinstance(c, float) else c for c in cells])
    write_text(path, text.getvalue())


def read_parameters(path: Path) -> list[ParameterRow]:
    """The rows of a table that `write_parameters` made."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            ParameterRow(**{name: _value(cells.get(name) or "", kind) for name, kind in _COLUMNS.items()})
            for cells in csv.DictReader(file)
        ]


def _value(cell: str, kind: type) -> Any:
    """A cell as the type of its column; an empty one is unknown where the type allows that."""
    if kind is str:
        return cell
    if cell == "" and type(None) in get_args(kind):
        return None
    return {"True": True, "False": False}[cell] if kind in (bool, bool | None) else float(cell)
