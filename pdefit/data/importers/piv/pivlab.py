"""Text of PIVlab (export, ASCII): one file a frame, with columns in pixels or calibrated ones."""

from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.importers.piv.fields import INTERPOLATED, MEASURED, REJECTED, Fields, on_raster, settle_units
from pdefit.data.importers.piv.text import header, holds_vectors, lines, numbers

NAME = "PIVlab text (PIVlab, ASCII chart output)"
# above the header are at most these lines
_LINES = 6


def recognises(start: bytes) -> bool:
    """Test for the first word of an export."""
    return start.lstrip(b"\xef\xbb\xbf").startswith(b"PIVlab")


def read(path: Path, start: bytes) -> Fields:
    """The field of a file.

    Vector types are 0 for masked, 1 for measured and 2 for interpolated vectors. Positions y and velocities v count
    downwards in PIVlab, and are negated.

    **Arguments:**

    - `path`, `start`: the file, and its first bytes.
    """
    above = lines(start)[:_LINES]
    row = next((i for i, line in enumerate(above) if holds_vectors(line)), None)
    if row is None:
        raise PdefitError(
            f"'{path.name}' has no columns x, y, u, v behind the first line of PIVlab; export it with a header"
        )
    units, separator = header(above[row])
    columns = numbers(path, [*units], separator, row + 1)
    kind = columns.get("vector type", np.ones(columns["x"].size))
    flag = np.select([kind == 1, kind == 2], [MEASURED, INTERPOLATED], REJECTED)
    columns |= {"y": -columns["y"], "v": -columns["v"]}
    fields = on_raster(path, {name: columns[name] for name in "xyuv"} | {"flag": flag})
    settle_units(path, fields, units)
    fields.notes.append("PIVlab's y and v point downwards; both are negated, so that they point upwards.")
    return fields
