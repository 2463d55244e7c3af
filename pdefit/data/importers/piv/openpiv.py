"""Text of OpenPIV (`openpiv.tools.save`): one file a frame, columns x, y, u, v, flags, mask."""

from pathlib import Path

from pdefit.data.importers.piv.fields import Fields, flags_of, on_raster
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
    return on_raster(path, {name: columns[name] for name in "xyuv"} | {"flag": flags_of(columns)})
