"""Tables in HTML for notebooks."""

import math
import numbers
from collections.abc import Iterable, Sequence
from html import escape as escaped

import numpy as np

from pdefit._util.errors import printable

# most numbers that a cell holds one by one
_FEW = 4


def escape(text: str) -> str:
    """Text escaped for HTML, without control characters."""
    return escaped(printable(text))


def table(head: Sequence[str], rows: Iterable[Sequence[object]], lines: Iterable[str] = ()) -> str:
    """HTML table with lines of text above it. All texts are escaped.

    It sets no colours, so that it is readable in light and dark notebooks.

    **Arguments:**

    - `head`: the names of the columns.
    - `rows`: the cells of each row, as texts or numbers; None is an empty cell.
    - `lines`: sentences above the table.
    """
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    above = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return f"{above}<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>" if body else above


def interval(low: object, high: object) -> str:
    """Interval with five digits; one end may be open. Empty if neither end is a finite number."""
    below, above = (isinstance(x, numbers.Real) and math.isfinite(x) for x in (low, high))
    if below and above:
        return f"{low:.5g} to {high:.5g}"
    return f"above {low:.5g}" if below else f"below {high:.5g}" if above else ""


def summarised(values: object) -> str:
    """A number, a few numbers, or the range of many, as a cell; empty for None."""
    flat = np.ravel(np.asarray(() if values is None else values))
    if flat.size > _FEW:
        return f"{flat.min():.3g} to {flat.max():.3g} ({flat.size} values)"
    return ", ".join(f"{x:.6g}" for x in flat)


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
