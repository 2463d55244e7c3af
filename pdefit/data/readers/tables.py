"""Numbers by name from a CSV table."""

import csv
import math
from pathlib import Path

from pdefit._util.errors import PdefitError


def read_table(path: Path) -> dict[str, dict[str, float]]:
    """The numbers of a CSV file with a header, by the first column of their row and the name of their column."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file, strict=True) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PdefitError(f"'{path.name}' cannot be read as a CSV table: {error}") from None
    if not header:
        raise PdefitError(f"'{path.name}' is empty; a CSV table with a header is expected")
    table: dict[str, dict[str, float]] = {}
    for row in rows:
        try:
            numbers = dict(zip(header[1:], map(float, row[1:]), strict=True))
        except ValueError as error:
            raise PdefitError(f"'{path.name}' is not a table of numbers: {error}") from None
        if row[0] in table or not all(map(math.isfinite, numbers.values())):
            raise PdefitError(f"The row '{row[0]}' of '{path.name}' is there twice, or not finite; correct it")
        table[row[0]] = numbers
    return table
