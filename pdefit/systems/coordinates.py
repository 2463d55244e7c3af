"""Coordinates of a field: the names of its axes, positions along them, and units."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class FieldCoords:
    """Dimensions, coordinates and unit of a field of the state.

    **Arguments:**

    - `dims`: the name of each axis.
    - `coords`: the values along each dimension, (n,): positions of cells as numbers, or labels such as names of bodies.
    - `unit`: the unit of the field; default "1".
    - `long_name`: the field in words, for pictures and files.
    - `coord_units`: the unit of each dimension's values; default "1".
    - `vector`, `component`: for a component of a vector, the vector's name, such as `velocity`, and the name of the
      axis along which it points, such as `x`. Pictures then show arrows.
    - `radius`: the radius of a sphere, in the length unit of vectors on it, if the two dimensions are its colatitude
      and longitude in radians; 0 if there is no sphere.
    - `view`: the plugin that draws fields on these axes, such as `sphere`, by its file view.py; empty for maps and lines.

    A dimension of positions on the faces between cells ends in `_face`, such as `x_face` along the axis `x`.
    """

    dims: tuple[str, ...]
    coords: dict[str, np.ndarray]
    unit: str = "1"
    long_name: str = ""
    coord_units: dict[str, str] = dataclasses.field(default_factory=dict)
    vector: str = ""
    component: str = ""
    radius: float = 0.0
    view: str = ""

    @classmethod
    def numbered(cls, name: str, shape: tuple[int, ...], unit: str = "1") -> "FieldCoords":
        """Axes with indices instead of positions, named `name_0`, `name_1` and so on.

        **Arguments:** `name`, `shape`, `unit`: the name, shape and unit of the field.
        """
        axes = {f"{name}_{i}": np.arange(n) for i, n in enumerate(shape)}
        return cls((*axes,), axes, unit)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of points along each axis."""
        return tuple(self.coords[dim].size for dim in self.dims)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels along the first axis, such as names of bodies; empty for positions and numbers."""
        first = np.asarray(self.coords[self.dims[0]]) if self.dims else np.zeros(0)
        return tuple(map(str, first)) if first.dtype.kind in "US" else ()
