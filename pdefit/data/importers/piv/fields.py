"""Velocity fields of one file, and the raster that points in a table lie on."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError

# flags of vectors
MEASURED, REJECTED, INTERPOLATED = 0, 1, 2
# columns and variables that state which vectors count: those for which the test holds
FLAGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "chc": lambda a: a > 0,
    "valid": lambda a: a > 0,
    "mask": lambda a: a == 0,
    "flags": lambda a: (a == MEASURED) | (a == INTERPOLATED),
}
# most deviation of a position from the raster, and distance of two positions that are one, in spacings
_OFF, _SAME = 0.1, 0.3


@dataclasses.dataclass
class Fields:
    """Velocity fields of one file, as it states them.

    **Arguments:**

    - `axes`: positions x (nx,) and y (ny,), ascending.
    - `names`: variables of a field: u, v, and u_sigma, v_sigma where the file has them.
    - `at`: the function of the frame's number that gives its variables, each (nx, ny), and `flag` where there is one.
    - `length_unit`, `velocity_unit`: None where the file states none.
    - `times`: times (n,) in `time_unit`; None from a file with one frame and no time.
    - `pixel`, `delay`: length of a pixel in m, and the time between the images of a pair in s, where they are stated.
    - `imported`: whether pdefit wrote the file, so that its outliers are gone.
    - `notes`: sentences about what was done.
    """

    axes: tuple[np.ndarray, np.ndarray]
    names: list[str]
    at: Callable[[int], Mapping[str, np.ndarray]]
    length_unit: str | None = None
    velocity_unit: str | None = None
    times: np.ndarray | None = None
    time_unit: str = "frame"
    pixel: float | None = None
    delay: float | None = None
    imported: bool = False
    notes: list[str] = dataclasses.field(default_factory=list)


def flags_of(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The flag of each vector, of which a column or variable of `FLAGS` may reject it.

    **Arguments:** `columns`: u, and what else the file has, of one shape.
    """
    flag = np.where(columns.get("flags", np.zeros(columns["u"].shape)) == INTERPOLATED, INTERPOLATED, MEASURED)
    for name in FLAGS.keys() & columns.keys():
        flag = np.where(FLAGS[name](columns[name]), flag, REJECTED)
    return flag


def settle_units(path: Path, fields: Fields, units: Mapping[str, str | None]) -> None:
    """Set the units of positions and velocities, which must be one each.

    **Arguments:**

    - `path`: of the file, for errors.
    - `fields`: of the file.
    - `units`: that the file states, by the names of its columns.
    """
    for a, b in (("x", "y"), *(("u", name) for name in fields.names)):
        if units.get(a) != units.get(b):
            raise PdefitError(
                f"'{path.name}' has {a} in {units.get(a)} and {b} in {units.get(b)}; export both in one unit"
            )
    fields.length_unit, fields.velocity_unit = units["x"], units["u"]


def on_raster(path: Path, columns: Mapping[str, np.ndarray]) -> Fields:
    """Points in any order as fields on a raster.

    Points that the table leaves out are missing, if they are less than half of the raster.

    **Arguments:**

    - `path`: of the file, for errors.
    - `columns`: x, y, u, v, and where there are: flag, t, u_sigma, v_sigma; each (n,).

    **Errors:** PdefitError where positions are not numbers, are on no regular raster, or are there twice.
    """
    if not all(columns[name].size and np.all(np.isfinite(columns[name])) for name in {"x", "y", "t"} & {*columns}):
        raise PdefitError(f"'{path.name}' has rows without a position, or none; export it again")
    times, frame = np.unique(columns.get("t", np.zeros(columns["x"].size)), return_inverse=True)
    (x, i), (y, j) = (_positions(columns[name]) for name in "xy")
    if not (x.size > 1 and y.size > 1 and 2 * frame.size > times.size * x.size * y.size):
        raise PdefitError(
            f"'{path.name}' has {frame.size} points on no regular raster, which is expected; export vectors before they are "
            f"interpolated to other positions"
        )
    if np.unique(np.ravel_multi_index((frame, i, j), (times.size, x.size, y.size))).size < frame.size:
        raise PdefitError(
            f"'{path.name}' has two vectors at one position and time; remove one, or add a column t or frame"
        )
    order = np.argsort(frame, kind="stable")
    ends = np.searchsorted(frame[order], np.arange(times.size + 1))
    names = [name for name in ("u", "v", "u_sigma", "v_sigma") if name in columns]

    def at(number: int) -> dict[str, np.ndarray]:
        rows, field = order[ends[number] : ends[number + 1]], {}
        for name in {*names, "flag"} & {*columns}:
            field[name] = np.full((x.size, y.size), MEASURED if name == "flag" else np.nan)
            field[name][i[rows], j[rows]] = columns[name][rows]
        return field

    return Fields((x, y), names, at, times=times if "t" in columns else None)


def _positions(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of a raster along an axis (m,), and the number of that of each value; no positions where they are uneven."""
    known = np.unique(values)
    gaps = np.diff(known)
    number = np.concatenate([[0], np.cumsum(gaps > _SAME * np.max(gaps, initial=0.0))])
    where = np.linspace(known[0], known[-1], number[-1] + 1)
    even = np.all(np.abs(known - where[number]) <= _OFF * (where[-1] - where[0]) / max(number[-1], 1))
    return where if even else where[:0], number[np.searchsorted(known, values)]
