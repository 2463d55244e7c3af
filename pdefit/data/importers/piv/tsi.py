"""Vector files of TSI Insight (.vec): one file a frame, its units in the header."""

import re
from pathlib import Path

from pdefit._util.errors import PdefitError
from pdefit.data.importers.piv.fields import Fields, flags_of, on_raster, settle_units
from pdefit.data.importers.piv.text import lines, numbers

NAME = "TSI Insight (.vec)"


def recognises(start: bytes) -> bool:
    """Test for the header of Tecplot with the variables of a vector file."""
    first = lines(start)[0]
    return "TITLE=" in first and bool(re.search(r'VARIABLES="X[^"]*", *"Y[^"]*", *"U', first))


def read(path: Path, start: bytes) -> Fields:
    """The field of a file, in which vectors with CHC of 0 or less are rejected.

    **Arguments:**

    - `path`, `start`: the file, and its first bytes.
    """
    first = lines(start)[0]
    stated = re.findall(
        r'"([^"]*)"', first.partition("VARIABLES=")[2].partition("DATASETAUXDATA")[0].partition("ZONE")[0]
    )
    units = {name.lower(): unit.strip() or None for name, _, unit in (cell.strip().partition(" ") for cell in stated)}
    if not {"x", "y", "u", "v"} <= {*units}:
        raise PdefitError(
            f"'{path.name}' has variables {', '.join(units)}, where X, Y, U, V are expected; export it again"
        )
    columns = numbers(path, [*units], ",", 1)
    size = re.search(r"I=(\d+), *J=(\d+)", first)
    if size is not None and columns["x"].size != int(size[1]) * int(size[2]):
        raise PdefitError(
            f"'{path.name}' has {columns['x'].size} vectors, but its header states {size[1]} x {size[2]}; copy it again"
        )
    fields = on_raster(path, {name: columns[name] for name in "xyuv"} | {"flag": flags_of(columns)})
    settle_units(path, fields, units)
    fields.pixel, fields.delay = (_micro(first, name) for name in ("MicrometersPerPixelX", "MicrosecondsPerDeltaT"))
    return fields


def _micro(head: str, name: str) -> float | None:
    """A number of the header in units, where it states one above zero in millionths."""
    found = re.search(rf'{name}="([0-9.]+)"', head)
    try:
        return float(found[1]) * 1e-6 or None if found else None
    except ValueError:
        return None
