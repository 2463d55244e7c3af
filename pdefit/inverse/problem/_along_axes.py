"""Where the points of centred and staggered fields lie, and operators that are one matrix along each axis of a grid."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit._util.trees import named_fields
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.systems.capabilities import AbstractGridded
from pdefit.systems.grid import AbstractGrid
from pdefit.systems.system import AbstractSystem

# for each field on faces the axes normal to them; it can be hashed, for static fields
Faces = tuple[tuple[str, tuple[int, ...]], ...]


def as_faces(given: Mapping[str, Any] | Faces | None) -> Faces | None:
    """The axes by field, from a mapping with a number or several for each field."""
    if given is None or isinstance(given, tuple):
        return given
    return tuple((name, (axis,) if isinstance(axis, int) else tuple(axis)) for name, axis in given.items())


def grid_of(system: AbstractSystem, operator: AbstractObservationOperator) -> AbstractGrid:
    """The grid of a system. One without is refused."""
    grid = getattr(system, "grid", None)
    if not isinstance(grid, AbstractGrid):
        raise PdefitError(
            f"{type(operator).__name__} works on a grid, which {type(system).__name__} has not; use select for its fields"
        )
    return grid


def faces_of(system: AbstractSystem) -> Faces:
    """The fields of a system that live on faces, as its coordinates say."""
    coords = system.coords() if isinstance(system, AbstractGridded) else {}
    normal = {n: tuple(i for i, d in enumerate(c.dims) if d.endswith("_face")) for n, c in coords.items()}
    return tuple((name, axes) for name, axes in normal.items() if axes)


def sizes_and_starts(grid: AbstractGrid, faces: Faces | None, name: str) -> tuple[tuple[int, float], ...]:
    """For each axis the number of points of a field, and the first in cells from the lower end of the box.

    Along its normal a field on faces has the lower face of every cell, or the inner faces between walls.
    """
    normal, found = dict(faces or ()).get(name, ()), list[tuple[int, float]]()
    for i, (n, wraps) in enumerate(zip(grid.shape, grid.periodic, strict=True)):
        centred = (n, round(float(grid.axis(i)[0] - grid.corner[i]) / grid.spacing[i], 9))
        found.append(((n, 0.0) if wraps else (n - 1, 1.0)) if i in normal else centred)
    return tuple(found)


def basis(order: int, of_cells: bool) -> np.ndarray:
    """The matrix from powers of t, at the numbers 0, 1, ..., to weights of the values there, or of averages over cells."""
    node, power = np.arange(order)[:, None], np.arange(order)[None, :] + 1
    averages = ((node + 0.5) ** power - (node - 0.5) ** power) / power
    return np.linalg.inv(averages if of_cells else 1.0 * node ** (power - 1))


class AbstractAlongAxes(AbstractObservationOperator):
    """A linear operator that is one small matrix along each axis of the grid, for every field on it.

    Fields with fewer axes than the grid stay as they are.
    """

    grid: eqx.AbstractVar[AbstractGrid | None]
    faces: eqx.AbstractVar[Faces | None]

    @abc.abstractmethod
    def matrix(self, axis: int, size: int, start: float) -> np.ndarray | None:
        """The matrix along an axis, whose columns are the points of a field; None where it changes nothing.

        **Arguments:**

        - `axis`: its number.
        - `size`, `start`: the number of points, and the first in cells from the lower end of the box.
        """

    def __call__(self, t, y, args):
        if self.grid is None:
            raise PdefitError(f"{type(self).__name__} has no grid; give it one, or make it the instrument of a problem")
        return {name: self._applied(name, u, self.grid) for name, u in named_fields(y).items()}

    def on(self, system):
        faces = faces_of(system) if self.faces is None else self.faces
        return dataclasses.replace(self, grid=self.grid or grid_of(system, self), faces=faces)

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
