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
    """A text as it stands in a page, without control characters."""
    return escaped(printable(text))


def table(head: Sequence[str], rows: Iterable[Sequence[object]], lines: Iterable[str] = ()) -> str:
    """A table, with lines of text above it. All texts are escaped.

    It sets no colours, so that it can be read in light and in dark notebooks.

    **Arguments:**

    - `head`: the names of the columns.
    - `rows`: for each row its cells, as texts or numbers; None is an empty cell.
    - `lines`: sentences above the table.
    """
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    above = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return f"{above}<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>" if body else above


def interval(low: object, high: object) -> str:
    """An interval in five digits, of which an end may be open; empty if neither is a number, as in a damaged file."""
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
