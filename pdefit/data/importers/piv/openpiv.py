"""Text of OpenPIV (`openpiv.tools.save`): one file a frame, columns x, y, u, v, flags, mask."""

from pathlib import Path

import numpy as np

from pdefit.data.importers.piv.fields import INTERPOLATED, MEASURED, REJECTED, Fields, on_raster
from pdefit.data.importers.piv.text import header, holds_vectors, lines, numbers

NAME = "OpenPIV text (# x y u v flags mask)"


def recognises(start: bytes) -> bool:
    """Test for a header behind '#' that names x, y, u and v."""
    first = lines(start)[0].lstrip("\ufeff ")
    return first.startswith("#") and holds_vectors(first)


def read(path: Path, start: bytes) -> Fields:
    """The field of a file.

    Flags are 0 for measured vectors, 1 for invalid and 2 for interpolated ones. Masked values are written as 0, so the
    column `mask` decides on them.

    **Arguments:**

    - `path`, `start`: the file, and its first bytes.
    """
    names, separator = header(lines(start)[0])
    columns = numbers(path, [*names], separator, 1)
    flags, mask = (columns.get(name, np.zeros(columns["x"].size)) for name in ("flags", "mask"))
    flag = np.select([mask != 0, flags == 0, flags == 2], [REJECTED, MEASURED, INTERPOLATED], REJECTED)
    return on_raster(path, {name: columns[name] for name in "xyuv"} | {"flag": flag})
