"""Tables in CSV, such as residuals.csv, parameters.csv and sweep.csv."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdefit._util.atomic import beside, write_text

if TYPE_CHECKING:
    import xarray

# texts that a spreadsheet runs as a formula; numbers are none
_FORMULA = re.compile(
    r"(?![+-]?[\d.]+(e[+-]?\d+)?\Z)([=+@\t\r\n\uff1d\uff0b\uff0d\uff20]|-.)", re.DOTALL | re.IGNORECASE
)


def write_table(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows of cells. Numbers keep all their digits, and None is an empty cell.

    Names of fields, jobs and units may come from somebody else. A text that a spreadsheet would run as a formula begins
    with an apostrophe.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(x) for x in row] for row in rows)
    write_text(path, text.getvalue())


def write_series(path: Path, ts: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    """Write a column for the times `ts` (T,) and one for each series (T,); cells are empty where not finite."""
    series = [[float(x) if np.isfinite(x) else None for x in values] for values in columns.values()]
    write_table(path, [["time", *columns], *zip(map(float, ts), *series, strict=True)])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one line for each mapping, under the keys of the first."""
    write_table(path, [[*rows[0]], *([row.get(key) for key in rows[0]] for row in rows)])


def write_frames(path: Path, frames: Iterable["xarray.Dataset"]) -> None:
    """Write a row for each place of frames, one frame after the other. Names of places are texts as in `write_table`."""
    with beside(path) as neighbour:
        for number, frame in enumerate(frames):
            named = {
                dim: [*map(_cell, where.values)] for dim, where in frame.coords.items() if where.dtype.kind in "US"
            }
            rows = frame.assign_coords(named).to_dataframe([*frame.sizes])
            rows.to_csv(neighbour, mode="a" if number else "w", header=not number)


def read_series(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times (T,) and series of a table that `write_series` made; NaN where a cell is empty."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    values = np.asarray([[float(c) if c else np.nan for c in row] for row in rows])
    return values[:, 0], {name: values[:, i] for i, name in enumerate(header) if i}


def _cell(x: Any) -> Any:
    if isinstance(x, float | np.floating):
        return repr(float(x))
    if not isinstance(x, str):
        return x
    # the csv module does not quote a carriage return, behind which readers begin another cell
    return ("'" if _FORMULA.match(x) else "") + x.replace("\r", "\n")
