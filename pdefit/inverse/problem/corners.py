"""Values of fields at the corners of cells, where instruments have the nodes of their raster."""

import dataclasses
import functools

import equinox as eqx
import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit.inverse.problem._along_axes import AbstractAlongAxes, Faces, as_faces, basis
from pdefit.systems.capabilities import FieldCoords
from pdefit.systems.grid import AbstractGrid

_ORDER = {"linear": 2, "cubic": 4}


class Corners(AbstractAlongAxes):
    """The operator that observes every field at the corners of cells, staggered velocities and centred fields alike.

    For vectors on a raster whose nodes are corners of cells, a window of a flow above all. Not for other places (`At`).

    Between walls there are n + 1 corners along an axis of n cells, the first and the last on walls. Along a periodic axis
    there are n, the lower corner of every cell. Along an axis on which a field lives on faces it already is at corners,
    and its values are taken as they are.

    - `linear` has an error of second order in the spacing.
    - `cubic` has an error of fourth order. Its weights are (-1, 9, 9, -1) / 16 inside, and one-sided beside walls.

    Both extrapolate to walls, also the velocity normal to them.
    Values are taken as those at their points. Behind `Average` that is what they are.

    **Arguments:**

    - `method`: `linear` or `cubic` (default).
    - `grid`: the grid of the fields; by default that of the problem's system.
    - `faces`: for each field on faces the number of the axis normal to them, such as `{u: 0, v: 1}`. By default what the
      system states.
    """

    method: str = eqx.field(default="cubic", static=True)
    grid: AbstractGrid | None = None
    faces: Faces | None = eqx.field(default=None, static=True, converter=as_faces)

    def __check_init__(self):
        if self.method not in _ORDER:
            raise unknown("method (corners)", self.method, _ORDER)

    @property
    def relocates(self):
        return True

    def moved(self, coords):
        if self.grid is None:
            return None
        grid, found = self.grid, dict(coords)
        for name, where in coords.items():
            if len(where.dims) < grid.ndim:
                continue
            dims, places, units = list(where.dims), dict(where.coords), dict(where.coord_units)
            for i, dim in enumerate(where.dims[: grid.ndim]):
                dims[i] = dim.removesuffix("_face")
                units[dims[i]] = units.pop(dim, grid.length_unit)
                places.pop(dim, None)
                places[dims[i]] = grid.corner[i] + grid.spacing[i] * np.arange(grid.shape[i] + (not grid.periodic[i]))
            found[name] = dataclasses.replace(where, dims=tuple(dims), coords=places, coord_units=units)
        return found

    def returned(self, values, coords):
        assert self.grid is not None
        return {name: _at_points(x, coords[name], self.grid.ndim) for name, x in values.items() if name in coords}

    def matrix(self, axis, size, start):
        assert self.grid is not None
        cells, wraps, order = self.grid.shape[axis], self.grid.periodic[axis], _ORDER[self.method]
        if size < order:
            raise PdefitError(f"{self.method} corners expect {order} points along every axis, but there are {size}")
        return None if start == 0 and wraps else _weights(cells + (not wraps), size, start, wraps, order)


def _at_points(x: np.ndarray, where: FieldCoords, ndim: int) -> np.ndarray:
    """Values at corners as means of neighbours at the points of a field; along an axis normal to its faces as they are."""
    # a field without all axes of the grid is not moved to corners, and further axes list components
    for axis, dim in enumerate(where.dims[:ndim] if len(where.dims) >= ndim else ()):
        size, x = where.coords[dim].size, np.moveaxis(x, axis, 0)
        # between walls the first and the last corner are on walls, where no face of the field is
        x = x[(len(x) - size) // 2 :][:size] if dim.endswith("_face") else (x + np.roll(x, -1, 0))[:size] / 2
        x = np.moveaxis(x, 0, axis)
    return x


@functools.lru_cache
def _weights(corners: int, size: int, start: float, wraps: bool, order: int) -> np.ndarray:
    """Weights of the points of a field in its values at corners, (corners, points)."""
    place = np.arange(corners) - start
    first = np.floor(place).astype(int) + 1 - order // 2
    if not wraps:
        first = np.clip(first, 0, size - order)
    powers = (place - first)[:, None] ** np.arange(order)
    found = np.zeros((corners, size))
    # rounded, so that values at corners are taken exactly as they are
    np.add.at(
        found,
        (np.arange(corners)[:, None], (first[:, None] + np.arange(order)) % size),
        np.round(powers @ basis(order, False), 12),
    )
    return found
