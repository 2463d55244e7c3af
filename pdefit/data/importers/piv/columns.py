"""Table with a header: x, y, u, v, and t or frame, u_sigma, v_sigma and flags where there are."""

from pathlib import Path

from pdefit.data.importers.piv.fields import FLAGS, Fields, flags_of, on_raster, settle_units
from pdefit.data.importers.piv.text import header, holds_vectors, lines, numbers

NAME = "a table with a header (x,y,u,v,t)"
_TIMES = ("t", "time", "frame")
_TAKEN = ("x", "y", "u", "v", "u_sigma", "v_sigma", *_TIMES, *FLAGS)


def recognises(start: bytes) -> bool:
    """Test for a first line that names x, y, u and v."""
    return holds_vectors(lines(start)[0])


def states_times(start: bytes) -> bool:
    """Test for a first line that names times, so that the table is a list of points to other readers."""
    return recognises(start) and not {*_TIMES}.isdisjoint(header(lines(start)[0])[0])


def read(path: Path, start: bytes) -> Fields:
    """The fields of a file, whose header may state units as in `x [mm]`.

    **Arguments:**

    - `path`, `start`: the file, and its first bytes.
    """
    units, separator = header(lines(start)[0])
    columns = numbers(path, [*units], separator, 1)
    time = next((name for name in _TIMES if name in columns), None)
    taken = {name: columns[name] for name in _TAKEN[:6] if name in columns}
    taken["flag"] = flags_of(columns)
    fields = on_raster(path, taken | ({} if time is None else {"t": columns[time]}))
    settle_units(path, fields, units)
    if time is not None:
        fields.time_unit = units[time] or ("frame" if time == "frame" else "s")
    if left := [name for name in columns if name not in _TAKEN]:
        fields.notes.append(f"Columns that are not read: {', '.join(left)}.")
    return fields
