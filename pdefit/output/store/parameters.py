"""parameters.csv: estimates with their intervals, one row for each scalar."""

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pdefit._util.errors import PdefitError
from pdefit.output.store.tables import write_table


@dataclasses.dataclass(frozen=True)
class ParameterRow:
    """Estimate of one element of a control, in physical units.

    **Arguments:**

    - `control`, `unit`: name of the element, and its unit.
    - `scale`: transform to search space, e.g. `log`.
    - `guess`, `estimate`: where the fit started, and where it ended.
    - `truth`, `relative_error`: None where the truth is unknown; the error is estimate / truth - 1.
    - `ci95_low`, `ci95_high`: ends of the 95 % interval; None without one.
    - `z_score`: (estimate - truth) in standard errors, in search space; None where the truth is unknown.
    - `at_bound`: whether the estimate lies on a bound.
    - `discretisation_shift`: shift of the estimate by finer steps or cells, in half widths of its interval; None if
      unknown.
    - `interval_trusted`: false where residuals are no noise, or a shift is larger than the interval; None without one.

    Files without the last two columns can be read, too.
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
        """Half the width of the interval, or None without one."""
        if self.ci95_low is None or self.ci95_high is None:
            return None
        return (self.ci95_high - self.ci95_low) / 2


# columns of the table, and the types of their cells
COLUMNS = get_type_hints(ParameterRow)


def write_parameters(path: Path, rows: Sequence[ParameterRow]) -> None:
    """Write parameters.csv. Numbers keep all their digits; unknown ones are empty."""
    write_table(path, [COLUMNS, *map(dataclasses.astuple, rows)])


def read_parameters(path: Path) -> list[ParameterRow]:
    """Rows of a table that `write_parameters` made. Raises `PdefitError` where it is missing or damaged."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return [
                ParameterRow(**{name: _value(cells.get(name) or "", kind) for name, kind in COLUMNS.items()})
                for cells in csv.DictReader(file)
            ]
    # a damaged table may lack columns, or hold text for numbers
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        raise PdefitError(f"'{path}' is missing or damaged; put it back from a copy") from None


def _value(cell: str, kind: type) -> Any:
    """Cell as the type of its column; an empty one is None where the type allows that."""
    if kind is str:
        return cell
    if cell == "" and type(None) in get_args(kind):
        return None
    return {"True": True, "False": False}[cell] if kind in (bool, bool | None) else float(cell)
