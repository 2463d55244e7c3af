"""Places of a variable: blocks of its grid, or single points and bodies."""

import itertools
import math
from typing import NamedTuple

import numpy as np

from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.observed_fields import positions_of
from pdefit.systems.coordinates import FieldCoords

# values that are places of their own; and pieces of an axis, for one, two and more long axes
_FEW, _PIECES = 64, {0: 1, 1: 32, 2: 8}
# an axis of more values is cut where there are many
_LONG = 8


class Place(NamedTuple):
    """A part of a variable: a block of its grid, or one point or body.

    **Arguments:**

    - `words`: its position in words.
    - `middle`: its centre along each axis of the grid, in the unit of coordinates if they are known, else as an index.
    - `axes`: the axes with their units.
    """

    words: str
    middle: tuple[float, ...]
    axes: tuple[str, ...]


def places_of(shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Places of a variable, as slices of its array."""
    long = sum(n > _LONG for n in shape)
    pieces = [n if math.prod(shape) <= _FEW else min(n, _PIECES.get(long, 4)) if n > _LONG else 1 for n in shape]
    cuts = [np.linspace(0, n, parts + 1).astype(int).tolist() for n, parts in zip(shape, pieces, strict=True)]
    return [*itertools.product(*([slice(a, b) for a, b in itertools.pairwise(cut)] for cut in cuts))]


def described(functional: Functional, shapes: dict[str, tuple[int, ...]]) -> dict[str, list[Place]]:
    """Places of every variable with several values, with words and positions.

    **Arguments:**

    - `functional`: the objective of one record.
    - `shapes`: the shapes of the variables, observed or hidden.
    """
    problem, data = functional.problem, functional.observations
    fields = problem.system.coords()
    observe = problem.instrument.placed(data.positions_at(0))
    moved = positions_of(observe, float(data.ts[0]), problem.y0, problem.args, fields) if fields else {}
    # axes of labels keep those of the field
    known = fields | {name: where for name, where in moved.items() if any(where.dims)}
    found = {}
    for name, shape in shapes.items():
        points = np.asarray(data.positions[name])[0] if name in data.positions else None
        found[name] = [_place(place, shape, known.get(name), points) for place in places_of(shape)]
    return found


def _place(
    place: tuple[slice, ...], shape: tuple[int, ...], coords: FieldCoords | None, points: np.ndarray | None
) -> Place:
    if points is not None and len(shape) == 1:
        middle = points[place].mean(axis=0)
        axes = tuple(f"coordinate {k + 1}" for k in range(middle.size))
        return Place(f"({', '.join(f'{x:.4g}' for x in middle)})", tuple(map(float, middle)), axes)
    words, middle, axes = [], [], []
    for axis, (piece, n) in enumerate(zip(place, shape, strict=True)):
        dim = coords.dims[axis] if coords is not None and axis < len(coords.dims) else ""
        at = coords.coords.get(dim) if coords is not None else None
        unit = coords.coord_units.get(dim, "1") if coords is not None else "1"
        if at is None or len(at) != n:
            at, unit = np.arange(n), "1"
        axes.append((dim or f"axis {axis + 1}") + f" ({unit})" * (unit != "1"))
        first, last = at[piece][0], at[piece][-1]
        is_number = np.issubdtype(at.dtype, np.number)
        middle.append(float(np.mean(at[piece])) if is_number else float(np.mean(np.arange(n)[piece])))
        if piece.stop - piece.start < n or n == 1:
            ends = [f"{float(x):.4g}" if is_number else str(x) for x in dict.fromkeys((first, last))]
            words.append(f"{f'{dim} = ' if dim and is_number else ''}{' to '.join(ends)}")
    return Place(", ".join(words), tuple(middle), tuple(axes))
