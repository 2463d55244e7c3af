"""Comparison of the positions in an observation file with the model's positions."""

from collections.abc import Mapping

import numpy as np

from pdefit._util.errors import PdefitError, unknown, with_space
from pdefit.data.readers.frames import Frames
from pdefit.systems.coordinates import FieldCoords

# tolerance, as a fraction of the distance between points; the precision of the file is added to it
_TOLERANCE = 1e-3


def check_positions(
    frames: Frames, seen: Mapping[str, FieldCoords], named: Mapping[str, str | None] | None = None
) -> str | None:
    """Refuse positions that differ from the model's.

    Returns a message about positions missing in the file; None if it states all.

    **Arguments:**

    - `frames`: the file.
    - `seen`: positions at which the model observes each field, without axes that have no positions.
    - `named`: names of the variables with positions, by axis; None for an axis that is not compared.
    """
    known = dict.fromkeys(d for where in seen.values() for d in where.coords)
    for dim in named or {}:
        if dim not in known:
            raise unknown("axis with positions (data.coordinates)", dim, known)
    assumed: dict[str, list[str]] = {}
    for field, where in seen.items():
        dims = [d if d in where.coords else None for d in where.dims]
        taken = []
        for axis, dim in enumerate(dims, 1):
            if dim is None:
                continue
            unit = where.coord_units.get(dim, "1")
            found = frames.coordinate(field, axis, dims, named or {}, unit)
            if found is None:
                taken.append(f"{dim} = {_described(where.coords[dim])}{with_space(unit)}")
            elif wrong := _difference(found.values, where.coords[dim], found.precision, dim, unit):
                raise PdefitError(
                    f"{found.name} of '{field}' in '{frames.name}' {wrong}; +data.coordinates.{dim}=null takes the model's "
                    f"positions unchecked"
                )
        if taken:
            assumed.setdefault(", ".join(taken), []).append(field)
    if not assumed:
        return None
    told = "; ".join(f"{', '.join(fields)} at {taken}" for taken, fields in assumed.items())
    return (
        f"positions: {told}, as the model sees them; '{frames.name}' does not say (name its coordinates: "
        f"data.coordinates={{x: NAME}})"
    )


def _described(points: np.ndarray) -> str:
    """A short description of positions."""
    ends = f"{points[0]:.6g} to {points[-1]:.6g}"
    step = np.diff(points)
    if points.size < 3:
        return ends if points.size > 1 else f"{points[0]:.6g}"
    return f"{ends} by {step[0]:.6g}" if np.allclose(step, step[0]) else f"{points.size} points from {ends}"


def _difference(found: np.ndarray, expected: np.ndarray, precision: float, dim: str, unit: str) -> str | None:
    """Difference between positions and the expected ones, with the remedy; None if they agree."""
    one = expected.size == 1
    step = 1.0 if one else float(np.median(np.abs(np.diff(expected))))
    tolerance = _TOLERANCE * step + min(2 * precision * float(np.max(np.abs(found))), 0.1 * step)

    def agree(a: np.ndarray | float, b: np.ndarray | float) -> bool:
        return bool(np.max(np.abs(np.asarray(a) - b)) <= tolerance)

    if agree(found, expected):
        return None
    u = with_space(unit)
    starts = f"starts at {found[0]:.6g}{u} where the model's points start at {expected[0]:.6g}{u}"
    length, found_length = float(expected[-1] - expected[0]), float(found[-1] - found[0])
    if length * found_length < 0:
        return (
            f"runs from {found[0]:.6g} to {found[-1]:.6g}{u} where the model's points run from {expected[0]:.6g} to "
            f"{expected[-1]:.6g}{u}: reversed; reverse this axis of the values and of the positions"
        )
    shift = float(found[0] - expected[0])
    if agree(found - shift, expected):
        by = (
            f"{abs(shift):.6g}{u}"
            if one
            else f"{_fraction(abs(shift) / step)} the distance between points ({step:.6g}{u})"
        )
        return (
            f"{starts}: shifted by {by}; move the model's points (system.grid.origin, or observe.offset where it picks some), "
            f"or correct the file"
        )
    if found_length and agree((found - found[0]) * (length / found_length), expected - expected[0]):
        missing = "" if unit != "1" else ", which states no unit of length (system.grid.length_unit)"
        return (
            f"has points {abs(found[1] - found[0]):.6g}{u} apart, from {found[0]:.6g} to {found[-1]:.6g}{u}, where the model's "
            f"are {abs(expected[1] - expected[0]):.6g}{u} apart, from {expected[0]:.6g} to {expected[-1]:.6g}{u}: another "
            f"spacing; correct the model's grid (system.grid.extent, shape){missing}, or the file"
        )
    worst = int(np.argmax(np.abs(found - expected)))
    return (
        f"has other positions than the model: {found[worst]:.6g}{u} in place of {expected[worst]:.6g}{u} at point {worst}; "
        f"interpolate the values to the model's points, or correct the grid"
    )


def _fraction(x: float) -> str:
    return "half" if abs(x - 0.5) < 1e-3 else f"{x:.3g} times"
