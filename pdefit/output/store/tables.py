"""Tables in CSV, such as residuals.csv and sweep.csv; and parameters.csv, one row for each estimated scalar.

They are written by the module csv, since pandas confuses empty cells with NaN, and turns integers into floats if a
column has empty cells.
"""

import csv
import dataclasses
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np

from pdefit._util.atomic import beside, read_text, write_text
from pdefit._util.errors import PdefitError, first_line
from pdefit.data.readers.fields import KINDS

if TYPE_CHECKING:
    import xarray

# texts that a spreadsheet runs as a formula; numbers are none
_FORMULA = re.compile(
    r"(?![+-]?[\d.]+(e[+-]?\d+)?\Z)([=+@\t\r\n\uff1d\uff0b\uff0d\uff20]|-.)", re.DOTALL | re.IGNORECASE
)

# numbers of one control that have a line each, and those with names
_FEW_NUMBERS, _FEW_NAMES = 5, 16


def write_table(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows of cells. Numbers keep all their digits, and None is an empty cell.

    Names of fields, jobs and units may come from a stranger. A text that a spreadsheet would run as a formula is
    preceded by an apostrophe.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(x) for x in row] for row in rows)
    write_text(path, text.getvalue())


def number(x: Any) -> float | None:
    """A number for a cell or a file; None if it is unknown or not finite."""
    return float(x) if x is not None and np.isfinite(x) else None


