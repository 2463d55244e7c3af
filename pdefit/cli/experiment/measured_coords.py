"""Coordinates of what an instrument observes beside the fields of the state."""

from collections.abc import Mapping

import numpy as np

from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.observed_fields import positions_of
from pdefit.systems.capabilities import FieldCoords


def measured_coords(functional: Functional, others: Mapping[str, FieldCoords]) -> dict[str, FieldCoords]:
    """Coordinates of what an instrument observes beside the fields of the state, such as a current.

    Axes without positions have running numbers.

    **Arguments:** `others`: those of all else that a film has.
    """
    problem, data = functional.problem, functional.observations
    shapes = {name: x.shape for name, x in functional.observed.items() if name not in others}
    if not shapes:
        return {}
    observe = problem.observe.placed(data.positions_at(0))
    stated = positions_of(observe, data.ts[0], problem.y0, problem.args, others)
    found: dict[str, FieldCoords] = {}
    taken = {dim: x for where in others.values() for dim, x in where.coords.items()}
    for name, shape in shapes.items():
        where = stated.get(name, FieldCoords(("",) * len(shape), {}))
        axes = list[tuple[str, np.ndarray, str]]()
        for i, (dim, size) in enumerate(zip(where.dims, shape, strict=True)):
            places = where.coords[dim] if dim in where.coords else np.arange(size)
            # another raster has an axis of its own
            is_new = dim not in where.coords or (dim in taken and not np.array_equal(taken[dim], places))
            axes.append((f"{name}_{dim or i}" if is_new else dim, places, where.coord_units.get(dim, "1")))
        coords, units = {d: x for d, x, _ in axes}, {d: unit for d, _, unit in axes}
        found[name] = FieldCoords((*coords,), coords, where.unit, where.long_name, units)
        taken |= coords
    return found
