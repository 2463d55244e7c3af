"""Small tables in CSV: residuals.csv, forecast.csv, compare.csv, sensitivity.csv."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.atomic import write_text


def write_series(path: Path, ts: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    """Write a column for the times `ts` (T,) and one for each series (T,); cells are empty where not finite."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", *columns])
    for i, t in enumerate(ts):
        writer.writerow([repr(float(t)), *(_cell(values[i]) for values in columns.values())])
    write_text(path, text.getvalue())


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one line for each mapping, under the keys of the first; None is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read_series(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times (T,) and series of a table that `write_series` made; NaN where a cell is empty."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    values = np.asarray([[float(c) if c else np.nan for c in row] for row in rows])
    return values[:, 0], {name: values[:, i] for i, name in enumerate(header) if i}


def _cell(x: Any) -> str:
    return repr(float(x)) if np.isfinite(x) else ""
