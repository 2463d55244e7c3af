"""Observation operators on a grid: the points of each field, and the grid from the problem."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.systems.grid import AbstractGrid
from pdefit.systems.system import AbstractSystem

# for each field on faces the axes normal to them; it can be hashed, for static fields
Faces = tuple[tuple[str, tuple[int, ...]], ...]


def as_faces(given: Mapping[str, Any] | Faces | None) -> Faces | None:
    """Normal axes by field, from a mapping with one or several indices for each field."""
    if given is None or isinstance(given, tuple):
        return given
    return tuple((name, (axis,) if isinstance(axis, int) else tuple(axis)) for name, axis in given.items())


def grid_of(system: AbstractSystem, operator: AbstractObservationOperator) -> AbstractGrid:
    """The grid of a system; a system without one is refused."""
    grid = getattr(system, "grid", None)
    if not isinstance(grid, AbstractGrid):
        raise PdefitError(
            f"{type(operator).__name__} works on a grid, which {type(system).__name__} has not; use select for its fields"
        )
    return grid


def faces_of(system: AbstractSystem) -> Faces:
    """Fields of a system that live on faces, according to its coordinates."""
    coords = system.coords()
    normal = {n: tuple(i for i, d in enumerate(c.dims) if d.endswith("_face")) for n, c in coords.items()}
    return tuple((name, axes) for name, axes in normal.items() if axes)


def sizes_and_starts(grid: AbstractGrid, faces: Faces | None, name: str) -> tuple[tuple[int, float], ...]:
    """For each axis the number of points of a field, and the first point in cells from the lower end of the box.

    Along its normal a field on faces has the lower face of every cell, or the inner faces between walls.
    """
    normal, points = dict(faces or ()).get(name, ()), list[tuple[int, float]]()
    for i, (n, wraps) in enumerate(zip(grid.shape, grid.periodic, strict=True)):
        centred = (n, round(float(grid.axis(i)[0] - grid.corner[i]) / grid.spacing[i], 9))
        points.append(((n, 0.0) if wraps else (n - 1, 1.0)) if i in normal else centred)
    return tuple(points)


def basis(order: int, of_cells: bool) -> np.ndarray:
    """Matrix from powers of t to interpolation weights of values, or of cell averages, at the nodes 0, 1, ...."""
    node, power = np.arange(order)[:, None], np.arange(order)[None, :] + 1
    averages = ((node + 0.5) ** power - (node - 0.5) ** power) / power
    return np.linalg.inv(averages if of_cells else 1.0 * node ** (power - 1))


class AbstractOnGrid(AbstractObservationOperator):
    """An operator on a grid, by default the grid of the problem's system.

    It has no pointwise map such as a gain, so `inverted` returns the record unchanged.
    """

    grid: eqx.AbstractVar[AbstractGrid | None]
    faces: eqx.AbstractVar[Faces | None]

    @property
    def box(self) -> AbstractGrid:
        """The grid; an operator without one is refused."""
        if self.grid is None:
            raise PdefitError(f"{type(self).__name__} has no grid; give it one, or make it the instrument of a problem")
        return self.grid

    def on(self, system):
        faces = faces_of(system) if self.faces is None else self.faces
        return dataclasses.replace(self, grid=self.grid or grid_of(system, self), faces=faces)

    def inverted(self, observations):
        return observations
