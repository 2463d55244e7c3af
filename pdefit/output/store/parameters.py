"""parameters.csv: every estimated scalar with its interval, one row each."""

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

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


def write_parameters(path: Path, rows: Sequence[ParameterRow]) -> None:
    """Write the table; numbers keep all their digits, what is unknown is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in dataclasses.fields(ParameterRow)])
    for row in rows:
        cells = dataclasses.astuple(row)
        writer.writerow(["" if c is None else repr(float(c)) if isinstance(c, float) else c for c in cells])
    write_text(path, text.getvalue())


def read_parameters(path: Path) -> list[ParameterRow]:
    """The rows of a table that `write_parameters` made."""

    def number(cell: str) -> float | None:
        return None if cell == "" else float(cell)

    with open(path, newline="", encoding="utf-8") as file:
        return [
            ParameterRow(
                control=r["control"],
                unit=r["unit"],
                scale=r["scale"],
                guess=float(r["guess"]),
                estimate=float(r["estimate"]),
                truth=number(r["truth"]),
                relative_error=number(r["relative_error"]),
                ci95_low=number(r["ci95_low"]),
                ci95_high=number(r["ci95_high"]),
                z_score=number(r["z_score"]),
                at_bound=r["at_bound"] == "True",
                discretisation_shift=number(r.get("discretisation_shift") or ""),
                interval_trusted={"True": True, "False": False}.get(r.get("interval_trusted") or ""),
            )
            for r in csv.DictReader(file)
        ]
