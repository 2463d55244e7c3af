"""Operators with one matrix along each axis of a grid: averages over windows, and values at corners of cells."""

import abc
import dataclasses
import functools
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields
from pdefit.inverse.problem.on_grid import AbstractOnGrid, Faces, as_faces, basis, sizes_and_starts
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.grid import AbstractGrid


class AbstractAlongAxes(AbstractOnGrid):
    """A separable linear operator: one small matrix along each axis of the grid, for every field on it.

    Fields with fewer axes than the grid are unchanged.
    """

    @abc.abstractmethod
    def matrix(self, axis: int, size: int, start: float) -> np.ndarray | None:
        """The matrix along an axis, whose columns are the points of a field; None for the identity.

        **Arguments:**

        - `axis`: the index of the axis.
        - `size`, `start`: the number of points, and the first point in cells from the lower end of the box.
        """

    def __call__(self, t, y, args):
        return {name: self._applied(name, u, self.box) for name, u in named_fields(y).items()}

    def _applied(self, name: str, u: Array, grid: AbstractGrid) -> Array:
        if u.ndim < grid.ndim:
            return u
        points = sizes_and_starts(grid, self.faces, name)
        if u.shape[: grid.ndim] != (expected := tuple(size for size, _ in points)):
            raise PdefitError(
                f"{type(self).__name__} expects '{name}' at all of its points {expected}, but got shape {u.shape}; put it "
                f"before subsample, or select other fields"
            )
        for axis, (size, start) in enumerate(points):
            matrix = self.matrix(axis, size, start)
            if matrix is not None:
                # HIGHEST: the matrix units of a GPU would round values to three digits
                moved = jnp.tensordot(jnp.asarray(matrix, u.dtype), u, axes=(1, axis), precision=lax.Precision.HIGHEST)
                u = jnp.moveaxis(moved, 0, axis)
        return u


class Average(AbstractAlongAxes):
    """Observation operator: averages of every field over a window centred at each of its points, as for a PIV vector.

    For vectors of particle image velocimetry, and pixels wider than a cell. Not for boxes at arbitrary positions (`At`
    with `average`).

    A value counts as the average over a cell around its point. A window of 2.5 cells covers one whole cell and three
    quarters of the cells at either side. Windows wrap around periodic axes. Near other ends a window is cut at the last
    point of the field, and the remaining points share the weight. Its centre of mass then lies further inside.

    Shapes and positions do not change, so that staggered velocities stay on their faces. `Corners` and `Subsample` may
    follow. A window of one cell or less changes nothing.

    **Arguments:**

    - `width`: the edge lengths of the window, in cells; one number for all axes.
    - `grid`: the grid of the fields; by default the grid of the problem's system.
    - `faces`: for each field on faces the index of the axis normal to them, such as `{u: 0, v: 1}`; by default as
      stated by the system.
    """

    width: tuple[float, ...] | float = eqx.field(
        static=True, converter=lambda w: tuple(map(float, w)) if isinstance(w, Sequence) else float(w)
    )
    grid: AbstractGrid | None = None
    faces: Faces | None = eqx.field(default=None, static=True, converter=as_faces)

    def __check_init__(self):
        widths = self.width if isinstance(self.width, tuple) else (self.width,)
        if not all(np.isfinite(w) and w > 0 for w in widths):
            raise PdefitError(f"average expects widths above 0 in cells, but got {self.width}")
        if self.grid is not None and isinstance(self.width, tuple) and len(widths) != self.grid.ndim:
            raise PdefitError(f"average expects a width for each of {self.grid.ndim} axes, but got {self.width}")

    def moved(self, coords):
        return dict(coords)

    def matrix(self, axis, size, start):
        width = self.width[axis] if isinstance(self.width, tuple) else self.width
        return None if width <= 1 else _shares(size, width, self.grid is not None and self.grid.periodic[axis])


