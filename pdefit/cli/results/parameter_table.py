"""Table of the estimates on the terminal."""

import itertools

import numpy as np
from rich.table import Table

from pdefit.cli.runs.discretisation_check import NOTED
from pdefit.output.store.tables import ParameterRow

# a control with more elements than this is a field, which is shown in one line
_MOST_ROWS = 16


def parameter_table(rows: list[ParameterRow], unidentifiable: tuple[str, ...]) -> Table:
    """Table of the estimates in 80 columns, with a field in one line.

    Intervals that are not to be trusted stand in brackets, and so do scores that are measured by them. Errors are shown
    where a truth is known, and shifts by the discretisation where they are large. parameters.csv has all elements,
    digits and units.

    **Arguments:**

    - `rows`: of parameters.csv.
    - `unidentifiable`: names of the elements whose interval is unknown, because the data do not determine them.
    """
    table = Table(box=None, header_style="bold")
    table.add_column("control", no_wrap=True)
    shifts = any(abs(r.discretisation_shift or 0.0) > NOTED for r in rows)
    compared = [] if all(r.truth is None for r in rows) else ["truth", "error", "z"]
    for column in ("guess", "estimate", "95 %", *compared, *(["shift"] if shifts else [])):
        table.add_column(column, justify="right", no_wrap=True)
    if shifts:
        table.caption, table.caption_justify = "shift: by finer steps or cells, in half widths of the interval", "left"
    for _, found in itertools.groupby(rows, lambda r: r.control.rpartition(".")[0] or r.control):
        together = list(found)
        if len(together) > _MOST_ROWS:
            table.add_row(*_summarised(together)[: 7 if compared else 4])
            continue
        for r in together:
            half = (
                ("unknown" if r.control in unidentifiable else "") if r.half_width is None else f"±{r.half_width:.1e}"
            )
            doubtful = r.interval_trusted is False
            cells = [r.control, f"{r.guess:.4g}", f"{r.estimate:.7g}", f"({half})" if half and doubtful else half]
            score = "" if r.z_score is None else f"{r.z_score:+.1f}"
            if compared:
                cells += [
                    "" if r.truth is None else f"{r.truth:.7g}",
                    "" if r.relative_error is None else f"{r.relative_error:+.1e}",
                    f"({score})" if score and doubtful else score,
                ]
            if shifts:
                cells.append("" if r.discretisation_shift is None else f"{r.discretisation_shift:+.1g}")
            table.add_row(*cells)
    return table


def _summarised(rows: list[ParameterRow]) -> tuple[str, ...]:
    """One line for a field: ranges, the median interval, relative L2 error and rms of z."""

    def range_of(values: list[float]) -> str:
        return f"{min(values):.2g}..{max(values):.2g}" if values else ""

    widths = [r.half_width for r in rows if r.half_width is not None]
    pairs = [(r.estimate, r.truth) for r in rows if r.truth is not None]
    scores = [r.z_score for r in rows if r.z_score is not None]
    truth = np.asarray([t for _, t in pairs])
    error = np.linalg.norm([e - t for e, t in pairs]) / np.linalg.norm(truth) if np.any(truth) else None
    return (
        f"{rows[0].control.rpartition('.')[0]} ({len(rows)})",
        range_of([r.guess for r in rows]),
        range_of([r.estimate for r in rows]),
        f"±{np.median(widths):.1e}" if widths else "",
        range_of([t for _, t in pairs]),
        "" if error is None else f"{error:.1e}",
        f"{np.sqrt(np.mean(np.square(scores))):.1f}" if scores else "",
    )
