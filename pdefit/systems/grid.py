"""Uniform Cartesian grids in one, two or three dimensions."""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.block_mean import block_mean
from pdefit._util.memory import too_large
from pdefit.systems.boundary import AbstractBoundary, NoFlux
from pdefit.systems.capabilities import FieldCoords

# arrays of the grid's size that a run holds at least: a state, its coordinates and the stages of a step
_COPIES = 8
_NAMES = ("x", "y", "z")
# the grid's arguments: as many whole numbers, or lengths, as it has axes
COUNTS: dict[str, Any] = {"converter": lambda s: tuple(int(n) for n in s), "static": True}
LENGTHS: dict[str, Any] = {"converter": lambda s: None if s is None else tuple(float(x) for x in s), "static": True}


def _boundaries(value) -> tuple[AbstractBoundary, ...] | AbstractBoundary:
    return tuple(value) if isinstance(value, Sequence) else value


class AbstractGrid(eqx.Module):
    """A box filled with points at equal distances along each of one to three axes.

    `shape` is the number of points along each axis, `extent` the edge lengths of the box, and `origin` its lower corner,
    both in `length_unit`.
    """

    shape: eqx.AbstractVar[tuple[int, ...]]
    extent: eqx.AbstractVar[tuple[float, ...]]
    origin: eqx.AbstractVar[tuple[float, ...] | None]
    length_unit: eqx.AbstractVar[str]

    def __check_init__(self):
        name = type(self).__name__
        if not 1 <= self.ndim <= 3:
            raise ValueError(f"{name} expects one to three axes, but got shape {self.shape}")
        if len(self.extent) != self.ndim or len(self.corner) != self.ndim or len(self.periodic) != self.ndim:
            raise ValueError(
                f"{name} expects extent, origin and boundary for each of its {self.ndim} axes, but got "
                f"extent {self.extent}, origin {self.origin} and {len(self.periodic)} boundaries"
            )
        if min(self.shape) < 2 or min(self.extent) <= 0:
            raise ValueError(
                f"{name} expects at least two cells of positive size, but got {self.shape} cells in a box of {self.extent}"
            )
        if not np.all(np.isfinite([*self.extent, *self.corner])):
            raise ValueError(f"{name} expects finite edges, but got {self.extent} from {self.corner}")
        if size := too_large((*self.shape, _COPIES)):
            raise ValueError(f"{name} of {self.shape} cells takes {size} of memory; take fewer cells")

    @property
    @abc.abstractmethod
    def periodic(self) -> tuple[bool, ...]:
        """For each axis whether its ends are neighbours."""

    @abc.abstractmethod
    def axis(self, i: int) -> np.ndarray:
        """The positions of the points along axis i, (n,), in `length_unit`."""

    @abc.abstractmethod
    def coarsen(self, u: Array, factor: int) -> Array:
        """A field on a grid with fewer points along every axis, as an instrument with larger cells measures it.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        - `factor`: the number of points for one of the coarser grid along every axis, a divisor of the shape.
        """

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def corner(self) -> tuple[float, ...]:
        return (0.0,) * self.ndim if self.origin is None else self.origin

    @property
    def spacing(self) -> tuple[float, ...]:
        return tuple(length / n for length, n in zip(self.extent, self.shape, strict=True))

    def mesh(self) -> tuple[Array, ...]:
        """Coordinates of every point: one array of the grid's shape for each axis."""
        return tuple(jnp.asarray(m) for m in np.meshgrid(*(self.axis(i) for i in range(self.ndim)), indexing="ij"))

    def coords(self, unit: str = "1", long_name: str = "") -> FieldCoords:
        """The coordinates of a scalar field on this grid.

        **Arguments:**

        - `unit`: the unit of the field.
        - `long_name`: the field in words.
        """
        dims = _NAMES[: self.ndim]
        return FieldCoords(
            dims=dims,
            coords={name: self.axis(i) for i, name in enumerate(dims)},
            unit=unit,
            long_name=long_name,
            coord_units=dict.fromkeys(dims, self.length_unit),
        )


class CartesianGrid(AbstractGrid):
    """A box filled with cells of equal size. Values live at cell centres, `origin + (i + 1/2) spacing`.

    **Arguments:**

    - `shape`: the number of cells along each of one to three axes, at least 2.
    - `extent`: the edge lengths of the box, in `length_unit`.
    - `origin`: the lower corner of the box, in `length_unit`; default 0.
    - `boundary`: one condition for all axes, or one for each; default `NoFlux()`.
    - `length_unit`: the unit of lengths; default "1".
    """

    shape: tuple[int, ...] = eqx.field(**COUNTS)
    extent: tuple[float, ...] = eqx.field(**LENGTHS)
    origin: tuple[float, ...] | None = eqx.field(default=None, **LENGTHS)
    boundary: AbstractBoundary | tuple[AbstractBoundary, ...] = eqx.field(default=NoFlux(), converter=_boundaries)
    length_unit: str = eqx.field(default="1", static=True)

    @property
    def boundaries(self) -> tuple[AbstractBoundary, ...]:
        """The condition of each axis."""
        return self.boundary if isinstance(self.boundary, tuple) else (self.boundary,) * self.ndim

    @property
    def periodic(self):
        return tuple(boundary.wraps for boundary in self.boundaries)

    def axis(self, i):
        return self.corner[i] + (np.arange(self.shape[i]) + 0.5) * self.spacing[i]

    def coarsen(self, u, factor):
        if any(n % factor for n in self.shape):
            raise ValueError(f"coarsen expects a shape divisible by {factor}, but got {self.shape}")
        return block_mean(u, (factor,) * self.ndim)
