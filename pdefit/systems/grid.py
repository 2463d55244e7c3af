"""A uniform, cell-centred Cartesian grid in one, two or three dimensions."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.block_mean import block_mean
from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import too_large
from pdefit.systems.boundary import AbstractBoundary, NoFlux
from pdefit.systems.capabilities import FieldCoords

# arrays of the grid's size that a run holds at least: a state, its coordinates and the stages of a step
_COPIES = 8
_NAMES = ("x", "y", "z")


# the conditions of one field: one for all axes, or one for each
OfField = AbstractBoundary | tuple[AbstractBoundary, ...]


def _boundaries(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _boundaries(x) for name, x in value.items()}
    return tuple(value) if isinstance(value, Sequence) else value


class CartesianGrid(eqx.Module):
    """A box filled with cells of equal size. Values live at cell centres, `origin + (i + 1/2) spacing`.

    **Arguments:**

    - `shape`: the number of cells along each of one to three axes, at least 2.
    - `extent`: the edge lengths of the box, in `length_unit`.
    - `origin`: the lower corner of the box, in `length_unit`; default 0.
    - `boundary`: one condition for all axes, or one for each; default `NoFlux()`. A mapping from fields to these where
      the fields of a `ReactionDiffusion` have conditions of their own.
    - `length_unit`: the unit of lengths; default "1".
    """

    shape: tuple[int, ...] = eqx.field(converter=lambda s: tuple(int(n) for n in s), static=True)
    extent: tuple[float, ...] = eqx.field(converter=lambda s: tuple(float(x) for x in s), static=True)
    origin: tuple[float, ...] | None = eqx.field(
        default=None, converter=lambda s: None if s is None else tuple(float(x) for x in s), static=True
    )
    boundary: OfField | dict[str, OfField] = eqx.field(default=NoFlux(), converter=_boundaries)
    length_unit: str = eqx.field(default="1", static=True)

    def __check_init__(self):
        if not 1 <= self.ndim <= 3:
            raise ValueError(f"CartesianGrid expects one to three axes, but got shape {self.shape}")
        of_fields = list(self.boundary.values()) if isinstance(self.boundary, dict) else [self.boundary]
        counts = {len(b) if isinstance(b, tuple) else self.ndim for b in of_fields}
        if len(self.extent) != self.ndim or len(self.corner) != self.ndim or counts != {self.ndim}:
            raise ValueError(
                f"CartesianGrid expects extent, origin and boundary for each of its {self.ndim} axes, but got "
                f"extent {self.extent}, origin {self.origin} and {counts} boundaries"
            )
        if min(self.shape) < 2 or min(self.extent) <= 0:
            raise ValueError(f"CartesianGrid expects at least two cells of positive size, but got {self.shape} cells "
                             f"in a box of {self.extent}")  # fmt: skip
        if not np.all(np.isfinite([*self.extent, *self.corner])):
            raise ValueError(f"CartesianGrid expects finite edges, but got {self.extent} from {self.corner}")
        if size := too_large((*self.shape, _COPIES)):
            raise ValueError(f"CartesianGrid of {self.shape} cells takes {size} of memory; take fewer cells")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def corner(self) -> tuple[float, ...]:
        return (0.0,) * self.ndim if self.origin is None else self.origin

    @property
    def boundaries(self) -> tuple[AbstractBoundary, ...]:
        """The condition of each axis."""
        if isinstance(self.boundary, dict):
            raise PdefitError(
                "Each field has boundary conditions of its own on this grid; take that of a field, grid.of(name)"
            )
        return self.boundary if isinstance(self.boundary, tuple) else (self.boundary,) * self.ndim

    @property
    def periodic(self) -> tuple[bool, ...]:
        """For each axis whether its ends are neighbours."""
        one = next(iter(self.boundary)) if isinstance(self.boundary, dict) else ""
        return tuple(boundary.wraps for boundary in self.of(one).boundaries)

    def of(self, field: str) -> "CartesianGrid":
        """The grid with the boundary conditions of a field, or the grid itself where all fields share them.

        **Arguments:**

        - `field`: the name of the field.
        """
        if not isinstance(self.boundary, dict):
            return self
        if field not in self.boundary:
            raise unknown("field (boundary of the grid)", field, self.boundary)
        return dataclasses.replace(self, boundary=self.boundary[field])

    def at(self, t: Array | float, args: PyTree) -> "CartesianGrid":
        """The grid with the values of its boundary conditions at one time, or itself where none depends on it.

        **Arguments:**

        - `t`: the time, in the system's time unit.
        - `args`: exogenous inputs, among which are those that boundary values name.
        """
        return self._with(lambda boundary: boundary.at(t, args))

    def homogeneous(self) -> "CartesianGrid":
        """The grid with boundary conditions whose values are 0."""
        return self._with(lambda boundary: boundary.homogeneous())

    def _with(self, change: Callable[[AbstractBoundary], AbstractBoundary]) -> "CartesianGrid":
        old, tree = jax.tree.flatten(self.boundary, is_leaf=lambda x: isinstance(x, AbstractBoundary))
        new = [change(boundary) for boundary in old]
        same = all(a is b for a, b in zip(new, old, strict=True))
        return self if same else dataclasses.replace(self, boundary=tree.unflatten(new))

    @property
    def spacing(self) -> tuple[float, ...]:
        return tuple(length / n for length, n in zip(self.extent, self.shape, strict=True))

    def axis(self, i: int) -> np.ndarray:
        """Cell centres along axis i, (n,), in `length_unit`."""
        return self.corner[i] + (np.arange(self.shape[i]) + 0.5) * self.spacing[i]

    def mesh(self) -> tuple[Array, ...]:
        """Coordinates of every cell centre: one array of the grid's shape for each axis."""
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

    def coarsen(self, u: Array, factor: int) -> Array:
        """Averages of a field over blocks of cells: what an instrument with larger cells measures.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        - `factor`: the number of cells of a block along every axis, a divisor of the shape.
        """
        if any(n % factor for n in self.shape):
            raise ValueError(f"coarsen expects a shape divisible by {factor}, but got {self.shape}")
        return block_mean(u, (factor,) * self.ndim)
