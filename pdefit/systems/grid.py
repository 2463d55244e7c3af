"""Uniform Cartesian grids in one, two or three dimensions."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.block_mean import block_mean, is_whole, prolong
from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import too_large
from pdefit.systems.boundary import AbstractBoundary, NoFlux
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.inputs import is_input, value_at

# arrays of the grid's size that a run holds at least: a state, its coordinates and the stages of a step
_COPIES = 8
_NAMES = ("x", "y", "z")
# the grid's arguments: as many whole numbers, or lengths, as it has axes
COUNTS: dict[str, Any] = {"converter": lambda s: tuple(int(n) for n in s), "static": True}
LENGTHS: dict[str, Any] = {"converter": lambda s: None if s is None else tuple(float(x) for x in s), "static": True}


# the conditions of one field: one for all axes, or one for each
OfField = AbstractBoundary | tuple[AbstractBoundary, ...]


def _boundaries(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _boundaries(x) for name, x in value.items()}
    return tuple(value) if isinstance(value, Sequence) else value


class AbstractGrid(eqx.Module):
    """A box of equally spaced points along each of one to three axes.

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
        """Periodicity of each axis."""

    @abc.abstractmethod
    def axis(self, i: int) -> np.ndarray:
        """Positions of the points along axis i, (n,), in `length_unit`."""

    def coarsen(self, u: Array, factor: int | float) -> Array:
        """A field on a grid with fewer points along every axis, as measured with larger cells.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        - `factor`: the number of points for one of the coarser grid along every axis; it divides the shape. It may be a
          fraction such as 1.5 if values are averages over cells.
        """
        if any(not is_whole(n / factor) for n in self.shape):
            raise ValueError(f"coarsen expects a shape divisible by {factor}, but got {self.shape}")
        return self._coarsened(u, factor)

    @abc.abstractmethod
    def _coarsened(self, u: Array, factor: int | float) -> Array:
        """The field on the coarser grid, for a factor that divides the shape."""

    @abc.abstractmethod
    def prolonged(self, u: np.ndarray) -> np.ndarray:
        """A field on a grid with twice as many points along every axis; `coarsen` inverts it.

        **Arguments:**

        - `u`: the field, whose last axes have the grid's shape.
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
        return tuple(jax.device_put(m) for m in np.meshgrid(*(self.axis(i) for i in range(self.ndim)), indexing="ij"))

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
    """A box of equal cells. Values live at cell centres, `origin + (i + 1/2) spacing`.

    **Arguments:**

    - `shape`: the number of cells along each of one to three axes, at least 2.
    - `extent`: the edge lengths of the box, in `length_unit`.
    - `origin`: the lower corner of the box, in `length_unit`; default 0.
    - `boundary`: one condition for all axes, or one for each; default `NoFlux()`. A mapping from fields to these if the
      fields of a `ReactionDiffusion` have separate conditions.
    - `length_unit`: the unit of lengths; default "1".
    """

    shape: tuple[int, ...] = eqx.field(**COUNTS)
    extent: tuple[float, ...] = eqx.field(**LENGTHS)
    origin: tuple[float, ...] | None = eqx.field(default=None, **LENGTHS)
    boundary: OfField | dict[str, OfField] = eqx.field(default=NoFlux(), converter=_boundaries)
    length_unit: str = eqx.field(default="1", static=True)

    def __check_init__(self):
        for name in self.boundary if isinstance(self.boundary, dict) else ():
            # each is a grid with its own conditions, which is checked
            self.of(name)

    @property
    def boundaries(self) -> tuple[AbstractBoundary, ...]:
        """Boundary condition of each axis."""
        if isinstance(self.boundary, dict):
            raise PdefitError(
                "Each field has boundary conditions of its own on this grid; take that of a field, grid.of(name)"
            )
        return self.boundary if isinstance(self.boundary, tuple) else (self.boundary,) * self.ndim

    @property
    def periodic(self):
        one = next(iter(self.boundary)) if isinstance(self.boundary, dict) else ""
        return tuple(boundary.wraps for boundary in self.of(one).boundaries)

    def of(self, field: str) -> "CartesianGrid":
        """The grid with the boundary conditions of a field; unchanged if all fields share them.

        **Arguments:**

        - `field`: the name of the field.
        """
        if not isinstance(self.boundary, dict):
            return self
        if field not in self.boundary:
            raise unknown("field (boundary of the grid)", field, self.boundary)
        return dataclasses.replace(self, boundary=self.boundary[field])

    def at(self, t: Array | float, args: PyTree) -> "CartesianGrid":
        """The grid with the values of its boundary conditions at one time; unchanged if no value depends on time.

        **Arguments:**

        - `t`: the time, in the system's time unit.
        - `args`: exogenous inputs, including those named by boundary values.
        """
        return self._with(lambda value: value_at(value, t, args), is_input)

    def homogeneous(self) -> "CartesianGrid":
        """The grid with homogeneous boundary conditions (values 0)."""
        return self._with(lambda boundary: boundary.homogeneous(), lambda x: isinstance(x, AbstractBoundary))

    def _with(self, change: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> "CartesianGrid":
        old, tree = jax.tree.flatten(self.boundary, is_leaf=is_leaf)
        new = [change(x) for x in old]
        same = all(a is b for a, b in zip(new, old, strict=True))
        return self if same else dataclasses.replace(self, boundary=tree.unflatten(new))

    def axis(self, i):
        return self.corner[i] + (np.arange(self.shape[i]) + 0.5) * self.spacing[i]

    def prolonged(self, u):
        return prolong(u, self.periodic)

    def _coarsened(self, u, factor):
        return block_mean(u, (factor,) * self.ndim)
