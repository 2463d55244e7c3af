"""A uniform, cell-centred Cartesian grid in one, two or three dimensions."""

from collections.abc import Sequence

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


def _boundaries(value) -> tuple[AbstractBoundary, ...] | AbstractBoundary:
    return tuple(value) if isinstance(value, Sequence) else value


class CartesianGrid(eqx.Module):
    """A box filled with cells of equal size. Values live at cell centres, `origin + (i + 1/2) spacing`.

    **Arguments:**

    - `shape`: the number of cells along each of one to three axes, at least 2.
    - `extent`: the edge lengths of the box, in `length_unit`.
    - `origin`: the lower corner of the box, in `length_unit`; default 0.
    - `boundary`: one condition for all axes, or one for each; default `NoFlux()`.
    - `length_unit`: the unit of lengths; default "1".
    """

    shape: tuple[int, ...] = eqx.field(converter=lambda s: tuple(int(n) for n in s), static=True)
    extent: tuple[float, ...] = eqx.field(converter=lambda s: tuple(float(x) for x in s), static=True)
    origin: tuple[float, ...] | None = eqx.field(
        default=None, converter=lambda s: None if s is None else tuple(float(x) for x in s), static=True
    )
    boundary: AbstractBoundary | tuple[AbstractBoundary, ...] = eqx.field(default=NoFlux(), converter=_boundaries)
    length_unit: str = eqx.field(default="1", static=True)

    def __check_init__(self):
        if not 1 <= self.ndim <= 3:
            raise ValueError(f"CartesianGrid expects one to three axes, but got shape {self.shape}")
        if len(self.extent) != self.ndim or len(self.corner) != self.ndim or len(self.boundaries) != self.ndim:
            raise ValueError(
                f"CartesianGrid expects extent, origin and boundary for each of its {self.ndim} axes, but got "
                f"extent {self.extent}, origin {self.origin} and {len(self.boundaries)} boundaries"
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
        return self.boundary if isinstance(self.boundary, tuple) else (self.boundary,) * self.ndim

    @property
    def periodic(self) -> tuple[bool, ...]:
        """For each axis whether its ends are neighbours."""
        return tuple(boundary.wraps for boundary in self.boundaries)

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