@functools.lru_cache
def _shares(size: int, width: float, wraps: bool) -> np.ndarray:
    """Weight of every cell in the window around each point, (n, n)."""
    distance = np.abs(np.arange(size)[:, None] - np.arange(size)).astype(float)
    turns = int(width / size) + 1 if wraps else 0
    # the part of a cell of length 1 that lies within half a width
    parts = [np.clip((width + 1) / 2 - np.abs(distance + k * size), 0, 1) for k in range(-turns, turns + 1)]
    total = np.sum(parts, axis=0)
    return total / np.sum(total, axis=1, keepdims=True)


_ORDER = {"linear": 2, "cubic": 4}


class Corners(AbstractAlongAxes):
    """Observation operator: values of every field at the corners of cells, for staggered velocities and centred fields alike.

    For vectors on a raster whose nodes are corners of cells, especially a window of a flow. Not for other positions
    (`At`).

    Between walls there are n + 1 corners along an axis of n cells, the first and the last on walls. Along a periodic
    axis there are n, the lower corner of every cell. Along an axis on which a field lives on faces, it is already at
    corners, and its values are unchanged.

    - `linear` has an error of second order in the spacing.
    - `cubic` has an error of fourth order. Its weights are (-1, 9, 9, -1) / 16 inside, and one-sided beside walls.

    Both extrapolate to walls, also the velocity normal to them. Values are treated as point values, which is consistent
    after `Average`.

    **Arguments:**

    - `method`: `linear` or `cubic` (default).
    - `grid`: the grid of the fields; by default the grid of the problem's system.
    - `faces`: for each field on faces the index of the axis normal to them, such as `{u: 0, v: 1}`; by default as
      stated by the system.
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
        grid, at_corners = self.grid, dict(coords)
        for name, where in coords.items():
            if len(where.dims) < grid.ndim:
                continue
            dims, places, units = list(where.dims), dict(where.coords), dict(where.coord_units)
            for i, dim in enumerate(where.dims[: grid.ndim]):
                dims[i] = dim.removesuffix("_face")
                units[dims[i]] = units.pop(dim, grid.length_unit)
                places.pop(dim, None)
                places[dims[i]] = grid.corner[i] + grid.spacing[i] * np.arange(grid.shape[i] + (not grid.periodic[i]))
            at_corners[name] = dataclasses.replace(where, dims=tuple(dims), coords=places, coord_units=units)
        return at_corners

    def returned(self, values, coords):
        return {name: _at_points(x, coords[name], self.box.ndim) for name, x in values.items() if name in coords}

    def matrix(self, axis, size, start):
        cells, wraps, order = self.box.shape[axis], self.box.periodic[axis], _ORDER[self.method]
        if size < order:
            raise PdefitError(f"{self.method} corners expect {order} points along every axis, but there are {size}")
        return None if start == 0 and wraps else _weights(cells + (not wraps), size, start, wraps, order)


def _at_points(x: np.ndarray, where: FieldCoords, ndim: int) -> np.ndarray:
    """Values at corners as means of neighbours at a field's points; along an axis normal to its faces unchanged."""
    # a field without all axes of the grid is not moved to corners, and further axes list components
    for axis, dim in enumerate(where.dims[:ndim] if len(where.dims) >= ndim else ()):
        size, x = where.coords[dim].size, np.moveaxis(x, axis, 0)
        # between walls the first and the last corner are on walls, where no face of the field is
        x = x[(len(x) - size) // 2 :][:size] if dim.endswith("_face") else (x + np.roll(x, -1, 0))[:size] / 2
        x = np.moveaxis(x, 0, axis)
    return x


@functools.lru_cache
def _weights(corners: int, size: int, start: float, wraps: bool, order: int) -> np.ndarray:
    """Weights of a field's points in its values at corners, (corners, points)."""
    place = np.arange(corners) - start
    first = np.floor(place).astype(int) + 1 - order // 2
    if not wraps:
        first = np.clip(first, 0, size - order)
    powers = (place - first)[:, None] ** np.arange(order)
    weights = np.zeros((corners, size))
    # rounded, so that values at corners are taken exactly as they are
    np.add.at(
        weights,
        (np.arange(corners)[:, None], (first[:, None] + np.arange(order)) % size),
        np.round(powers @ basis(order, False), 12),
    )
    return weights