def write_series(path: Path, ts: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    """Write a column for the times `ts` (T,) and one for each series (T,); non-finite values are empty cells."""
    series = [[*map(number, values)] for values in columns.values()]
    write_table(path, [["time", *columns], *zip(map(float, ts), *series, strict=True)])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one line for each mapping, with the union of the keys as columns; missing entries are empty cells."""
    columns = dict.fromkeys(key for row in rows for key in row)
    write_table(path, [columns, *([row.get(key) for key in columns] for row in rows)])


def write_frames(path: Path, frames: Iterable["xarray.Dataset"]) -> None:
    """Write a row for each position of frames, one frame after the other. Names are texts as in `write_table`."""
    with beside(path) as neighbour:
        for number, frame in enumerate(frames):
            named = {
                dim: [*map(_cell, where.values)] for dim, where in frame.coords.items() if where.dtype.kind in "US"
            }
            rows = frame.assign_coords(named).to_dataframe([*frame.sizes])
            rows.to_csv(neighbour, mode="a" if number else "w", header=not number)


@contextmanager
def rows_of(path: Path) -> Iterator[list[dict[str, str]]]:
    """Context manager with the rows of a table by column; missing or wrong data become a `PdefitError`."""
    text = read_text(path)
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), restval=""))
        if any(None in row for row in rows):
            raise ValueError("a row has more cells than there are columns")
        yield rows
    except (KeyError, ValueError, csv.Error) as error:
        what = f"column {error} is missing" if isinstance(error, KeyError) else first_line(error)
        raise PdefitError(f"'{path}' is damaged ({what}); put it back from a copy") from None


def number_in(row: Mapping[str, str], name: str) -> float:
    """The number in a column of a row."""
    try:
        return float(row[name])
    except ValueError:
        raise ValueError(f"column {name!r} holds {row[name][:40]!r}, where a number is expected") from None


def read_series(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times (T,) and series of a table from `write_series`; NaN for empty cells."""
    with rows_of(path) as rows:
        columns = {n: np.asarray([number_in({n: row[n] or "nan"}, n) for row in rows]) for n in (rows or [{}])[0]}
        return columns.pop("time"), columns


def read_points(path: Path) -> dict[str, dict[str, np.ndarray]]:
    """Columns of numbers in points.csv by kind. Raises `PdefitError` if it is damaged."""
    found: dict[str, dict[str, list[float]]] = {}
    with rows_of(path) as rows:
        for row in rows:
            if row["kind"] not in KINDS[:3] or not row["frame"]:
                raise ValueError(f"a point of {row['kind'][:40]!r} in frame {row['frame'][:40]!r} is none of a film")
            columns = found.setdefault(row.pop("kind"), {name: [] for name in row if name != "time"})
            for name, values in columns.items():
                values.append(number_in(row, name))
    return {kind: {name: np.asarray(x) for name, x in columns.items()} for kind, columns in found.items()}


def _cell(x: Any) -> Any:
    if isinstance(x, float | np.floating):
        return repr(float(x))
    if not isinstance(x, str):
        return x
    # the csv module does not quote a carriage return, behind which readers begin another cell
    return ("'" if _FORMULA.match(x) else "") + x.replace("\r", "\n")


@dataclasses.dataclass(frozen=True)
class ParameterRow:
    """Estimate of one element of a control, in physical units.

    **Arguments:**

    - `control`, `unit`: the name of the element, and its unit.
    - `scale`: the transform to search space, e.g. `log`.
    - `guess`, `estimate`: the first and the final value of the fit.
    - `truth`, `relative_error`: None if the truth is unknown; the error is estimate / truth - 1.
    - `ci95_low`, `ci95_high`: the ends of the 95 % interval; None without one, as for an estimate at its bound.
    - `z_score`: (estimate - truth) in standard errors, in search space; None if the truth is unknown.
    - `at_bound`: whether the estimate lies on a bound.
    - `discretisation_shift`: the shift of the estimate with finer steps or cells, in half widths of its interval; None
      if unknown.
    - `interval_trusted`: false if residuals are not noise, or a shift is larger than the interval; None without one.

    - `ci95_correlated_low`, `ci95_correlated_high`: the ends of the interval for correlated residuals; None if they are
      uncorrelated.
    - `part_of`: the control, or the network, that the element belongs to; a scalar control is part of itself.

    Files without the last five columns are readable, too.
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
    ci95_correlated_low: float | None = None
    ci95_correlated_high: float | None = None
    part_of: str = ""

    @property
    def half_width(self) -> float | None:
        """Half width of the interval, or None without one."""
        if self.ci95_low is None or self.ci95_high is None:
            return None
        return (self.ci95_high - self.ci95_low) / 2


def in_lines(rows: Sequence[ParameterRow]) -> list[tuple[ParameterRow, list[ParameterRow]]]:
    """Lines of a table for display: each as one row, with the rows that it summarises.

    The numbers of a network, of a function of time or of an initial state share a line. If they are few, or have names
    (such as bodies), each has its own line.
    """
    lines = list[tuple[ParameterRow, list[ParameterRow]]]()
    for name, found in itertools.groupby(rows, lambda r: r.part_of or r.control):
        group = list(found)
        few = _FEW_NUMBERS if group[0].control[-1:].isdigit() else _FEW_NAMES
        # what is known of one number alone
        unknown = dict.fromkeys(n for n, kind in COLUMNS.items() if kind == (float | None))
        told = unknown | {"control": f"{name} ({len(group)})", "at_bound": any(r.at_bound for r in group)}
        lines += [(r, [r]) for r in group] if len(group) <= few else [(dataclasses.replace(group[0], **told), group)]
    return lines


def span(values: Sequence[float]) -> float | str:
    """A number, or the range of several as text; empty for none."""
    return values[0] if len({*values}) == 1 else f"{min(values):.4g} to {max(values):.4g}" if values else ""


# columns of the table, and the types of their cells
COLUMNS = get_type_hints(ParameterRow)


def write_parameters(path: Path, rows: Sequence[ParameterRow]) -> None:
    """Write parameters.csv. Numbers keep all their digits; unknown ones are empty."""
    write_table(path, [COLUMNS, *map(dataclasses.astuple, rows)])


def read_parameters(path: Path) -> list[ParameterRow]:
    """Rows of a table from `write_parameters`. Raises `PdefitError` if it is missing or damaged."""
    with rows_of(path) as rows:
        return [ParameterRow(**{name: _value(row, name, kind) for name, kind in COLUMNS.items()}) for row in rows]


def _value(row: Mapping[str, str], name: str, kind: type) -> Any:
    """A cell in the type of its column; an empty cell is None if the type allows that."""
    if type(None) in get_args(kind) and not row.get(name):
        return None
    if kind in (bool, bool | None):
        return bool(("False", "True").index(row[name]))
    # older tables lack it
    return row.get(name, "") if name == "part_of" else row[name] if kind is str else number_in(row, name)
